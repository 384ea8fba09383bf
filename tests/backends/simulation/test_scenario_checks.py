"""Unknown names of workflows, machines, tasks, loops and files in a scenario are refused with the nearest
name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.shell import weft
from weft.backends.simulation.scenario_checks import check_scenario
from weft.backends.simulation.scenario_reader import load_arrival_workflows, load_scenario, read_scenario
from weft.errors import InvalidInput
from weft.formats.files import load_platform
from weft.formats.yaml_document import parse_document

EXAMPLES = Path(__file__).parents[3] / "examples"

LOOP = """\
weft: 1
name: loop
params: {n: 3, least: 4GB}
tasks:
  a: {sweep: {k: 1..n}, work: 5}
  split: {outputs: [parts], work: 1}
  each: {sweep: {p: lines(parts)}, work: 1}
  conv: {after: a, work: 1}
loops:
  scf: {from: conv, to: a, until: conv.exit_code == 0}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "loop.yaml").write_text(LOOP)
    (tmp_path / "broken.yaml").write_text("weft: 1\ntasks: {a: {wrok: 1}}\n")
    return tmp_path


def judge(folder, text):
    """Return the scenario in a text after checking it with ``loop.yaml`` on three machines."""
    (folder / "s.yaml").write_text("weft: 1\narrivals: [{workflow: loop.yaml}]\n" + text)
    scenario = load_scenario(folder / "s.yaml")
    check_scenario(scenario, load_platform("identical:3"), load_arrival_workflows(scenario))
    return scenario


def refused(folder, text):
    """Return the texts of all problems of an invalid scenario."""
    with pytest.raises(InvalidInput) as caught:
        judge(folder, text)
    assert caught.value.exit_code == 2
    return [str(problem) for problem in caught.value.problems]


NAMES = {
    "perturbations: [{machine: m11, at: 1, slowdown: 2}]": "perturbations[0].machine: no machine 'm11'; did you mean 'm1'?",
    "failures: [{machines: [m1, 'x*'], at: 1}]": "failures[0].machines: no machine 'x*'; known: m1, m2, m3",
    "loads: {machine: n1}": "loads[0].machine: no machine 'n1'",
    "silences: [{machines: 'm{1..4}'}]": "no machine 'm4'",
    "suspensions: [{task: conf, at: 1}]": "suspensions[0].task: no task 'conf'; did you mean 'conv'?",
    "cancellations: [{task: 'a[4]', at: 1}]": "no task 'a[4]'; did you mean 'a[",
    "requirements: [{task: b, after: 0, rank: speed}]": "no task 'b'",
    "requirements: [{task: a, after: 0, rank: sped*k}]": "requirements[0].rank: unknown name 'sped'",
    "requirements: [{task: conv, after: 0, expression: k > 1}]": "unknown name 'k'",
    "exit_codes: {cov: 1}": "exit_codes.cov: no task 'cov'; did you mean 'conv'?",
    "results: {cov: {x: 1}}": "results.cov: no task 'cov'",
    "durations: {tasks: {'conv[1]': {bias: 2}}}": "durations.tasks.conv[1]: no task 'conv[1]'",
    "profiles: {cov: 3}": "profiles.cov: no task 'cov'; did you mean 'conv'?",
    "denied: x9": "denied: no machine 'x9'; known: m1, m2, m3",
    "iterations: {scv: 3}": "iterations.scv: no loop 'scv'; did you mean 'scf'?",
    "lines: {part: 3}": "lines.part: no file of a growing sweep 'part'; did you mean 'parts'?",
}


@pytest.mark.parametrize(("text", "printed"), NAMES.items())
def test_error_about_an_unknown_name_in_a_scenario_names_the_location(folder, text, printed):
    (found,) = refused(folder, text)
    assert printed in found
    assert f"{folder / 's.yaml'}:3:" in found


def test_existing_names_in_a_scenario_are_accepted(folder):
    text = """\
perturbations: [{machines: "*", every: 1, slowdown: 2, lasting: 1}]
failures: [{machines: "m{1..3}", at: 1}]
suspensions: [{task: "a[3]", at: 1}, {task: a, at: 1}, {task: "each[whatever]", at: 1}]
requirements: [{task: a, after: 0.5, expression: memory >= least and k > 1, rank: speed}]
exit_codes: {conv: [1, 0]}
iterations: {scf: 3}
lines: {parts: 12}
"""
    assert judge(folder, text).iterations == {"scf": 3}


def test_all_problems_of_a_scenario_are_reported_together(folder):
    found = refused(folder, "\n".join(text for text in NAMES if text.startswith(("l", "i", "s"))))
    assert len(found) == 5


def test_error_about_a_missing_workflow_file_suggests_the_nearest_name(folder):
    text = "weft: 1\narrivals:\n  - {workflow: lop.yaml}\n  - {order: [loop.yaml, broken.yaml, none.yaml]}\n"
    (folder / "s.yaml").write_text(text)
    scenario = load_scenario(folder / "s.yaml")
    with pytest.raises(InvalidInput) as caught:
        load_arrival_workflows(scenario)
    first, second, third = (str(problem) for problem in caught.value.problems)
    assert f"{folder / 's.yaml'}:3:5: arrivals[0]: no file" in first
    assert f"did you mean {folder / 'loop.yaml'}?" in first
    assert f"{folder / 'broken.yaml'}:2:" in second
    assert "did you mean 'work'?" in second
    assert "s.yaml:4:5: arrivals[1]: no file" in third


def test_an_unknown_workflow_is_refused():
    document = parse_document("{weft: 1, arrivals: [{workflow: lop}], iterations: {scf: 1}}", "s.yaml")
    with pytest.raises(
        InvalidInput, match=r"^s.yaml:1:\d+: arrivals\[0\]: no workflow 'lop'; did you mean 'loop'\?$"
    ):
        check_scenario(read_scenario(document), None, {"loop": object()})


def test_names_of_machines_and_loops_are_not_checked_if_platform_and_workflows_are_unknown(folder):
    document = parse_document("{weft: 1, iterations: {x: 1}, loads: [{machine: y}]}", "s.yaml")
    check_scenario(read_scenario(document), None, None)
    with pytest.raises(InvalidInput, match="no machine 'y'"):
        check_scenario(read_scenario(document), load_platform("identical:2"), None)
    with pytest.raises(InvalidInput, match="no loop 'x'"):
        check_scenario(read_scenario(document), None, {})


def test_the_example_scenario_is_valid():
    scenario = load_scenario(EXAMPLES / "scenario.yaml")
    check_scenario(scenario, load_platform(EXAMPLES / "grid.yaml"), load_arrival_workflows(scenario))


def test_weft_check_accepts_scenarios():
    shown = weft("check", "scenario.yaml", "--on", "grid.yaml", folder=EXAMPLES)
    printed = "scenario.yaml: a scenario of 6 arrivals of 3 workflows; no problems found\n"
    assert (shown.code, shown.out) == (0, printed)
    refused = weft("check", "scenario.yaml", "--on", "identical:2", folder=EXAMPLES)
    assert refused.code == 2
    assert "scenario.yaml:10:6: perturbations[1].machine: no machine 'cloud'; known: m1, m2" in refused.err
