"""Templates: which fields are replaced, and which are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.workflow.templates import TemplateField, fill_template, format_value, is_late, list_fields
from workflow.workflow_texts import graph_of, messages_of, problems_in

VALUES = {"k": 3, "t": 0.4, "name": "a b", "flag": True, "inputs": ["x y", "z"]}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("vector.{k}", "vector.3"),
        ("{k}{t}", "30.4"),
        ("{flag}", "true"),
        ("{{k}}", "{k}"),
        ("{{{k}}}", "{3}"),
        ("a}}b{{c", "a}b{c"),
        ("${k} ${HOME:-x} $k", "${k} ${HOME:-x} $k"),
        ("${{k}} ${{HOME:-x}} ${{{k}}}", "${k} ${HOME:-x} ${3}"),
        ("awk '{print $1}'", "awk '{print $1}'"),
        ("{} {1} {k + 1} {k:d}", "{} {1} {k + 1} {k:d}"),
        ("{unknown} {machine.arch}", "{unknown} {machine.arch}"),
        ("{name:raw}", "a b"),
        ("{unknown:raw}", "{unknown:raw}"),
        ("{inputs}", "x y z"),
    ],
)
def test_known_names_in_a_template_are_replaced_and_others_kept(text, filled):
    assert fill_template(text, VALUES) == filled


def test_doubled_braces_are_kept_until_the_last_substitution():
    text = "{{k}} {k} {machine.arch} ${x} {{machine.arch}}"
    first = fill_template(text, {"k": 1}, last=False)
    assert first == "{{k}} 1 {machine.arch} ${x} {{machine.arch}}"
    assert fill_template(first, {"k": 2, "machine.arch": "x86"}) == "{k} 1 x86 ${x} {machine.arch}"


@given(
    st.text(alphabet="ab{}$: .", max_size=20),
    st.dictionaries(st.sampled_from("ab"), st.text(alphabet="xy z'\"\n", max_size=3)),
)
def test_two_successive_substitutions_give_the_same_result_as_one(text, values):
    first = {key: value for key, value in values.items() if key == "a" and "{" not in value}
    assert fill_template(fill_template(text, first, last=False), values) == fill_template(text, values)


def test_fields_of_a_template_are_listed():
    assert list_fields("a {k} ${x} {{y}} {m.n:raw}") == [
        TemplateField("k", False),
        TemplateField("m.n", True),
    ]
    assert list_fields("nothing") == []


def test_is_late_is_true_for_names_that_have_a_value_only_at_run_time():
    late = (
        "inputs",
        "outputs",
        "nodes",
        "cores",
        "memory_mb",
        "iteration",
        "task",
        "machine.arch",
        "a.result.x",
    )
    assert all(map(is_late, late))
    assert not is_late("k")


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (0.1 + 0.2, "0.3"), (2.0, "2"), (False, "false"), ("x", "x")]
)
def test_format_value_gives_the_text_of_a_value(value, text):
    assert format_value(value) == text


def test_commands_may_use_all_run_time_names_and_results_of_tasks():
    command = "x {inputs} {outputs} {nodes} {cores} {memory_mb} {iteration} {task} {machine.name} {a.result.delta} {p:raw}"
    assert messages_of(f"params: {{p: 1}}\ntasks: {{a: , b: {{after: a, command: '{command}'}}}}") == []


@pytest.mark.parametrize("field", ["a.result.delta", "a.exit_code", "nodes", "inputs", "machine.speed"])
@pytest.mark.parametrize(
    "key",
    [
        "inputs: ['{}']",
        "inputs: [{file: f, from: 'x/{}'}]",
        "outputs: ['x.{}']",
        "outputs: {f: {to: '{}'}}",
        "checkpoint: ['{}']",
        "progress: '{}'",
        "machine: '{}'",
    ],
)
def test_field_is_refused_in_a_key_in_which_it_has_no_value(key, field):
    text = key.replace("{}", "{" + field + "}")
    (problem,) = problems_in(f"tasks: {{a: , b: {{after: a, command: c, {text}}}}}")
    assert problem.what.startswith(f"{{{field}}} in ")
    assert problem.what.endswith("has no value there")
    assert problem.rule.startswith(
        f"a text of `{key.partition(':')[0]}` may contain parameters, sweep variables"
    )
    assert problem.advice


@pytest.mark.parametrize(
    "key",
    [
        "version: '{p}'",
        "call: 'm:{p}'",
        "environment: {container: 'image:{p}'}",
        "environment: {modules: ['{p}']}",
        "isolate: {with: bubblewrap, read: ['/data/{p}']}",
    ],
)
def test_field_is_refused_in_a_key_whose_fields_are_not_replaced(key):
    command = "" if key.startswith("call") else "command: c, "
    (message,) = messages_of(f"params: {{p: 1}}\ntasks: {{a: {{{command}{key}}}}}")
    assert "would not be replaced" in message


def test_file_names_may_contain_iteration_task_and_machine():
    names = "{iteration}.{task}.{machine.name}.{machine.arch}.{machine.os}"
    keys = f"inputs: ['i.{names}', {{file: j, from: '{names}'}}], outputs: {{'{names}': {{to: 'x/{names}'}}}}"
    assert messages_of(f"tasks: {{a: {{command: c, {keys}}}}}") == []


def test_shell_and_awk_braces_are_not_fields():
    assert messages_of("tasks: {a: {command: \"awk '{print $1}' ${FILE} {{literal}}\"}}") == []


def test_fields_known_only_at_run_time_are_kept_in_file_names_and_equal_names_match():
    graph = graph_of("tasks: {a: {outputs: ['x.{iteration}']}, b: {inputs: ['x.{iteration}']}}")
    assert graph.edge_count == 1
