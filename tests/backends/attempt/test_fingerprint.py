"""Fingerprints: what changes them, what does not, and why a product is stale."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends.attempt.job_examples import rendered, with_task
from weft.backends.attempt.fingerprint import compute_fingerprint, explain_staleness
from weft.backends.backend import Product
from weft.platform.machine import Machine
from weft.workflow.task import Environment

FACETS = {"command": "x --n {nodes} {machine.name} $(({cores}+1)) {p}", "params": {"p": 1}, "outputs": ["o"]}
OTHER = Machine(name="elsewhere", arch="x86_64", nodes=8)


def key(tmp_path, facets=None, inputs=None, scripts=None, **more):
    job = rendered(with_task(**{**FACETS, **(facets or {})}), tmp_path, **more)
    return compute_fingerprint(job, inputs or {}, scripts or {}).key


def test_fingerprint_does_not_depend_on_machine_and_node_count(tmp_path):
    one = key(tmp_path)
    assert one == key(
        tmp_path, machine=OTHER, nodes=4, count=4, attempt_number=3, restart=True, limits=(9.0, 1e9)
    )
    assert one == key(tmp_path, workdir=tmp_path / "a" / "b" / "c", records=tmp_path / "r")
    surrounded = {"wrapper": "mpirun -n {nodes}", "environment": {"modules": ["gcc"]}}
    assert key(tmp_path, surrounded) == key(tmp_path, surrounded, nodes=4, count=4)
    calls = [rendered(with_task(call="m:f"), tmp_path, nodes=nodes, count=nodes) for nodes in (1, 4)]
    assert len({compute_fingerprint(job, {}, {}).key for job in calls}) == 1


def test_every_dependency_changes_the_fingerprint(tmp_path):
    keys = [
        key(tmp_path),
        key(tmp_path, {"params": {"p": 2}}),
        key(tmp_path, {"env": {"A": "1"}}),
        key(tmp_path, {"env": {"A": "2"}}),
        key(tmp_path, {"version": "2"}),
        key(tmp_path, {"outputs": ["o", "p"]}),
        key(tmp_path, {"environment": {"container": "a"}}),
        key(tmp_path, {"environment": {"container": "b"}}),
        key(tmp_path, {"prolog": "a"}),
        key(tmp_path, {"epilog": "a"}),
        key(tmp_path, {"stdin": "a"}),
        key(tmp_path, inputs={"a": "1"}),
        key(tmp_path, inputs={"a": "2"}),
        key(tmp_path, inputs={"b": "1"}),
        key(tmp_path, scripts={"a": "1"}),
        key(tmp_path, iteration=2),
        key(tmp_path, folder=tmp_path / "sub"),
    ]
    assert len(set(keys)) == len(keys)


def test_moved_project_has_the_same_fingerprints(tmp_path):
    places = [tmp_path / "one", tmp_path / "two"]
    assert len({key(place, folder=place / "flows") for place in places}) == 1


def test_tasks_with_different_names_have_different_fingerprints(tmp_path):
    known = with_task(sweep={"k": [1, 2]}, command="true")
    jobs = [rendered(known, tmp_path, f"job[{k}]") for k in (1, 2)]
    assert len({compute_fingerprint(job, {}, {}).key for job in jobs}) == 2


def product(found):
    return Product(execution=1, run=0, task=0, name="job", kind="job", workflow="w", attempt=1, fingerprint=found.key,
                   parts=found.parts)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "inputs", "scripts", "words"),
    [
        ({}, {"mesh": "b" * 40, "old": "c"}, {}, "input mesh changed; script run.py was removed"),
        (
            {},
            {"mesh": "a" * 40, "new": "c"},
            {"run.py": "s"},
            "input new is new; input old was removed",
        ),
        ({"command": "y"}, None, None, "the command changed from 'x'"),
        ({"version": "3"}, None, None, "the version changed from 'none'"),
        (
            {"declared": {"A": "2", "B": "1"}},
            None,
            None,
            "environment variable A changed; environment variable B is new",
        ),
        ({"environment": Environment(container="i")}, None, None, "environment variable container is new"),
        ({"outputs": ("q",)}, None, None, "the outputs changed from 'o'"),
        ({}, None, None, ""),
    ],
)
def test_explanation_names_the_reason_for_a_stale_product(tmp_path, change, inputs, scripts, words):
    job = rendered(with_task(command="x", env={"A": "1"}, outputs=["o"]), tmp_path)
    old_inputs, old_scripts = {"mesh": "a" * 40, "old": "c"}, {"run.py": "s"}
    old = product(compute_fingerprint(job, old_inputs, old_scripts))
    new = compute_fingerprint(
        replace(job, **change),
        old_inputs if inputs is None else inputs,
        old_scripts if scripts is None else scripts,
    )
    assert explain_staleness(new.parts, old) == words
    assert (new.key == old.fingerprint) is (words == "")


def test_secrets_and_long_lists_are_stored_as_digests(tmp_path):
    job = rendered(with_task(command="x " + "y" * 5000, env={"TOKEN": "secret-word"}), tmp_path)
    many = {f"f{number}": "d" * 40 for number in range(5000)}
    found = compute_fingerprint(job, many, {})
    assert "secret-word" not in str(found.parts)
    assert sum(map(len, found.parts.values())) < 1000
    changed = compute_fingerprint(job, {**many, "f77": "e" * 40}, {})
    assert changed.key != found.key
    assert explain_staleness(changed.parts, product(found)) == "at least one input changed"


def test_explanation_names_the_workflow_or_iteration_that_made_a_stale_product(tmp_path):
    job = rendered(with_task(command="x"), tmp_path)
    elsewhere = compute_fingerprint(replace(job, identity="sub:job:1"), {}, {})
    here, later = (compute_fingerprint(replace(job, identity=f":job:{number}"), {}, {}) for number in (1, 2))
    assert explain_staleness(here.parts, product(elsewhere)) == "it was produced by a workflow in sub"
    assert (
        explain_staleness(elsewhere.parts, product(here))
        == "it was produced by a workflow in the project folder"
    )
    assert explain_staleness(later.parts, product(here)) == "it was produced by job, iteration 1"
    unknown = replace(product(here), fingerprint="", parts={})
    assert explain_staleness(here.parts, unknown) == "its earlier fingerprint was not recorded"


def test_values_and_words_of_a_command_change_the_fingerprint(tmp_path):
    def keys(facets, *params):
        return [
            compute_fingerprint(rendered(with_task(params=given, **facets), tmp_path), {}, {}).key
            for given in params
        ]

    same_word = keys({"command": "x {a}{b}"}, {"a": "1", "b": "23"}, {"a": "12", "b": "3"})
    in_prolog = keys({"command": ["x", "{a}"], "prolog": "p {b}"}, {"a": "1", "b": "2"}, {"a": "2", "b": "2"})
    raw = keys({"command": "x {a:raw}"}, {"a": "1"}, {"a": "2"})
    for pair in (same_word, in_prolog, raw):
        assert len(set(pair)) == 2
    assert keys({"command": "x {a}"}, {"a": "1"}) == keys({"command": "x {a}"}, {"a": "1"})


def test_explanation_blames_a_value_only_if_both_values_are_recorded(tmp_path):
    task = {"command": "x {a}{b}"}
    old, new = (
        compute_fingerprint(rendered(with_task(params=given, **task), tmp_path), {}, {})
        for given in ({"a": "1", "b": "23"}, {"a": "12", "b": "3"})
    )
    assert old.parts["command"] == new.parts["command"]
    assert explain_staleness(new.parts, product(old)) == "its command or a value in it changed"
    older = {name: text for name, text in old.parts.items() if name != "values"}
    assert explain_staleness(new.parts, replace(product(old), parts=older)) == ""
