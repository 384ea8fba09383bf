"""How long the algorithms of S4 take on one graph, in percent of shuffle's length (spec s4 sections 2 to 6).

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids. Shuffle and xDCP plan; M-S and pM-S decide in a simulated run, and everything in it is
as they believe. ASE is the mean of the percentages, BDT how often an algorithm is the best.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.engine.settings import Settings
from weft.engine.state.known import Library
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.naming import planner_named
from weft.planners.planner import Budget
from weft.policies.naming import policy_named
from weft.randomness import generator
from weft.schedule.objective import objective_named
from weft.simulation.scenario import Arrival
from weft.simulation.simulate import Simulation
from weft.workflow.generators.sweep_layers import SweepLayers, layered_sweeps
from weft.workflow.unfolding.unfold import unfold

__all__ = ["ALGORITHMS", "best_of", "instance_of", "percents", "planned_s", "simulated_s"]

ALGORITHMS = ("xDCP", "M-S", "pM-S")
_POLICIES = {"M-S": "manager-worker", "pM-S": "priority-manager-worker"}
_EQUAL = 1e-9
"""Lengths that differ by less than this share are a tie: sums of the same seconds in another order."""


def instance_of(layers: SweepLayers) -> Instance:
    """Compile layers of sweeps for the machines that come with them."""
    made = layered_sweeps(layers, "sweeps")
    assert made.platform is not None
    return compile_instance(unfold(made.workflow), made.platform)


def planned_s(planner: str, instance: Instance) -> float:
    """Give the length of a plan."""
    rng = generator(0, "unused")
    result = planner_named(planner).plan(
        instance, objective=objective_named("makespan"), budget=Budget(), rng=rng
    )
    return result.schedule.makespan_s


def simulated_s(policy: str, instance: Instance) -> float:
    """Give the length of a simulated run under a policy."""
    engine = Simulation(
        library=Library({"sweeps": instance}),
        arrivals=[Arrival(workflow="sweeps")],
        policy=policy_named(policy),
        settings=Settings(),
    ).run()
    return engine.state.now


def percents(layers: SweepLayers) -> dict[str, float]:
    """Measure every algorithm on one graph."""
    instance = instance_of(layers)
    found = {"xDCP": planned_s("xdcp", instance)}
    found.update({name: simulated_s(policy, instance) for name, policy in _POLICIES.items()})
    percent_s = planned_s("shuffle", instance) / 100.0
    return {name: taken_s / percent_s for name, taken_s in found.items()}


def best_of(found: Mapping[str, float]) -> list[str]:
    """Name the best algorithms on a graph; ties count for all."""
    limit = min(found[name] for name in ALGORITHMS) * (1.0 + _EQUAL)
    return [name for name in ALGORITHMS if found[name] <= limit]
