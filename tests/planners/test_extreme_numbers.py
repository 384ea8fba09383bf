"""Durations far apart: planners and simulations end, and bounds stay below makespans."""

from __future__ import annotations

import random

import pytest

import weft
from fuzz.campaign import cpu_limit
from weft.engine.state.indexes import to_units
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml, read_platform_file
from weft.planners import PLANNERS
from weft.units import format_seconds
from weft.workflow.workflow import Workflow

MACHINES = b"weft: 1\nname: one\nmachines:\n  a: {nodes: 16}\n  b: {nodes: 1, speed: 2.5}\n"
PLATFORM = read_platform_file(SourceFile(name="platform", data=MACHINES))
MOST_S = 60.0


def workflow(*works: str, tasks: int = 30) -> Workflow:
    """Return a random workflow of moldable tasks whose works are drawn from these texts."""
    rng = random.Random(30)
    lines = ["weft: 1", "name: w", "tasks:"]
    for number in range(tasks):
        before = [f"t{other}" for other in range(max(0, number - 4), number) if rng.random() < 0.4]
        nodes = rng.choice(("1", "2", "1..3", "1", "1..3"))
        lines.append(
            f"  t{number}: {{work: {rng.choice(works)}, nodes: {nodes}, after: [{', '.join(before)}]}}"
        )
    return WeftYaml().read(SourceFile(name="w", data="\n".join(lines).encode()))


@pytest.mark.parametrize("works", [("1e20", "1"), ("5e-324", "1"), ("1e299", "1e-300")], ids=str)
@pytest.mark.parametrize("planner", ["annealing", "heft-moldable", "heft", "weave", "genetic", "minmin"])
def test_planners_end_if_durations_are_too_small_to_change_a_start_time(
    planner: str, works: tuple[str, ...]
) -> None:
    """A start plus a duration that equals the start has removed a step of a machine's timeline twice."""
    assert planner in PLANNERS
    with cpu_limit(MOST_S):
        planned = weft.plan(workflow(*works), on=PLATFORM, planner=planner, plan_steps=20)
    assert not planned.verify()
    assert planned.lower_bound_s <= planned.makespan_s * (1 + 1e-9)


@pytest.mark.parametrize("tasks", [1, 3])
def test_tiny_times_are_not_rounded_up_to_whole_seconds_in_bounds(tasks: int) -> None:
    planned = weft.plan(workflow("5e-324", tasks=tasks), on=PLATFORM, planner="heft")
    assert planned.lower_bound_s <= planned.makespan_s < 1e-300


def test_simulations_of_very_long_tasks_end() -> None:
    with cpu_limit(MOST_S):
        simulated = weft.simulate(workflow("1e299", "1", tasks=5), on=PLATFORM)
    assert simulated.end_s > 1e298


def test_infinite_seconds_are_converted_to_the_largest_number_of_work_units() -> None:
    assert to_units(float("inf")) == to_units(1e299)
    assert to_units(1.5) == 3 << 59


def test_very_long_times_are_printed_briefly() -> None:
    assert format_seconds(1e20) == "1e+20 s"
    assert format_seconds(1e9) == "11574d 1h"


@pytest.mark.parametrize("work", ["1e300", "1e300s", "1.7e+308s", "9e299min", "2.0 * 1e300", "-2.0 * 1e300"])
def test_work_of_1e300_is_refused(work: str) -> None:
    with pytest.raises(InvalidInput, match=r"finite number|must lie between -1e300 and 1e300"):
        weft.plan(workflow(work), on=PLATFORM)
