"""Random small workflows, platforms, scenarios, policies and settings for runs of the engine."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from weft.backends.simulation.scenario import (
    Arrival,
    Cancellation,
    CompetingLoad,
    Durations,
    Failure,
    Perturbation,
    RequirementChange,
    Scenario,
    Silence,
    Span,
    Suspension,
)
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import Infeasible, InvalidInput
from weft.expressions import parse
from weft.formats.profiles import list_presets, preset_settings
from weft.instance.compilation import compile_instance
from weft.platform.machine import QUEUES, Machine
from weft.platform.platform import Link, Platform, Share
from weft.policies import POLICIES
from weft.policies.policy import make_policy
from weft.runtime.budget import PlanningBudget
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import REPLAN_WHEN
from weft.workflow.task import CAUSES

__all__ = ["platforms", "scenarios", "settings_drawn", "simulations", "workflows"]

WORK = st.sampled_from([0, 1, 1, 2, 2.5, 7, 40])
SIZES = st.sampled_from([0, 1, 3e6, 5e8])
CODES = st.sampled_from([0, 0, 0, 1, 2, 85, 99, "oom", "preempted", "staging", "no-exit-code"])


def _now_and_then(draw, strategy, chance=4):
    """Draw a value with probability 1 / ``chance``, else None."""
    return draw(strategy) if draw(st.integers(0, chance - 1)) == 0 else None


def _recovery(draw):
    """Draw contract, checkpoint and retry settings of a task."""
    checkpoint = st.sampled_from(
        [{"files": ["r"]}, {"files": ["r"], "every": 1}, {"files": ["r"], "every": 5, "nodes": "any"}]
    )
    drawn = {
        "checkpoint": _now_and_then(draw, checkpoint, 3),
        "progress": _now_and_then(draw, st.just("steps")),
        "contract": _now_and_then(draw, st.sampled_from([0.0, 0.3, {"factor": 0.5, "grace": "1s"}])),
        "retries": _now_and_then(draw, st.sampled_from([0, 1, 2, {"error": 1, "timeout": 2}]), 3),
        "on_failure": _now_and_then(draw, st.sampled_from(["hold", "reschedule", "stop", "continue"]), 3),
        "time_limit": _now_and_then(draw, st.sampled_from([1, 30]), 6),
    }
    return {key: value for key, value in drawn.items() if value is not None}


def _compute(draw):
    """Draw the keys that any compute task may have."""
    keys = {"work": draw(WORK), **_recovery(draw)}
    nodes = _now_and_then(draw, st.sampled_from([2, [1, 2], "1..4"]), 3)
    if nodes is not None:
        keys["nodes"] = nodes
        keys["speedup"] = draw(st.sampled_from([{"amdahl": 0.1}, {"communication": 0.3}]))
    drawn = {
        "memory": _now_and_then(draw, st.sampled_from(["1GB", "3GB", "1*GB*nodes"]), 5),
        "resources": _now_and_then(draw, st.just({"licence": 1}), 6),
        "requirements": _now_and_then(draw, st.sampled_from(["speed > 0.6", "nodes >= 2"]), 8),
        "rank": _now_and_then(draw, st.sampled_from(["speed", "name == 'm1'"]), 6),
        "inputs": _now_and_then(
            draw, st.just([{"file": "db", "from": "https://x/db", "size": "3MB", "shared": True}]), 6
        ),
    }
    return keys | {key: value for key, value in drawn.items() if value is not None}


def _graph(draw, flow):
    """Add tasks at random: sweeps, abstract machines, branches, transfers, virtual tasks."""
    number, sweeps = draw(st.integers(1, 6)), set()
    for index in range(number):
        before = draw(st.lists(st.integers(0, index - 1), max_size=2, unique=True)) if index else []
        if draw(st.integers(0, 9)) == 0:
            flow.task(f"t{index}", kind="virtual", after=[f"t{other}" for other in before])
            continue
        keys = _compute(draw)
        if draw(st.integers(0, 3)) == 0:
            sweeps.add(index)
            keys["sweep"] = {"k": "1..3"}
            keys["outputs"] = {f"f{index}.{{k}}": draw(SIZES)}
            place = st.sampled_from(["A", "A-{k}"])
        else:
            keys["outputs"] = {f"f{index}": draw(SIZES)}
            place = st.sampled_from(["A", "B"])
            if draw(st.integers(0, 5)) == 0:
                keys["outputs"] = {f"f{index}": {"size": 5, "to": "https://x/out"}}
        machine = _now_and_then(draw, place, 3)
        if machine is not None:
            keys["machine"] = machine
        keys["after"] = [_dependency(draw, other, other in sweeps and index in sweeps) for other in before]
        flow.task(f"t{index}", **keys)
    if draw(st.integers(0, 3)) == 0:
        flow.task("move", kind="transfer", from_="A", to="B", file="big", size=draw(SIZES))
        flow.task("reader", machine="B", work=draw(WORK), inputs=["big"])
        flow.task("holder", machine="A", work=draw(WORK))
    return number


def _dependency(draw, other, paired):
    if paired and draw(st.booleans()):
        return f"t{other}[k]"
    if draw(st.integers(0, 4)) == 0:
        return {"task": f"t{other}", "if": draw(st.sampled_from(["exit_code == 0", "exit_code in [1, 2]"]))}
    return f"t{other}"


def _loop(draw, flow, after, kind):
    """Add a loop (plain, nested, or one per point of a sweep), and perhaps a task after it."""
    most = draw(st.integers(1, 4))
    rules = {"max_iterations": most, "on_exhausted": draw(st.sampled_from(["continue", "fail"]))}
    swept = {"sweep": {"k": "1..2"}} if kind == "per point" else {}
    tie = "[k]" if swept else ""
    machine = _now_and_then(draw, st.just("L-{k}" if swept else "L"), 2)
    place = {} if machine is None else {"machine": machine}
    flow.task("first", **_compute(draw), **swept, **place, after=after)
    flow.task("second", **_compute(draw), **swept, **place, after=f"first{tie}")
    flow.task("last", **_compute(draw), **swept, after=f"second{tie}")
    flow.loop("inner", last="last", first="first", until="last.exit_code == 0", **rules)
    end = "last"
    if kind == "nested":
        flow.task("outer_last", **_compute(draw), after="last")
        flow.loop("outer", last="outer_last", first="first", until="outer_last.exit_code == 0", **rules)
        end = "outer_last"
    if draw(st.booleans()):
        waits = draw(st.sampled_from(["inner" if kind != "nested" else "outer", end]))
        flow.task("beyond", **_compute(draw), after=waits)


@st.composite
def workflows(draw):
    """Draw a workflow with all features that the engine supports."""
    flow = Builder("drawn")
    number = _graph(draw, flow)
    kind = draw(st.sampled_from(["none", "none", "plain", "nested", "per point"]))
    after = [f"t{draw(st.integers(0, number - 1))}"] if draw(st.booleans()) else []
    if kind != "none":
        _loop(draw, flow, after, kind)
    if draw(st.integers(0, 4)) == 0:
        flow.task("split", **_compute(draw) | {"inputs": []}, outputs={"parts": 1}, after=after)
        flow.task("chunk", work=draw(WORK), sweep={"c": "lines(parts)"}, inputs=["parts"])
        flow.task("merge", work=1, after="chunk")
    try:
        return flow.build()
    except InvalidInput:
        assume(False)


LINKS = st.builds(
    Link, latency_s=st.sampled_from([0.0, 0.5]), bandwidth_Bps=st.sampled_from([1e6, 1e9, math.inf])
)
GENEROUS = {"nodes": 4, "memory": 4e9, "resources": {"licence": 2.0}, "speed": 2.0}


def _machine(draw, index):
    return Machine(
        name=f"m{index}",
        nodes=draw(st.sampled_from([1, 1, 2, 4])),
        speed=draw(st.sampled_from([0.5, 1.0, 1.0, 3.0])),
        memory=draw(st.sampled_from([None, None, 4e9])),
        resources=draw(st.sampled_from([{}, {"licence": 2.0}])),
        site=draw(st.sampled_from([None, "s0", "s1"])),
        occupancy=draw(st.sampled_from(["exclusive"] * 5 + ["unlimited"])),
        queue=draw(st.sampled_from(QUEUES)),
    )


@st.composite
def platforms(draw):
    """Draw one to six machines, some of several nodes, with sites and a share."""
    machines = tuple(_machine(draw, index) for index in range(draw(st.integers(1, 6))))
    machines = (replace(machines[0], **GENEROUS), *machines[1:])
    shared = draw(st.booleans()) and draw(st.booleans())
    return Platform(
        machines=machines,
        sites={"s0": draw(LINKS)} if any(machine.site == "s0" for machine in machines) else {},
        default_link=draw(LINKS),
        virtual=(Share(machine="m0", service="dock", nodes=1),) if shared else (),
    )


TIMES = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 10.0, 45.0])
TASKS = st.sampled_from(["t0", "t1", "t2", "t3", "first", "second", "last", "split", "t1[2]"])
MACHINES = st.sampled_from([("m0",), ("m1",), ("m[12]",), ("*",)])


def _some(draw, strategy, most=2):
    """Draw up to ``most`` values, in half of the cases none."""
    return tuple(draw(st.lists(strategy, max_size=most))) if draw(st.booleans()) else ()


LASTING = st.sampled_from([0.0, 1.0, 10.0, 100.0])


@st.composite
def scenarios(draw):
    """Draw a scenario of disturbances."""
    spans = st.sampled_from([Span(low=2.0, high=2.0), Span(low=1.0, high=8.0)])
    once = st.builds(Perturbation, machines=MACHINES, slowdown=spans, lasting_s=spans, at_s=TIMES)
    often = st.builds(
        Perturbation, machines=MACHINES, slowdown=spans, lasting_s=spans, at_s=TIMES, every_s=st.just(5.0)
    )
    failures = st.one_of(
        st.builds(Failure, machines=MACHINES, at_s=TIMES, repair_s=LASTING),
        st.builds(Failure, machines=MACHINES, mtbf_s=st.just(20.0), repair_s=st.just(5.0)),
        st.builds(Failure, machines=st.just(("m1",)), at_s=TIMES),
    )
    changes = st.builds(
        RequirementChange,
        task=TASKS,
        after=st.sampled_from([0.0, 0.3, 0.5]),
        requirements=st.sampled_from(["speed >= 1", "nodes > 1", 'name == "m1"', "bogus > 1"]).map(parse),
    )
    # A task that requests a rerun at each end would never end.
    ends = st.lists(CODES, min_size=1, max_size=3).map(
        lambda drawn: (*drawn, 0) if drawn[-1] in (85, 99) else tuple(drawn)
    )
    noise = draw(st.sampled_from([0.0, 0.0, 0.3]))
    return Scenario(
        durations=Durations(noise=noise, bias=draw(st.sampled_from([1.0, 1.0, 0.5, 2.0]))),
        perturbations=_some(draw, st.one_of(once, often)),
        failures=_some(draw, failures),
        loads=_some(
            draw,
            st.builds(
                CompetingLoad,
                machines=MACHINES,
                processes=st.integers(1, 3),
                at_s=TIMES,
                until_s=st.just(50.0),
            ),
        ),
        silences=_some(
            draw,
            st.builds(
                Silence,
                machines=MACHINES,
                at_s=TIMES,
                lasting_s=LASTING,
                what=st.sampled_from(["both", "job-manager", "gatekeeper"]),
            ),
        ),
        suspensions=_some(draw, st.builds(Suspension, task=TASKS, at_s=TIMES, lasting_s=LASTING)),
        cancellations=_some(draw, st.builds(Cancellation, task=TASKS, at_s=TIMES)),
        requirements=_some(draw, changes, 1),
        exit_codes=dict(_some(draw, st.tuples(TASKS, ends))),
        iterations=dict(_some(draw, st.tuples(st.sampled_from(["inner", "outer"]), st.integers(1, 5)))),
        lines=dict(_some(draw, st.tuples(st.just("parts"), st.integers(0, 3)))),
        network=draw(st.sampled_from(["unshared", "shared"])),
        overhead_per_task_s=draw(st.sampled_from([0.0, 0.0, 0.25])),
        stage_latency_s=draw(st.sampled_from([0.0, 0.0, 0.5])),
        profiles=dict(_some(draw, st.tuples(TASKS, st.just(10)))),
        denied=draw(st.sampled_from([(), (), ("m1",)])),
        replanning_s_per_point=draw(st.sampled_from([0.0, 1.0])),
    )


@st.composite
def settings_drawn(draw):
    """Draw a preset, perhaps with changes."""
    found = replace(preset_settings(draw(st.sampled_from(sorted(list_presets())))), replan_planner="heft")
    changes = {
        "contract": st.sampled_from([0.0, 0.5]),
        "iteration_limit_s": st.just(0.5),
        "poll_every_s": st.sampled_from([1.0, 5.0]),
        "migrate": st.sampled_from(["never", "pays", "always"]),
        "gain": st.sampled_from([0.0, 0.2]),
        "checkpoints": st.booleans(),
        "better_every_s": st.sampled_from([1.0, 5.0]),
        "suspension_timeout_s": st.sampled_from([None, 0.0, 2.0]),
        "ladder_every_s": st.sampled_from([None, 1.0, 4.0]),
        "discover_every_s": st.sampled_from([None, 3.0]),
        "fetch_every_s": st.sampled_from([None, 3.0]),
        "authorise": st.booleans(),
        "bound_ancestors": st.sampled_from(["always", "lost"]),
        "retries": st.sampled_from([0, 1, 3]).map(lambda count: dict.fromkeys(CAUSES, count)),
        "on_failure": st.sampled_from(["hold", "reschedule", "stop", "continue"]),
        "strict_plan": st.booleans(),
        "replan_when": st.lists(st.sampled_from(REPLAN_WHEN), unique=True).map(tuple),
        "replan_share": st.sampled_from([0.0, 0.5]),
        "replan_every_s": st.sampled_from([None, 0.0, 3.0]),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(changes)), max_size=5, unique=True))
    return replace(found, **{key: draw(changes[key]) for key in chosen})


PLANNERS = st.sampled_from(["heft", "cpop", "lazy", "round-robin"])


@st.composite
def simulations(draw):
    """Draw a whole simulation: one or two workflows with arrivals, a policy, settings and a scenario."""
    platform = draw(platforms())
    library, arrivals = {}, []
    try:
        for key in "ab"[: draw(st.integers(1, 2))]:
            library[key] = compile_instance(check_and_unfold(draw(workflows())), platform)
            arrivals.append(
                Arrival(workflow=key, at_s=draw(TIMES), owner=draw(st.sampled_from([None, "ann"])))
            )
    except (Infeasible, InvalidInput):
        assume(False)
    return Simulation(
        library=WorkflowLibrary(library),
        arrivals=sorted(arrivals, key=lambda arrival: arrival.at_s),
        policy=make_policy(draw(st.sampled_from(sorted(POLICIES)))),
        settings=draw(settings_drawn()),
        scenario=draw(scenarios()),
        planner=draw(PLANNERS),
        budget=PlanningBudget(steps=20),
        seed=draw(st.integers(0, 3)),
    )
