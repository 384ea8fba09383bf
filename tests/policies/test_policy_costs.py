"""The number of executed lines per event of each policy does not depend on the number of waiting tasks and
machines.

The cost is the number of executed lines of Python, not seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import weft
from planning_examples import instance, platform
from weft.backends.simulation.scenario import Arrival, Durations, Failure, RequirementChange, Scenario
from weft.engine.engine import Engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.expressions import parse
from weft.platform.platform import Link
from weft.policies import POLICIES
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings

FEW, MANY = 300, 1_500
"""Numbers of waiting tasks that are compared."""

SETTLED, EVENTS = 30, 24
"""Events before anything is counted, and events that are counted."""

WITHIN = 1.25
"""Tolerance of the ratio of costs: another order of events changes the work slightly."""

AHEAD, SERVED = 24, 6
"""Limits of placed tasks in a forecast and of tasks evaluated in a queue, so small that they are exceeded."""

VARIANTS = [
    "basic:sizing=frugal",
    "foft:intra=priority",
    "shared-plans:inter=fcfs",
    "shared-plans:inter=g-heft",
    "shared-plans:inter=aging-e:rounds=tasks",
    "shared-plans:inter=g-heft:rounds=tasks",
    "shared-plans:inter=srpt:rounds=tasks",
    "shared-plans:rounds=tasks",
    "layered:inter=aging:rounds=tasks:intra=priority",
    "layered:inter=foft:rounds=tasks:placement=rank",
    "layered:inter=srpt:intra=index",
    "lazy:by=finish",
    "lazy:by=transfer:sizing=frugal",
    "manager-worker:fastest=true",
    "plan:strict=true",
]
"""Policies with options that select other code paths."""

COUNTED = tuple(str(Path(weft.__file__).parent / package) for package in ("policies", "engine"))

ASKED, SOONEST = 4, 2
"""Limits of evaluated machines of a class, so small that they are exceeded."""


def machines(count, **keys):
    """Return the keys of ``count`` machines, half of them with speed 1 and half with speed 3."""
    return [{"speed": speed, **keys} for speed in (1.0, 3.0) for _ in range(count // 2)]


def unequal(count):
    """Return machines of two speeds."""
    return platform(*machines(count))


def sites(count):
    """Return machines of two speeds at two sites."""
    each = ({**machine, "site": f"s{machine['speed']}"} for machine in machines(count))
    return platform(*each, link=Link(bandwidth_Bps=1e6))


def wide(count):
    """Return machines of several nodes and some memory."""
    return platform(*machines(count, nodes=4, memory=8e9))


SURPRISES = Scenario(durations=Durations(noise=0.2))
LOST = Scenario(durations=Durations(noise=0.2), failures=(Failure(machines=("m5",), at_s=0.5, repair_s=1e6),))


FAILING = Scenario(durations=Durations(noise=0.2), exit_codes={"a": (1, 0)})
SHORT_OF_MEMORY = Scenario(durations=Durations(noise=0.2), exit_codes={"a": ("oom", 0)})
DEMANDING = Scenario(
    durations=Durations(noise=0.2),
    requirements=(RequirementChange(task="a", after=0.5, requirements=parse("speed > 2")),),
)
USUAL = RunSettings()
ASKING = RunSettings(discover_every_s=300.0, fetch_every_s=4.0, authorise=True)


class Lines:
    """Counts executed lines of policies and engine, those of comprehensions once per element."""

    def __init__(self):
        self.counted = 0

    def during(self, function, *arguments):
        """Call a function, add the lines it executes to ``counted``, and return its result."""
        counted = 0
        traces = {}  # by file: the trace function of counted files, None for others

        # Closures, because the interpreter calls them for every line and methods take a third longer.
        def trace_line(frame, event, argument):
            nonlocal counted
            counted += 1
            return trace_line

        def trace_call(frame, event, argument):
            file = frame.f_code.co_filename
            if file not in traces:
                traces[file] = trace_line if file.startswith(COUNTED) else None
            return traces[file]

        before = sys.gettrace()
        sys.settrace(trace_call)
        try:
            return function(*arguments)
        finally:
            sys.settrace(before)
            self.counted += counted


def sweep(size, **tasks):
    """Return the keys of sweeps, one per given task, with about ``size`` subtasks in all."""
    return {name: {"sweep": {"k": f"1..{size // len(tasks)}"}, **keys} for name, keys in tasks.items()}


def pairs(size, **keys):
    """Return many pairs of dependent tasks."""
    return sweep(size, a={"work": 10, **keys}, b={"work": 7, "after": "a[k]", **keys})


def different_pairs(size):
    """Return pairs of tasks with distinct durations."""
    return sweep(size, a={"work": "10 + k / 1000"}, b={"work": "7 + k / 1000", "after": "a[k]"})


def moldable(size):
    """Return pairs of tasks on several nodes."""
    return pairs(size, nodes=[1, 2, 4], speedup={"amdahl": 0.3})


def with_data(size):
    """Return pairs of tasks with a file between them."""
    return sweep(
        size, a={"work": 10, "outputs": {"x{k}": "2MB"}}, b={"work": 7, "inputs": ["x{k}"]}, c={"work": 3}
    )


def with_memory(size):
    """Return pairs of tasks that fill the memory of a machine before its nodes."""
    return pairs(size, memory="3GB")


def with_little_memory(size):
    """Return pairs of tasks that may run out of memory and then get more."""
    return pairs(size, memory="1GB", retries={"oom": 2})


def retried(size):
    """Return pairs of tasks that may fail."""
    return pairs(size, retries=2)


def ranking(size):
    """Return pairs of tasks with rank expressions."""
    return pairs(size, rank="-speed")


def with_files(size):
    """Return pairs of tasks that need an input file."""
    return pairs(size, inputs=[{"file": "r", "from": "r.pdb", "size": "1MB", "shared": True}])


def with_transfers(size):
    """Return pairs of tasks with a transfer task between them whose destination is not bound."""
    return sweep(
        size,
        a={"work": 10, "machine": "A{k}", "outputs": ["x{k}"]},
        m={"kind": "transfer", "from_": "A{k}", "to": "B{k}", "file": "x{k}", "size": "2MB"},
        b={"work": 7, "machine": "B{k}", "inputs": ["x{k}"]},
    )


SCENES = {
    "pairs": (pairs, unequal, SURPRISES),
    "a machine is down": (pairs, unequal, LOST),
    "a machine is down, data move": (with_data, sites, LOST),
    "all times differ": (different_pairs, unequal, SURPRISES),
    "data move": (with_data, sites, SURPRISES),
    "several nodes": (moldable, wide, SURPRISES),
    "memory": (with_memory, wide, SURPRISES),
    "open transfers": (with_transfers, sites, SURPRISES),
    "machines are queried first": (pairs, unequal, SURPRISES, ASKING),
    "tasks avoid machines": (retried, unequal, FAILING),
    "tasks ask for other machines": (pairs, unequal, DEMANDING),
    "tasks request more memory": (with_little_memory, wide, SHORT_OF_MEMORY),
    "tasks rank machines": (ranking, unequal, SURPRISES),
    "files come from outside": (with_files, unequal, SURPRISES),
}
"""Workflow, platform, events and contract of each scene."""

IN_EVERY_SCENE = [
    "basic",
    "fcfs",
    "foft",
    "lazy:by=finish",
    "manager-worker",
    "plan",
    "plan:strict=true",
    "shared-plans",
    "shared-plans:inter=g-heft:rounds=tasks",
]
"""Policies with their own code for data, multi-node machines or machines that are down."""

SPECIAL = list(SCENES).index("machines are queried first")
"""Scenes from here on need a closer evaluation for every policy."""

CASES = [("pairs", policy) for policy in [*sorted(POLICIES), *VARIANTS]]
CASES += [(scene, policy) for scene in list(SCENES)[1:SPECIAL] for policy in IN_EVERY_SCENE]
CASES += [
    (scene, policy) for scene in list(SCENES)[SPECIAL:] for policy in ("basic", "fcfs", "plan:strict=true")
]
CASES += [("machines are queried first", "foft"), ("tasks request more memory", "foft")]

ON_FEW, ON_MANY = 16, 64
"""Numbers of machines that are compared."""

PER_MACHINE = 36
"""Number of tasks per machine."""

ON_MACHINES = [(scene, policy) for scene, policy in CASES if "plan" not in policy]
"""Policies that follow plans are covered by ``test_plan_costs``."""


def lines_per_event(monkeypatch, policy, waiting, scene, *, on=8, settled=SETTLED, events=EVENTS):
    """Return the executed lines per event while two workflows compete and this many tasks wait."""
    make, where, scenario, *agreed = SCENES[scene]
    lines, handle, seen = Lines(), Engine.handle, 0

    def counting(engine, event, now):
        nonlocal seen
        seen += 1
        return lines.during(handle, engine, event, now) if seen > settled else handle(engine, event, now)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "handle", counting)
        library = WorkflowLibrary({key: instance(make(waiting // 2), where(on)) for key in "vw"})
        arrivals = [Arrival(workflow=key) for key in "vw"]
        simulation = Simulation(library, arrivals, make_policy(policy), *(agreed or [USUAL]), scenario)
        engine = simulation.run(stop=lambda _: seen >= settled + events)
    assert sum(run.unfinished for run in engine.state.runs) > 0.6 * waiting, "they still wait"
    return lines.counted / events


@pytest.fixture
def little_looked_at(monkeypatch):
    monkeypatch.setenv("WEFT_KERNELS", "plain")  # compiling takes longer than the few plans of these tests
    monkeypatch.setattr("weft.policies.forecast._MOST_PLACED", AHEAD)
    monkeypatch.setattr("weft.engine.state.machines._MAX_SERVED", SERVED)
    monkeypatch.setattr("weft.engine.state.indexes._MAX_COMPARED", ASKED)
    monkeypatch.setattr("weft.engine.state.indexes._SHORTLIST", SOONEST)


@pytest.mark.usefixtures("little_looked_at")
@pytest.mark.parametrize(("scene", "policy"), CASES)
def test_executed_lines_per_event_do_not_depend_on_the_number_of_waiting_tasks(monkeypatch, policy, scene):
    few, many = (lines_per_event(monkeypatch, policy, waiting, scene) for waiting in (FEW, MANY))
    assert few > 0
    assert many <= WITHIN * few


@pytest.mark.usefixtures("little_looked_at")
@pytest.mark.parametrize(("scene", "policy"), ON_MACHINES)
def test_executed_lines_per_event_do_not_depend_on_the_number_of_machines(monkeypatch, policy, scene):
    few, many = (
        lines_per_event(monkeypatch, policy, PER_MACHINE * on, scene, on=on, settled=3 * on, events=3 * on)
        for on in (ON_FEW, ON_MANY)
    )
    assert few > 0
    assert many <= WITHIN * few


@pytest.mark.parametrize("policy", ["foft", "basic"])
def test_executed_lines_per_event_with_default_limits_do_not_depend_on_waiting_tasks(monkeypatch, policy):
    few, many = (lines_per_event(monkeypatch, policy, waiting, "pairs") for waiting in (1_000, 5_000))
    assert many <= WITHIN * few
