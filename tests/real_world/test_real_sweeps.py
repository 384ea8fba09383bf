"""Sweeps with every pattern of dependencies: planned, simulated and run; programs leave evidence of the order."""

from __future__ import annotations

import pytest

import weft

MACHINES = """
machines:
  "host{1..3}": {backend: {kind: local}}
"""


SWEEPS = {
    "all to all": (2, 2, "a", {(f"a[{i}]", f"b[{k}]") for i in (1, 2) for k in (1, 2)}),
    "one to one": (3, 3, '"a[k]"', {(f"a[{k}]", f"b[{k}]") for k in (1, 2, 3)}),
    "fan-out": (
        2,
        4,
        '"a[(k-1)//2 + 1]"',
        {("a[1]", "b[1]"), ("a[1]", "b[2]"), ("a[2]", "b[3]"), ("a[2]", "b[4]")},
    ),
    "fan-in": (
        4,
        2,
        '"a[2*k-1..2*k]"',
        {("a[1]", "b[1]"), ("a[2]", "b[1]"), ("a[3]", "b[2]"), ("a[4]", "b[2]")},
    ),
    "window that is clipped": (
        3,
        3,
        '"a[k-1..k+1]"',
        {(f"a[{i}]", f"b[{k}]") for k in (1, 2, 3) for i in (1, 2, 3) if abs(i - k) <= 1},
    ),
    "shifted": (3, 3, '"a[k-1..k-1]"', {("a[1]", "b[2]"), ("a[2]", "b[3]")}),
    "reversed": (3, 3, '"a[4-k]"', {(f"a[{4 - k}]", f"b[{k}]") for k in (1, 2, 3)}),
    "every second": (4, 2, '"a[2*k]"', {("a[2]", "b[1]"), ("a[4]", "b[2]")}),
    "explicit pairs": (
        3,
        2,
        "{task: a, pairs: [[1, 2], [3, 2], [2, 1]]}",
        {("a[1]", "b[2]"), ("a[3]", "b[2]"), ("a[2]", "b[1]")},
    ),
    "words": ("xy", "yx", '"a[k]"', {(f"a[{k}]", f"b[{k}]") for k in "xy"}),
}
"""By name: sizes or letters of the sweeps ``a`` and ``b``, what ``b`` states under ``after``, and the expected edges."""


def values_of(sweep):
    """Return the values of a sweep: the numbers from 1 to a count, or letters."""
    return list(range(1, sweep + 1)) if isinstance(sweep, int) else list(sweep)


def wanted_tasks(name):
    """Return the names of all subtasks."""
    first, second, *_ = SWEEPS[name]
    return {f"a[{value}]" for value in values_of(first)} | {f"b[{value}]" for value in values_of(second)}


def workflow(log, name):
    first, second, after, _ = SWEEPS[name]
    note = f"echo begin {{task}} >> {log}; sleep 0.02; echo $$ > {{outputs}}; echo end {{task}} >> {log}"
    return f"""
tasks:
  a: {{sweep: {{k: {values_of(first)}}}, command: "{note}", outputs: ["a.{{k}}"], work: 1s}}
  b: {{sweep: {{k: {values_of(second)}}}, after: [{after}], command: "{note}", outputs: ["b.{{k}}"], work: 1s}}
"""


@pytest.mark.parametrize("name", SWEEPS)
def test_subtasks_keep_the_stated_dependencies(real, name):
    wanted = SWEEPS[name][3]
    log = real.folder / "log"
    log.touch()
    real.write("machines.yaml", MACHINES)
    flow = real.write("flow.yaml", workflow(log, name))
    for planner in ("heft", "xdcp"):
        planned = weft.plan(flow, on=real.folder / "machines.yaml", planner=planner)
        assert planned.verify() == []
        assert len(planned.graph) == len(wanted_tasks(name))
    simulated = real.simulate("flow.yaml")
    ran = real.run("flow.yaml")
    assert ran.outcome == simulated.outcome == "completed"
    lines = log.read_text().splitlines()
    assert {line.split()[1] for line in lines} == wanted_tasks(name)
    for before, after in wanted:
        assert lines.index(f"end {before}") < lines.index(f"begin {after}"), (before, after)
    assert_same_tasks(real, simulated, lines)


def assert_same_tasks(real, simulated, lines):
    done = sorted(line.split()[1] for line in lines if line.startswith("end"))
    for history in (real.history, simulated.history):
        ended = sorted(each.task for each in history.attempts.values() if each.ending == "completed")
        assert ended == done
    assert len(list(real.folder.glob("[ab].*"))) == len(done)
