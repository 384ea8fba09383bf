"""Random instances for comparing kernels with their twins: with many ties, or with none."""

from __future__ import annotations

from hypothesis import strategies as st

from planning_examples import instance, platform
from weft.instance import Busy
from weft.platform.link import Link

__all__ = ["busy_stretches", "layered"]


def layered(rng, *, integers, layout, machines=6, tasks=40):
    """Make a graph with data on machines that serve one task at a time; integers make many ties."""
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


def busy_stretches():
    """Draw what others hold, as a function of the platform."""
    stretch = st.tuples(
        st.integers(0, 3), st.sampled_from([0.0, 2.0]), st.sampled_from([1.0, 50.0]), st.integers(1, 2)
    )

    def on(held, where):
        return tuple(
            Busy(machine=machine, start_s=start, finish_s=start + seconds, nodes=nodes)
            for machine, start, seconds, nodes in held
            if machine < len(where.machines)
        )

    return st.lists(stretch, max_size=2).map(lambda held: lambda where: on(held, where))
