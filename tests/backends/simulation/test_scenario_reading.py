"""Scenario files: each key is read with its meaning, and each problem is reported with its place."""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import replace

import jsonschema
import pytest

from weft.backends.simulation.scenario import (
    UNDISTURBED,
    Arrival,
    ArrivalTrace,
    Cancellation,
    CompetingLoad,
    Durations,
    Failure,
    Perturbation,
    RequirementChange,
    Scenario,
    Series,
    Silence,
    Span,
    Suspension,
    find_task_value,
    match_positions,
    matches_task,
)
from weft.backends.simulation.scenario_reader import (
    MAX_ARRIVALS,
    SCENARIO,
    SCENARIO_RECORDS,
    is_scenario,
    load_scenario,
    read_scenario,
    scenario_schema,
)
from weft.documents import Document, from_python
from weft.errors import InvalidInput
from weft.expressions import parse
from weft.formats.yaml_document import parse_document

SCHEMA = jsonschema.Draft202012Validator(scenario_schema())

FULL = """\
    weft: 1
    name: all
    description: every key
    arrivals:
      - {workflow: loop.yaml, at: 5s, owner: ann}
      - {mix: {gee.yaml: 2, maxdo.yaml: 1}, every: 12s, from: 1m}
      - {workflow: gee.yaml, count: 3, poisson: 45s, owner: ben}
      - {order: [a.yaml, b.yaml, a.yaml], every: 2}
      - {workflow: gee.yaml, count: 2, at: 7}
    durations: {noise: 0.05, bias: 1.1, tasks: {lapw1: {bias: 2}, "lapw2[3]": {noise: 0}}}
    perturbations:
      - {machines: "*", every: 4s, slowdown: 3..10, lasting: 100s..600s}
      - {every: 4s, slowdown: 2, lasting: 5, from: 10, until: 90}
      - {machine: m1, at: 1m, slowdown: 2.5}
    failures:
      - {machine: altix3, at: 100s, repair: 300s}
      - {machines: ["altix{1..2}", "b*"], mtbf: 6h, repair: 10m}
    loads: {machine: m1, at: 120s, processes: 3, until: 300s}
    silences: [{machine: m1, at: 10, lasting: 20, what: gatekeeper}, {machine: m2}]
    suspensions: [{task: a, at: 5, lasting: 10}]
    cancellations: [{task: "a[2]", at: 6}]
    requirements: [{task: a, after: 0.66, expression: memory >= 512*MB, rank: speed}]
    exit_codes: {a: [1, oom, 0], b: 3}
    results: {conv: [{delta: 0.5, ok: false}, {delta: 1e-7, note: done}]}
    iterations: {scf: 3}
    lines: {parts: 12}
    network: shared
    overhead_per_task: 250ms
    stage_latency: 19s
    profiles: {a: 100}
    denied: ["m{1..2}", "b*"]
    replanning: {seconds_per_point: 7ms}
    """

ALL = Scenario(
    name="all",
    arrivals=(
        Arrival(workflow="loop.yaml", at_s=5.0, owner="ann"),
        Series(workflows=("gee.yaml", "gee.yaml", "maxdo.yaml"), shuffled=True, from_s=60.0, every_s=12.0),
        Series(workflows=("gee.yaml",) * 3, every_s=45.0, poisson=True, owner="ben"),
        Series(workflows=("a.yaml", "b.yaml", "a.yaml"), every_s=2.0),
        Series(workflows=("gee.yaml", "gee.yaml"), from_s=7.0),
    ),
    durations=Durations(
        noise=0.05,
        bias=1.1,
        tasks={"lapw1": Durations(noise=0.05, bias=2.0), "lapw2[3]": Durations(noise=0.0, bias=1.1)},
    ),
    perturbations=(
        Perturbation(
            machines=("*",),
            every_s=4.0,
            slowdown=Span(low=3.0, high=10.0),
            lasting_s=Span(low=100.0, high=600.0),
        ),
        Perturbation(
            machines=("*",),
            every_s=4.0,
            slowdown=Span(low=2, high=2),
            lasting_s=Span(low=5, high=5),
            at_s=10.0,
            until_s=90.0,
        ),
        Perturbation(
            machines=("m1",),
            at_s=60.0,
            slowdown=Span(low=2.5, high=2.5),
            lasting_s=Span(low=math.inf, high=math.inf),
        ),
    ),
    failures=(
        Failure(machines=("altix3",), at_s=100.0, repair_s=300.0),
        Failure(machines=("altix1", "altix2", "b*"), mtbf_s=21600.0, repair_s=600.0),
    ),
    loads=(CompetingLoad(machines=("m1",), at_s=120.0, processes=3, until_s=300.0),),
    silences=(
        Silence(machines=("m1",), at_s=10.0, lasting_s=20.0, what="gatekeeper"),
        Silence(machines=("m2",)),
    ),
    suspensions=(Suspension(task="a", at_s=5.0, lasting_s=10.0),),
    cancellations=(Cancellation(task="a[2]", at_s=6.0),),
    requirements=(
        RequirementChange(task="a", after=0.66, requirements=parse("memory >= 512*MB"), rank=parse("speed")),
    ),
    exit_codes={"a": (1, "oom", 0), "b": (3,)},
    results={"conv": ({"delta": 0.5, "ok": False}, {"delta": 1e-7, "note": "done"})},
    iterations={"scf": 3},
    lines={"parts": 12},
    network="shared",
    overhead_per_task_s=0.25,
    stage_latency_s=19.0,
    profiles={"a": 100},
    denied=("m1", "m2", "b*"),
    replanning_s_per_point=0.007,
)


def tree(text):
    return parse_document(textwrap.dedent(text), "folder/some.yaml")


def problems(text):
    with pytest.raises(InvalidInput) as caught:
        read_scenario(tree(text))
    return caught.value.problems


def test_every_key_of_a_scenario_is_read():
    assert read_scenario(tree(FULL)) == ALL


def test_example_of_the_format_is_read():
    scenario = read_scenario(
        tree("""\
        weft: 1
        arrivals:
          - {workflow: loop.yaml, at: 0s, owner: ann}
          - {mix: {gee.yaml: 10, maxdo.yaml: 25, pipealign.yaml: 16}, every: 12s, from: 0s}
          - {workflow: gee.yaml, count: 100, poisson: 45s}
        durations: {noise: 0.05, bias: 1.0}
        perturbations: [{machines: "*", every: 4s, slowdown: 3..10, lasting: 100s..600s}]
        failures: [{machine: altix3, at: 100s, repair: 300s}, {machines: "altix*", mtbf: 6h, repair: 10m}]
        overhead_per_task: 0.25s
        iterations: {scf: 3}
        replanning: {seconds_per_point: 7ms}
        """)
    )
    assert [len(each.workflows) for each in scenario.arrivals[1:]] == [51, 100]
    assert (scenario.name, str(scenario.folder)) == ("some", "folder")


def test_empty_scenario_file_equals_the_default_scenario():
    for text in ("weft: 1", "weft: 1\narrivals:\ndurations:\nloads: []"):
        found = read_scenario(tree(text))
        assert found == Scenario(name="some")
    assert UNDISTURBED.network == "unshared"


def test_all_problems_of_a_scenario_file_are_reported_and_each_has_a_location():
    found = problems("""\
        weft: 1
        arivals: []
        durations: {noise: -1, bias: big}
        failures: [{at: 5}, {machine: m, mtbf: 0}]
        network: sharde
        """)
    assert [(each.location.line, each.path) for each in found] == [
        (2, ()),
        (3, ("durations", "noise")),
        (3, ("durations", "bias")),
        (4, ("failures", 0)),
        (4, ("failures", 1, "mtbf")),
        (5, ("network",)),
    ]
    assert "did you mean 'arrivals'?" in str(found[0])
    assert "did you mean 'shared'?" in str(found[-1])


ENTRIES = {
    "arrivals: [{workflow: a, order: [b]}]": "'workflow' and 'order'",
    "arrivals: [{workflow: a, at: 1, every: 2}]": "'at' and 'every'",
    "arrivals: [{workflow: a, at: 1, from: 2}]": "'at' and 'from'",
    "arrivals: [{owner: ann}]": "names no workflow",
    "arrivals: [{mix: {}}]": "the mix contains no workflows",
    "arrivals: [{order: []}]": "the order contains no workflows",
    "arrivals: [{mix: {a: 0}}]": "at least 1",
    "arrivals: [{mix: {a: 1}, count: 3}]": "'count' is stated together with 'mix'",
    "arrivals: [{workflow: a, count: 1.5}]": "whole number",
    f"arrivals: [{{workflow: a, count: {MAX_ARRIVALS + 1}}}]": "more than 1,000,000",
    "arrivals: [{workflow: [a]}]": "must be text",
    "arrivals: [{workflow: a, evry: 3}]": "did you mean 'every'?",
    "arrivals: [5]": "must be a mapping",
    "arrivals: [{workflow: a, at: soon}]": "'soon' is not allowed",
    "arrivals: [{workflow: a, at: -1}]": "at least 0",
    "arrivals: [{workflow: a, at: .nan}]": "nan is not allowed",
    "durations: {noise: 1e400}": "is not allowed",
    "durations: {bias: 0}": "above 0",
    "durations: {tasks: {a: {nois: 1}}}": "did you mean 'noise'?",
    "perturbations: [{machine: m}]": "'slowdown'",
    "perturbations: [{machine: m, slowdown: 0.5}]": "at least 1",
    "perturbations: [{machine: m, slowdown: 10..3}]": "smaller bound comes first",
    "perturbations: [{machine: m, slowdown: a..b}]": "range 'a..b'",
    "perturbations: [{slowdown: 2}]": "the entry names no machines",
    "perturbations: [{slowdown: 2, every: 3}]": "'lasting'",
    "perturbations: [{machine: m, slowdown: 2, until: 3}]": "'until' is stated without 'every'",
    "perturbations: [{machine: m, slowdown: 2, at: 1, every: 3, lasting: 1}]": "'at' and 'every'",
    "failures: [{machine: m, at: 1, mtbf: 5}]": "'at' and 'mtbf'",
    "failures: [{machine: m, machines: n}]": "'machine' and 'machines'",
    "failures: [{machines: []}]": "no machine is named",
    "failures: [{machines: 'm{3..1}'}]": "is descending",
    "loads: [{machine: m, processes: 0}]": "at least 1",
    "loads: [{machine: m, at: 5, until: 4}]": "ends before it begins",
    "silences: [{machine: m, what: gatekeper}]": "did you mean 'gatekeeper'?",
    "suspensions: [{at: 5}]": "'task'",
    "suspensions: [{task: a}]": "'at'",
    "requirements: [{task: a, after: 1.5, rank: speed}]": "at most 1",
    "requirements: [{task: a, after: 0.5}]": "the change states neither requirements nor a rank",
    "requirements: [{task: a, after: 0.5, expression: 'memory >='}]": "invalid syntax",
    "exit_codes: {a: [256]}": "at most 255",
    "exit_codes: {a: [-1]}": "at least 0",
    "exit_codes: {a: [oon]}": "did you mean 'oom'?",
    "exit_codes: {a: []}": "the list for 'a' is empty",
    "results: {a: [5]}": "must be a mapping",
    "results: {a: [{x: [1]}]}": "a result contains no lists or mappings",
    "iterations: {scf: 0}": "at least 1",
    "lines: {parts: -1}": "at least 0",
    "profiles: {a: 0}": "at least 1",
    "denied: [[m]]": "must be text",
    "overhead_per_task: [1]": "must be a time",
    "replanning: {second_per_point: 1}": "did you mean 'seconds_per_point'?",
}


@pytest.mark.parametrize(("text", "printed"), ENTRIES.items())
def test_error_about_an_invalid_scenario_entry_names_location_and_reason(text, printed):
    (found,) = problems(f"weft: 1\n{text}")
    assert printed in str(found)
    assert found.location.line == 2


@pytest.mark.parametrize(
    ("text", "printed"),
    {"loads: []": "a scenario without the key 'weft'", "weft: 2": "version 2", "[5]": "mapping"}.items(),
)
def test_version_of_a_scenario_file_is_required(text, printed):
    assert printed in str(problems(text)[0])


def test_schema_accepts_what_the_reader_accepts():
    SCHEMA.check_schema(scenario_schema())
    SCHEMA.validate(json.loads(json.dumps(tree(FULL).root.to_plain())))


SLACK = {"'at' and", "must be a time", "'soon'", "nan", "is not allowed", "range", "smaller", "descending", "without 'every'",
         "'lasting'", "no machine is named", "ends before", "invalid syntax", "together", "more than", "names no machines"}  # fmt: skip
"""Parts of messages about rules that the JSON Schema does not check, only the reader."""


@pytest.mark.parametrize(
    "text", [text for text, printed in ENTRIES.items() if not any(word in printed for word in SLACK)]
)
def test_schema_rejects_invalid_values_of_single_keys(text):
    assert not SCHEMA.is_valid(tree(f"weft: 1\n{text}").root.to_plain())


def test_scenario_schema_describes_every_record():
    def objects(shape):
        if isinstance(shape, dict):
            yield shape.get("properties", {})
        for value in shape.values() if isinstance(shape, dict) else shape if isinstance(shape, list) else ():
            yield from objects(value)

    found = [
        {key: value.get("description") for key, value in each.items()} for each in objects(scenario_schema())
    ]
    assert [name for name, record in SCENARIO_RECORDS.items() if record.help not in found] == []


def test_written_scenario_reads_back_the_same():
    for scenario in (ALL, Scenario(name="nothing"), replace(ALL, durations=Durations(bias=2.0))):
        document = Document(file="folder/some.yaml", root=from_python(SCENARIO.write(scenario)))
        assert read_scenario(document) == scenario
        SCHEMA.validate(json.loads(json.dumps(SCENARIO.write(scenario))))


@pytest.mark.parametrize(
    ("name", "stored"),
    [("scenario", Scenario()), ("durations", Durations()), ("failure", Failure(machines=())),
     ("load", CompetingLoad(machines=(), processes=1)), ("silence", Silence(machines=())),
     ("suspension", Suspension(task="", at_s=0.0))],
)  # fmt: skip
def test_defaults_of_fields_are_those_of_the_records(name, stored):
    for field in SCENARIO_RECORDS[name].fields:
        if field.default is not None:
            assert getattr(stored, field.target[1]) == field.default


def test_load_trace_is_read_from_its_file(tmp_path):
    (tmp_path / "jobs.csv").write_text("at, workflow,owner\n1h30m,a.yaml,ann\n5, sub/b.yaml,\n")
    (tmp_path / "s.yaml").write_text("{weft: 1, arrivals: [{trace: jobs.csv, owner: ben}]}")
    found = load_scenario(tmp_path / "s.yaml")
    first = Arrival(workflow="a.yaml", at_s=5400.0, owner="ann")
    second = Arrival(workflow="sub/b.yaml", at_s=5.0, owner="ben")
    assert found.arrivals == (ArrivalTrace(file="jobs.csv", arrivals=(first, second)),)


@pytest.mark.parametrize(
    ("content", "printed"),
    {
        "": "jobs.csv:1: there is no column 'workflow' and no column 'at'",
        "workflow,att\na,1\n": "did you mean 'at'?",
        "workflow,at\na,soon\n": "jobs.csv:2: 'soon' is not allowed",
        "workflow,at\na,1\n,2\n": "jobs.csv:3: the row names no workflow",
        "workflow,at\na,1,ann\n": "jobs.csv:2: the row has more values than the header has columns",
        "workflow,at\na\n": "jobs.csv:2: '' is not allowed",
        "workflow,at\n\xff,1": "is not UTF-8",
    }.items(),
)
def test_error_about_an_invalid_load_trace_names_the_line(tmp_path, content, printed):
    (tmp_path / "jobs.csv").write_bytes(content.encode("latin-1"))
    (tmp_path / "s.yaml").write_text("{weft: 1, arrivals: [{trace: jobs.csv}]}")
    with pytest.raises(InvalidInput) as caught:
        load_scenario(tmp_path / "s.yaml")
    assert printed in str(caught.value)


def test_missing_or_empty_file_is_rejected(tmp_path):
    (tmp_path / "s.yaml").write_text("{weft: 1, arrivals: [{trace: job.csv}]}")
    (tmp_path / "jobs.csv").write_text("")
    with pytest.raises(InvalidInput, match=r"s.yaml:1:.*no file .*did you mean .*jobs.csv"):
        load_scenario(tmp_path / "s.yaml")
    with pytest.raises(InvalidInput, match=r"the file is empty; write a scenario into it"):
        load_scenario(tmp_path / "jobs.csv")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("{weft: 1, arrivals: []}", True),
        ("{weft: 1, network: shared, x: 1}", True),
        ("{weft: 1, tasks: {a: }}", False),
        ("{weft: 1, machines: {m: }, loads: []}", False),
        ("{weft: 1, name: x, description: y}", False),
        ("[weft]", False),
    ],
)
def test_scenario_is_distinguished_from_other_files(text, is_one):
    assert is_scenario(tree(text)) is is_one


def test_wildcards_select_machines_and_tasks():
    names = ["altix1", "altix12", "b[1]", "barbora"]
    assert match_positions(("altix1", "b[1]"), names) == [0, 2]
    assert match_positions(("b*", "altix?"), names) == [0, 2, 3]
    assert match_positions(("ALTIX1",), names) == []
    assert matches_task("lapw1", "lapw1[3]")
    assert matches_task("lapw1[3]", "lapw1[3]")
    assert not matches_task("lapw1[3]", "lapw1[33]")
    assert not matches_task("lapw", "lapw1")
    assert find_task_value({"a": 1, "a[2]": 0}, "a[2]") == 0
    assert find_task_value({"a": 1, "a[2]": 0}, "a[3]") == 1
    assert find_task_value({"a[2]": 0}, "a") is None
