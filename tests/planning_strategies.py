"""Random workflows and platforms with all features of planning, in small sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from weft.errors import Infeasible, InvalidInput
from weft.instance import BusyInterval, compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform, Share
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold

SECONDS = st.sampled_from([0, 0.1, 1, 2.5, 7, 40])
SIZES = st.sampled_from([0, 1, 3e6, 5e8, 2e10])
LAWS = st.sampled_from(
    [None, {"amdahl": 0.1}, {"roofline": 3}, {"communication": 0.05}, {"seconds": {1: 9, 2: 5, 4: 3}}]
)
COUNTS = st.sampled_from([1, [1, 2], [1, 2, 4], [2, 3], "1..4"])
SERVICES = st.sampled_from([None, None, None, "dock"])
REQUIREMENTS = st.sampled_from([None, None, None, "speed > 1", "nodes >= 2", 'arch == "x86_64"'])
# Strategies are module constants: creating one takes longer than drawing from it.
FORMS_OF_TIME = st.sampled_from(["work", "work", "seconds", "by machine", "nothing"])
ABSTRACT_MACHINES = st.sampled_from([None, None, "A", "B"])
MEMORY = st.sampled_from([None, None, "1GB", "3GB", "1*GB*nodes", "4*GB - 1*GB*nodes"])
RESOURCES = st.sampled_from([None, None, {"licence": 1}, {"licence": "nodes % 2"}])
CORES = st.sampled_from([None, None, 2])
PLACES = st.sampled_from(["A", "B", "C"])
ITERATIONS = st.sampled_from([2, 3])
TASKS = st.integers(1, 7)
MACHINES = st.integers(1, 4)
UP_TO_3, UP_TO_5, UP_TO_9 = (st.integers(0, most) for most in (3, 5, 9))
EITHER = st.booleans()
EARLIER = [st.lists(st.integers(0, index), min_size=1, max_size=3, unique=True) for index in range(6)]
"""Strategies of the predecessors of task i + 1, by i."""


def _time(draw):
    """Draw the keys of the duration of a task, in one of the supported forms."""
    form = draw(FORMS_OF_TIME)
    if form == "work":
        return {"work": draw(SECONDS)}
    if form == "seconds":
        return {"seconds": draw(SECONDS)}
    if form == "by machine":
        return {"seconds": {"m0": draw(SECONDS), "*": draw(SECONDS)}}
    return {}


def _task(draw, index, sweeps):
    """Draw the keys of one compute task."""
    keys = _time(draw)
    if index and draw(EITHER):
        before = draw(EARLIER[index - 1])
        keys["after"] = [f"t{other}" for other in before]
    keys["inputs"] = [f"f{other}" for other in range(index) if other not in sweeps and draw(UP_TO_3) == 0]
    if draw(EITHER):
        keys["nodes"] = draw(COUNTS)
        law = draw(LAWS)
        if law is not None and keys["nodes"] != 1 and ("seconds" not in law or "work" in keys):
            keys["speedup"] = law
    extras = {"service": draw(SERVICES), "requirements": draw(REQUIREMENTS)}
    extras["machine"] = draw(ABSTRACT_MACHINES)
    extras["memory"] = draw(MEMORY)
    extras["resources"] = draw(RESOURCES)
    extras["cores"] = draw(CORES)
    return keys | {key: value for key, value in extras.items() if value is not None}


def _add_transfer(draw, flow, index, writer):
    """Draw a transfer between abstract machines, optionally after another one and with a reader."""
    source, target, size = draw(PLACES), draw(PLACES), draw(SIZES)
    after = [f"move{index - 1}"] if index and draw(EITHER) else []
    file = f"g{writer}.{index}"
    flow.task(f"move{index}", kind="transfer", from_=source, to=target, file=file, size=size, after=after)
    flow.task(f"holder{index}", machine=source, work=draw(SECONDS))
    if draw(EITHER):
        somewhere = draw(st.sampled_from([target, "D"]))
        keys = {"inputs": [file]} if somewhere == target else {"after": [f"move{index}"]}
        flow.task(f"reader{index}", machine=somewhere, work=draw(SECONDS), **keys)


@st.composite
def workflows(draw):
    """Draw a workflow with sweeps, moldable tasks, abstract machines, transfers, virtual tasks and a loop."""
    flow, sweeps = Builder("drawn"), set()
    number = draw(TASKS)
    for index in range(number):
        if draw(UP_TO_9) == 0:
            after = [f"t{index - 1}"] if index else []
            flow.task(f"t{index}", kind="virtual", after=after, outputs={f"f{index}": 5, f"g{index}.0": 6})
            continue
        keys = _task(draw, index, sweeps)
        if draw(UP_TO_3) == 0:
            sweeps.add(index)
            keys["sweep"] = {"k": "1..3"}
            keys["outputs"] = {f"f{index}.{{k}}": draw(SIZES)}
        else:
            fixed = draw(EITHER)
            size = {"seconds": draw(SECONDS)} if fixed else draw(SIZES)
            keys["outputs"] = {f"f{index}": size} | {f"g{index}.{copy}": draw(SIZES) for copy in range(3)}
        flow.task(f"t{index}", **keys)
    plain = [index for index in range(number) if index not in sweeps]
    for index in range(draw(UP_TO_3) if plain else 0):
        _add_transfer(draw, flow, index, draw(st.sampled_from(plain)))
    if draw(EITHER):
        flow.task("last", after=[f"t{index}" for index in range(number)], work=1)
        flow.loop("again", last="last", first="t0", max_iterations=3, expect=draw(ITERATIONS))
    return flow.build()


LINKS = st.builds(
    Link, latency_s=st.sampled_from([0.0, 0.5]), bandwidth_Bps=st.sampled_from([1e6, 1e9, float("inf")])
)


GENEROUS = {
    "nodes": 4,
    "cores": 8,
    "speed": 3.0,
    "speeds": {"dock": 2.0},
    "memory": 4e9,
    "resources": {"licence": 2.0},
    "arch": "x86_64",
    "backend": {},
}
"""A machine that can run everything; without one most drawn plans would be infeasible."""


MACHINE = {
    "nodes": st.sampled_from([1, 1, 2, 4]),
    "cores": st.sampled_from([1, 2, 8]),
    "speed": st.sampled_from([0.5, 1.0, 3.0]),
    "speeds": st.sampled_from([{}, {"dock": 2.0}]),
    "memory": st.sampled_from([None, None, 4e9]),
    "resources": st.sampled_from([{}, {"licence": 2.0}]),
    "arch": st.sampled_from([None, "x86_64"]),
    "site": st.sampled_from([None, "s0", "s1"]),
    "occupancy": st.sampled_from(["exclusive", "exclusive", "exclusive", "unlimited"]),
    "price_per_node_hour": st.sampled_from([0.0, 1.8]),
    "backend": st.sampled_from([{}, {}, {"kind": "local"}]),
}


def _machine(draw, index):
    return Machine(name=f"m{index}", **{key: draw(values) for key, values in MACHINE.items()})


@st.composite
def platforms(draw):
    """Draw a platform with sites, links of their own, shares and machines of several nodes."""
    machines = tuple(_machine(draw, index) for index in range(draw(MACHINES)))
    if draw(UP_TO_5):
        machines = (replace(machines[0], **GENEROUS), *machines[1:])
    places = list(dict.fromkeys(name for machine in machines for name in (machine.name, machine.site_name)))
    pairs = [(a, b) for index, a in enumerate(places) for b in places[:index]]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)) if pairs else []
    big = [machine.name for machine in machines if machine.nodes > 1]
    shared = draw(st.lists(st.sampled_from(big), max_size=1)) if big else []
    return Platform(
        machines=machines,
        sites={"s0": draw(LINKS)} if any(machine.site == "s0" for machine in machines) else {},
        default_link=draw(LINKS),
        links=tuple((a, b, draw(LINKS)) for a, b in chosen),
        virtual=tuple(Share(machine=name, service="dock", nodes=1) for name in shared),
    )


BUSY = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from([-1.0, 0.0, 2.0]), st.sampled_from([1.0, 9.5]), st.integers(1, 4)
    ),
    max_size=3,
)
"""Busy intervals: machine, start, seconds, nodes."""


def compiled_busy(flow, where, held):
    """Return an instance with busy intervals and earliest starts; an infeasible example is rejected."""
    busy = tuple(
        BusyInterval(machine=machine, start_s=start, finish_s=start + spent, nodes=nodes)
        for machine, start, spent, nodes in held
        if machine < len(where.machines)
    )
    try:
        graph = unfold(flow)
        earliest = np.array([float(task % 3) for task in range(len(graph))])
        return compile_instance(graph, where, busy=busy, earliest_start_s=earliest)
    except (Infeasible, InvalidInput):
        assume(False)
