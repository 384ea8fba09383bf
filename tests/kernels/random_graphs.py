"""Random instances for comparing kernels with their references: with many ties, or with none."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from planning_examples import instance, platform
from weft.instance import BusyInterval, compile_instance
from weft.platform.platform import Link

__all__ = ["busy_stretches", "faceted", "forest", "layered"]


def layered(rng, *, integers, layout, machines=6, tasks=40):
    """Return a graph with data on SINGLE machines; integers make many ties."""
    draw = (lambda: float(rng.integers(0, 4))) if integers else (lambda: float(rng.uniform(0, 4)))
    where = platform(
        *({"speed": 1.0 + draw() / 2, "site": f"s{index % 3}"} for index in range(machines)),
        link=Link(bandwidth_Bps=1e6, latency_s=1.0 if integers else 0.3),
        links=(("s0", "s1", Link(bandwidth_Bps=5e5)),),
    )
    described = {}
    for index in range(tasks):
        before = sorted(set(rng.integers(0, index, size=min(index, 3)).tolist())) if index > 4 else []
        keys = {"outputs": {f"f{index}": 1e6 * draw()}, "after": [f"t{other}" for other in before]}
        keys["inputs"] = [f"f{other}" for other in before if rng.integers(3)]
        keys |= _times(rng, draw, layout, machines)
        if rng.integers(8) == 0:
            keys["machine"] = f"A{rng.integers(2)}"
        described[f"t{index}"] = keys
    return instance(described, where)


def _times(rng, draw, layout, machines):
    if layout == "related":
        return {"work": draw()}
    if layout == "classes":
        return {"seconds": {"m0": 3.0, "*": 2.0}}
    chosen = [machine for machine in range(machines) if rng.integers(4)]
    return {"seconds": {f"m{machine}": draw() for machine in chosen} | {"m1": draw()}}


def faceted(rng, *, integers):
    """Return moldable tasks with amounts on clusters, and transfers between abstract machines."""
    draw = (lambda: float(rng.integers(0, 4))) if integers else (lambda: float(rng.uniform(0, 4)))
    where = platform(
        {"nodes": 4, "memory": 8e9},
        {"nodes": 2, "speed": 2.0, "site": "s", "memory": 4e9},
        {"speed": 3.0, "site": "s"},
        {"speed": 1.5, "occupancy": "unlimited"},
        link=Link(bandwidth_Bps=1e6, latency_s=1.0 if integers else 0.3),
    )
    described = {}
    for index in range(8):
        described |= _moving(rng, draw, index)
    for index in range(24):
        keys = {"work": 1.0 + draw(), "after": _some(rng, list(described), index // 4)}
        keys["inputs"] = _some(rng, [f"y{other}" for other in range(index)], min(index, 2))
        keys["outputs"] = {f"y{index}": 1e6 * draw()}
        if rng.integers(2):
            law = {"amdahl": 0.2} if rng.integers(2) else {"seconds": {1: 4.0, 2: 2.5, 4: 6.0}}
            keys |= {"nodes": [1, 2, 4], "speedup": law}
        if rng.integers(3) == 0:
            keys["memory"] = "3GB"
        described[f"t{index}"] = keys
    return instance(described, where)


def forest(rng):
    """Return tasks with at most one predecessor, many of them equal in all but one property or in all."""
    where = platform({"memory": 4e9}, {"nodes": 3, "speed": 2.0, "memory": 4e9}, {"memory": 4e9}, link=Link())
    described = {f"root{index}": {"work": 1.0, "outputs": {f"x{index}": 5e8}} for index in range(3)}
    # The transfer decides where H is before its task is placed.
    described["move"] = {"kind": "transfer", "from_": "H", "to": "D", "file": "x0", "size": 1e9}
    described["held"] = {"work": 2.0, "machine": "H"}
    for index in range(30):
        root = int(rng.integers(5)) if index > 4 else 4
        keys = {"work": float(rng.integers(1, 3)) if index > 4 else 2.0}
        if root < 3:
            keys |= {"after": [f"root{root}"]} if rng.integers(3) == 0 else {"inputs": [f"x{root}"]}
        elif index > 4 and root == 3:
            keys["after"] = ["move"]
        if rng.integers(4) == 0:
            keys["memory"] = "3GB"
        if index % 8 == 7:
            keys["machine"] = "A"
        described[f"t{index}"] = keys
    made = instance(described, where)
    earliest = rng.integers(0, 2, len(made)) * (np.char.find(np.array(made.graph.names), "2") >= 0)
    return compile_instance(made.graph, where, earliest_start_s=earliest.astype(float), pinned={"t3": "m2"})


def _moving(rng, draw, index):
    """Return tasks that write a file on one abstract machine, move it to another, and read or await it."""
    source, target = f"A{rng.integers(3)}", f"B{rng.integers(3)}"
    last = {"work": draw(), "machine": target, "inputs": [f"x{index}"]}
    if rng.integers(3) == 0:
        last = {"work": draw(), "after": [f"move{index}"]}
    if rng.integers(4) == 0:
        last = {"kind": "virtual", "after": [f"move{index}"]}
    return {
        f"write{index}": {"work": draw(), "machine": source, "outputs": [f"x{index}"]},
        f"move{index}": {
            "kind": "transfer",
            "from_": source,
            "to": target,
            "file": f"x{index}",
            "size": 1e6 * draw(),
        },
        f"read{index}": last,
    }


def _some(rng, names, number):
    chosen = rng.integers(0, len(names), size=number).tolist() if number else []
    return sorted({names[position] for position in chosen})


def busy_stretches():
    """Return a function of the platform that draws busy intervals."""
    stretch = st.tuples(
        st.integers(0, 3), st.sampled_from([0.0, 2.0]), st.sampled_from([1.0, 50.0]), st.integers(1, 2)
    )

    def on(held, where):
        return tuple(
            BusyInterval(machine=machine, start_s=start, finish_s=start + seconds, nodes=nodes)
            for machine, start, seconds, nodes in held
            if machine < len(where.machines)
        )

    return st.lists(stretch, max_size=2).map(lambda held: lambda where: on(held, where))
