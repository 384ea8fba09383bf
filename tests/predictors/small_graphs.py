"""Small task graphs and machines for the tests of predictors, and a check of layouts mode by mode."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from weft.platform.machine import Machine
from weft.predictors.predictor import Estimate, task_features
from weft.workflow.quantity import Sweep
from weft.workflow.task import Amdahl, CommunicationOverhead, MeasuredSeconds, Roofline, Task, TaskKind
from weft.workflow.task_graph import COMPUTE
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Workflow

MACHINES = (
    Machine(name="x", nodes=1, speed=2.0),
    Machine(name="y", nodes=3, speed=0.5, availability=0.8),
    Machine(name="z", nodes=8, speeds={"dock": 3.0}),
    Machine(name="twin", nodes=8, speeds={"dock": 3.0}),
    Machine(name="z/dock", nodes=2, host="z", only_service="dock", speed=1.5),
)


def graph_of(*tasks, **params):
    return unfold(Workflow(name="small", tasks=tasks, params=params))


def expected(predictor, graph, machines, task, machine, count):
    """Return the estimate of one mode from the predictor itself; None if the mode is impossible."""
    allowed = graph.count_sets[graph.counts[task]] if graph.kind[task] == COMPUTE else (1,)
    if count not in allowed or count > machines[machine].nodes:
        return None
    if graph.kind[task] != COMPUTE:
        return Estimate(p50_s=0.0, source="no work")
    found = predictor.predict(task_features(graph, task), machines[machine], count)
    return found if found is not None and found.possible else None


def assert_agrees(seconds, predictor, graph, machines):
    """Assert that all values of a layout agree with the estimates of single modes."""
    everyone = np.arange(len(machines), dtype=np.uint32)
    some = everyone[::2]
    means = seconds.means_over(some)
    assert len(seconds.source) == len(seconds.spread) == len(means) == len(graph)
    for task in range(len(graph)):
        rows = [
            (machine, count, found)
            for machine in range(len(machines))
            for count in range(10)
            if (found := expected(predictor, graph, machines, task, machine, count)) is not None
        ]
        wanted = {(machine, count): found.p50_s for machine, count, found in rows}
        machine, count, times = seconds.modes(task)
        assert list(zip(machine.tolist(), count.tolist(), strict=True)) == list(wanted)
        np.testing.assert_allclose(times, list(wanted.values()), rtol=1e-12)
        for pair in ((m, c) for m in range(len(machines)) for c in range(12)):
            np.testing.assert_allclose(seconds.at(task, *pair), wanted.get(pair, math.nan), rtol=1e-12)
        least = [min((t for (m, _), t in wanted.items() if m == one), default=math.nan) for one in everyone]
        known = [least[one] for one in some if not math.isnan(least[one])]
        mean = sum(known) / len(known) if known else math.nan
        np.testing.assert_allclose(means[task], mean, rtol=1e-12)
        spreads = [found.spread for _, _, found in rows if not math.isnan(found.spread)]
        np.testing.assert_allclose(seconds.spread[task], max(spreads, default=math.nan), rtol=1e-12)
        if rows:
            assert seconds.sources[seconds.source[task]] in {found.source for _, _, found in rows}


LAWS = st.one_of(
    st.none(),
    st.builds(Amdahl, serial=st.sampled_from([0.0, 0.1, 1.0])),
    st.builds(Roofline, limit=st.integers(1, 4)),
    st.builds(CommunicationOverhead, overhead=st.sampled_from([0.0, 0.2])),
    st.sampled_from(
        [MeasuredSeconds(seconds={1: 8.0, 4: 3.0}), MeasuredSeconds(seconds={2: 5.0, 3: 4.0, 8: 6.0})]
    ),
)
NUMBERS = st.sampled_from([0.0, 0.25, 1.0, 3.0, 10.0])
COUNTS = st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True).map(
    lambda found: tuple(sorted(found))
)
NAMES = st.sampled_from([*(machine.name for machine in MACHINES), "*", "elsewhere"])


@st.composite
def tasks(draw, index):
    name = f"t{index}"
    if draw(st.integers(0, 9)) == 0:
        return Task(name=name, kind=TaskKind.VIRTUAL, nodes=draw(st.sampled_from([(1,), (2, 4)])))
    form = draw(st.sampled_from(["work", "work", "seconds", "by machine", "unknown"]))
    return Task(
        name=name,
        work=draw(NUMBERS) if form == "work" else None,
        seconds=(
            draw(NUMBERS) if form == "seconds"
            else draw(st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=3)) if form == "by machine"
            else None
        ),
        nodes=draw(COUNTS),
        speedup=draw(LAWS),
        service=draw(st.sampled_from([None, "dock"])),
        sweep=draw(st.sampled_from([None, Sweep(variables=(("size", (1, 2, 2, 6)),))])),
    )  # fmt: skip


@st.composite
def graphs(draw):
    number = draw(st.integers(1, 6))
    return graph_of(*(draw(tasks(index)) for index in range(number)))
