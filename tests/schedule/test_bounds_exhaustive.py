"""No bound exceeds the optimum of instances small enough for exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import instance, platform
from schedule.exhaustive import shortest_makespan
from weft.errors import Infeasible
from weft.instance import BusyInterval
from weft.schedule.bounds import lower_bounds

SECONDS = st.sampled_from([0, 1, 2, 3, 5, 2.5])
MACHINES = st.fixed_dictionaries(
    {
        "nodes": st.sampled_from([1, 1, 2, 3]),
        "speed": st.sampled_from([1.0, 1.0, 2.0, 0.5]),
        "resources": st.sampled_from([{}, {"licence": 2.0}]),
        "occupancy": st.sampled_from(["exclusive"] * 5 + ["unlimited"]),
    }
)


def draw_time(draw, machines):
    """Draw the duration of a task: by work, fixed, or per machine."""
    form = draw(st.sampled_from(["work", "work", "seconds", "by machine"]))
    if form != "by machine":
        return {form: draw(SECONDS)}
    chosen = draw(st.lists(st.integers(0, machines - 1), min_size=1, unique=True))
    return {"seconds": {f"m{index}": draw(SECONDS) for index in sorted(chosen)}}


def draw_task(draw, index, machines):
    keys = draw_time(draw, machines)
    before = draw(st.lists(st.integers(0, index - 1), max_size=2, unique=True)) if index else []
    reads = draw(st.booleans())
    keys["inputs" if reads else "after"] = [f"{'f' if reads else 't'}{other}" for other in sorted(before)]
    keys["outputs"] = {f"f{index}": draw(st.sampled_from(["0", "1MB", "4MB"]))}
    if "work" in keys and draw(st.booleans()):
        keys |= draw(
            st.sampled_from(
                [
                    {"nodes": [1, 2], "speedup": {"amdahl": 0.2}},
                    {"nodes": 2},
                    {"nodes": [1, 2, 3], "speedup": {"roofline": 2}},
                ]
            )
        )
    keys |= draw(st.sampled_from([{}, {}, {"machine": "A"}, {"resources": {"licence": 1}}]))
    return keys


@st.composite
def instances(draw):
    """Draw an instance of up to four compute tasks and a transfer with all features of planning, or None."""
    number = draw(st.integers(1, 3))
    machines = [draw(MACHINES) for _ in range(number)]
    tasks = {f"t{index}": draw_task(draw, index, number) for index in range(draw(st.integers(1, 4)))}
    if len(tasks) < 4 and draw(st.booleans()):
        tasks["move"] = {
            "kind": "transfer",
            "from_": "A",
            "to": "B",
            "file": "f0",
            "size": "2MB",
            "after": "t0",
        }
        tasks["anchor"] = {"work": 1, "machine": "A"}
        tasks["reader"] = {"work": 1, "machine": "B", "after": "move"}
    busy = draw(st.sampled_from([(), (), (BusyInterval(machine=0, start_s=0.0, finish_s=3.0, nodes=1),)]))
    earliest = np.array(
        draw(st.lists(st.sampled_from([0.0, 0.0, 2.0]), min_size=len(tasks), max_size=len(tasks)))
    )
    pinned = draw(st.sampled_from([{}, {}, {"t0": "m0"}]))
    if "machine" in tasks["t0"]:
        pinned = {}
    try:
        return instance(tasks, platform(*machines), busy=busy, earliest_start_s=earliest, pinned=pinned)
    except Infeasible:
        return None


@given(instances())
def test_no_bound_is_above_the_optimum(made):
    if made is None:
        return
    optimum, found = shortest_makespan(made), lower_bounds(made)
    for argument, value in found.parts.items():
        assert value <= optimum * (1 + 1e-9), argument
    assert found.best_s <= optimum * (1 + 1e-9)


def drawn(seed):
    """Draw five tasks on heterogeneous machines of one or two nodes, with data between them."""
    rng = np.random.default_rng(seed)
    tasks = {}
    for index in range(5):
        before = [f"f{other}" for other in range(index) if rng.random() < 0.4]
        tasks[f"t{index}"] = {
            "work": int(rng.integers(1, 6)),
            "inputs": before,
            "outputs": {f"f{index}": f"{int(rng.integers(0, 4))}MB"},
        }
    machines = [{"speed": float(rng.integers(1, 3)), "nodes": int(rng.integers(1, 3))} for _ in range(2)]
    return instance(tasks, platform(*machines))


def test_most_small_instances_have_a_tight_bound():
    closed = 0
    for seed in range(25):
        made = drawn(seed)
        optimum, bound = shortest_makespan(made), lower_bounds(made).best_s
        assert bound <= optimum * (1 + 1e-9), seed
        closed += bound == pytest.approx(optimum, rel=1e-3)
    assert closed >= 18
