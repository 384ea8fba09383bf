"""Hypothesis strategies for workflows and platforms."""

from __future__ import annotations

import math
from functools import cache

from hypothesis import strategies as st

from weft.expressions import parse
from weft.platform.machine import OCCUPANCIES, QUEUES, Machine
from weft.platform.platform import Link, Platform, Share
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import (
    ALL,
    CAUSES,
    NO_RECOVERY,
    ON_FAILURE,
    Amdahl,
    Checkpoint,
    CommunicationOverhead,
    ContractTerms,
    Dependency,
    Environment,
    IndexRange,
    Input,
    JobSpec,
    MeasuredSeconds,
    Output,
    Recovery,
    Roofline,
    Task,
    TaskKind,
    Transfer,
)
from weft.workflow.workflow import Loop, Workflow

__all__ = ["digraphs", "platforms", "workflows"]

PARAMS = {
    "n": 3,
    "size": 2.5,
    "lengths": [4, 5, 6],
    "site": {"url": "a b", "deep": [1, None, True]},
    "label": "yes",
    "w1": parse("7*n + size"),
}
WORDS = st.sampled_from(
    ["plain", "a b", "yes", "1e3", "007", "#no", "a: b", "é", "{{x}}", "'q'", '"', "-", "~"]
)
NUMBERS = st.one_of(st.integers(0, 10**12), st.floats(0, 1e12, allow_nan=False))
FORMULAS = st.sampled_from(["n", "2*w1", "lengths[0] + 1", "max(n, size)", "5", "n*MB", "10 if n > 2 else 3"])
QUANTITIES = st.one_of(NUMBERS, FORMULAS.map(parse))
CONDITIONS = st.sampled_from(["exit_code == 0", "exit_code in [1, 2]", "result.delta < 0.1 and n > 1"])
VALUES = st.one_of(
    st.just(Range(low=parse("1"), high=parse("n"))),
    st.just(Range(low=parse("0.4"), high=parse("size/2"), step=parse("0.2"))),
    st.just(parse("lengths")),
    st.just(parse("range(1, n)")),
    st.lists(st.integers(-5, 5), min_size=1, max_size=3, unique=True).map(tuple),
    st.just(("x", "y z", 2.5)),
)
LAWS = st.one_of(
    st.builds(Amdahl, serial=st.floats(0, 1)),
    st.builds(Roofline, limit=st.integers(1, 64)),
    st.builds(CommunicationOverhead, overhead=st.floats(0, 1)),
)
MEASURED = st.dictionaries(st.integers(1, 64), st.floats(0.5, 1e6), min_size=1, max_size=4).map(
    lambda table: MeasuredSeconds(seconds=table)
)
COUNTS = st.one_of(
    st.lists(st.integers(1, 64), min_size=1, max_size=3, unique=True).map(tuple),
    st.just((1, Range(low=parse("2"), high=parse("2*n")), parse("n + 7"))),
)


AMOUNTS = st.one_of(
    QUANTITIES,
    st.just(parse("2*nodes + n")),
    st.dictionaries(st.integers(1, 8), QUANTITIES, min_size=1, max_size=3),
)
BUDGETS = ("credits", "scratch")
# Strategies are module constants: constructing a strategy takes longer than drawing from it.
VARIABLES = st.sampled_from([("k",), ("i", "j"), ("a", "b", "c")])
PARSED_CONDITIONS = CONDITIONS.map(parse)
INDICES = st.one_of(
    st.just(ALL),
    st.sampled_from(["1", "n - 1"]).map(parse),
    st.just(IndexRange(low=parse("1"), high=parse("2*n"))),
)


@cache
def optional(strategy):
    return st.one_of(st.none(), strategy)


@st.composite
def sweeps(draw):
    """Draw a sweep; paired variables have the same values."""
    names = draw(VARIABLES)
    if draw(st.booleans()):
        values = draw(VALUES)
        return Sweep(variables=tuple((name, values) for name in names), paired=True)
    return Sweep(variables=tuple((name, draw(VALUES)) for name in names))


@st.composite
def dependencies(draw, task, sweep):
    """Draw a dependency of any form on a task with or without a sweep."""
    condition = draw(optional(PARSED_CONDITIONS))
    if sweep is None or draw(st.booleans()):
        return Dependency(task=task, condition=condition)
    if draw(st.booleans()):
        return Dependency(task=task, pairs=((1, 2), ("x", 2.5)), condition=condition)
    index = tuple(draw(INDICES) for _ in sweep.names)
    return Dependency(task=task, index=index, condition=condition)


JOB = {
    "command": optional(st.one_of(WORDS, st.lists(WORDS, min_size=1, max_size=3).map(tuple))),
    "arguments": st.lists(WORDS, max_size=2).map(tuple),
    "call": optional(st.just("module:name")),
    "env": st.dictionaries(st.sampled_from(["A", "B_C"]), WORDS, max_size=2),
    "environment": optional(
        st.builds(
            Environment,
            container=optional(WORDS),
            conda=optional(WORDS),
            modules=st.just(("gcc", "mpi/4")),
        )
    ),
} | dict.fromkeys(
    ("stdin", "stdout", "stderr", "prolog", "wrapper", "epilog", "selector", "evaluator", "version"),
    optional(WORDS),
)


@st.composite
def jobs(draw):
    job = JobSpec(**{key: draw(field) for key, field in JOB.items()})
    return None if job == JobSpec() else job


CONTRACTS = st.one_of(
    st.just(ContractTerms(factor=math.inf)),
    st.builds(ContractTerms, factor=optional(st.floats(0, 3)), grace_s=optional(st.floats(0, 60))),
)
CHECKPOINTS = st.builds(
    Checkpoint,
    files=st.lists(WORDS, min_size=1, max_size=2).map(tuple),
    every=optional(st.floats(1, 600)),
    nodes=st.sampled_from(["same", "any"]),
)
RETRIES = st.dictionaries(st.sampled_from(CAUSES), st.integers(0, 9), max_size=3)
ENDINGS = st.sampled_from(ON_FAILURE)


@st.composite
def recoveries(draw):
    by_cause = draw(RETRIES)
    found = Recovery(
        checkpoint=draw(optional(CHECKPOINTS)),
        progress=draw(optional(WORDS)),
        contract=draw(optional(CONTRACTS)),
        retries=None if by_cause else draw(optional(st.integers(0, 9))),
        retries_by_cause=by_cause,
        on_failure=draw(optional(ENDINGS)),
        time_limit=draw(optional(st.floats(1, 1e6))),
    )
    return NO_RECOVERY if found == NO_RECOVERY else found


SWEEPS = optional(sweeps())
RECOVERIES = recoveries()
ATTRIBUTES = st.dictionaries(st.sampled_from(["description", "origin"]), WORDS, max_size=2)
KINDS = st.sampled_from(
    [TaskKind.COMPUTE, TaskKind.COMPUTE, TaskKind.COMPUTE, TaskKind.TRANSFER, TaskKind.VIRTUAL]
)
TARGETS = optional(st.just("s3://bucket/x"))
INPUTS = st.lists(
    st.builds(
        Input,
        file=st.sampled_from(["in.dat", "t0.0", "t1.0", "out/*"]),
        source=optional(st.just("https://host/x.gz")),
        size=optional(QUANTITIES),
        shared=st.booleans(),
        compressed=st.booleans(),
    ),
    max_size=2,
)
FORMS_OF_TIME = st.sampled_from(["work", "seconds", "by machine", "measured", "unknown"])
BY_MACHINE = st.dictionaries(st.sampled_from(["P1", "P2", "a b"]), QUANTITIES, min_size=1)
REST_OF_TASK = {
    "machine": optional(st.sampled_from(["M1", "M2", "host"])),
    "service": optional(WORDS),
    "requirements": optional(st.just(parse('memory >= 512*MB and arch == "x86_64"'))),
    "rank": optional(st.just(parse("speed"))),
    "cores": optional(QUANTITIES),
    "resources": st.dictionaries(st.sampled_from(["memory", "gpus", "licence"]), AMOUNTS, max_size=3),
    "consumes": st.dictionaries(st.sampled_from(BUDGETS), AMOUNTS, max_size=2),
    "job": jobs(),
    "outcomes": st.sampled_from([(), (0, 1), (7,)]),
}


@st.composite
def tasks(draw, name, earlier):
    """Draw a task that may depend on earlier ones."""
    sweep = draw(SWEEPS)
    chosen = (
        draw(st.lists(st.sampled_from(earlier), max_size=2, unique_by=lambda task: task.name))
        if earlier
        else []
    )
    after = tuple(draw(dependencies(task.name, task.sweep)) for task in chosen)
    common = {"name": name, "sweep": sweep, "after": after, "recovery": draw(RECOVERIES)}
    attributes = draw(ATTRIBUTES)
    kind = draw(KINDS)
    if kind is TaskKind.TRANSFER:
        moved = Transfer(source="M1", target="M2", file=f"{name}.out", size=draw(optional(QUANTITIES)))
        return Task(**common, kind=kind, transfer=moved, attributes=attributes)
    if kind is TaskKind.VIRTUAL:
        return Task(**common, kind=kind, attributes=attributes)
    suffix = "".join(f".{{{variable}}}" for variable in sweep.names) if sweep is not None else ""
    outputs = [
        Output(
            file=f"{name}.{number}{suffix}",
            size=draw(optional(QUANTITIES)),
            seconds=draw(optional(QUANTITIES)),
            target=draw(TARGETS),
        )
        for number in range(draw(st.integers(0, 2)))
    ]
    inputs = draw(INPUTS)
    form = draw(FORMS_OF_TIME)
    law = draw(MEASURED) if form == "measured" else draw(optional(LAWS))
    counts = draw(COUNTS) if law is not None and form != "measured" else (1,)
    return Task(
        **common,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        work=draw(QUANTITIES) if form == "work" else law.first_seconds if form == "measured" else None,
        seconds=draw(QUANTITIES) if form == "seconds" else draw(BY_MACHINE) if form == "by machine" else None,
        nodes=tuple(sorted(law.seconds)) if form == "measured" else counts,
        speedup=law,
        **{key: draw(values) for key, values in REST_OF_TASK.items()},
        attributes=attributes,
    )


@st.composite
def workflows(draw, most_tasks=5):
    """Draw a workflow with valid references; unfolding may still report problems."""
    found = []
    for number in range(draw(st.integers(1, most_tasks))):
        found.append(draw(tasks(f"t{number}", tuple(found))))
    loops = ()
    if draw(st.booleans()):
        loop = Loop(
            name="scf",
            first="t0",
            last=found[-1].name,
            until=draw(optional(PARSED_CONDITIONS)),
            max_iterations=draw(st.sampled_from([1, 40, parse("2*n")])),
            expect=draw(st.sampled_from([None, 12, parse("n")])),
            on_exhausted=draw(st.sampled_from(["fail", "continue"])),
        )
        loops = (loop,)
    return Workflow(
        name=draw(WORDS),
        tasks=tuple(found),
        loops=loops,
        params=PARAMS if draw(st.booleans()) else {"n": 2, "size": 1, "lengths": [1, 2], "w1": 3},
        budgets={name: draw(QUANTITIES) for name in BUDGETS},
        description=draw(optional(WORDS)),
        owner=draw(optional(WORDS)),
    )


LINKS = st.builds(
    Link,
    latency_s=st.floats(0, 10),
    bandwidth_Bps=st.one_of(st.just(float("inf")), st.floats(1, 1e12)),
)


@st.composite
def platforms(draw, most_machines=5):
    """Draw a valid platform with up to ``most_machines`` machines, sites, links and shares."""
    machines = [draw(_machines(f"m{number}")) for number in range(draw(st.integers(1, most_machines)))]
    places = [*(machine.name for machine in machines), *sorted({m.site for m in machines if m.site})]
    pairs = draw(
        st.lists(
            st.tuples(st.sampled_from(places), st.sampled_from(places), LINKS).filter(
                lambda pair: pair[0] != pair[1]
            ),
            max_size=2,
            unique_by=lambda pair: frozenset(pair[:2]),
        )
        if len(places) > 1
        else st.just([])
    )
    first = machines[0]
    share = Share(machine=first.name, service="dock", nodes=draw(st.integers(1, first.nodes)))
    return Platform(
        name=draw(st.sampled_from(["grid", "a b"])),
        machines=tuple(machines),
        sites={site: draw(LINKS) for site in sorted({m.site for m in machines if m.site})},
        default_link=draw(LINKS),
        links=tuple(pairs),
        virtual=(share,) if not first.is_time_shared and draw(st.booleans()) else (),
    )


MACHINE = {
    "nodes": st.integers(1, 64),
    "cores": st.integers(1, 128),
    "memory": optional(st.floats(0, 1e12)),
    "disk": optional(st.floats(0, 1e15)),
    "gpus": st.integers(0, 8),
    "speed": st.floats(0.1, 100),
    "speeds": st.dictionaries(st.sampled_from(["dock", "score"]), st.floats(0.1, 10), max_size=2),
    "price_per_node_hour": st.floats(0, 10),
    "services": st.sampled_from([(), ("dock",), ("a", "b c")]),
    "arch": optional(st.just("x86_64")),
    "os": optional(st.just("linux")),
    "site": st.sampled_from([None, "uibk", "ucm"]),
    "availability": st.floats(0.1, 1),
    "queue": st.sampled_from(QUEUES),
    "occupancy": st.sampled_from(OCCUPANCIES),
    "attributes": st.dictionaries(st.just("rack"), st.sampled_from(["x", 3, 2.5, True])),
    "backend": st.sampled_from([{}, {"kind": "local"}, {"kind": "slurm", "partition": "long"}]),
    "resources": st.dictionaries(st.just("licence"), st.floats(0, 100)),
}


@st.composite
def _machines(draw, name):
    return Machine(name=name, **{key: draw(values) for key, values in MACHINE.items()})


@st.composite
def digraphs(draw, most_nodes=9):
    """Draw successor lists of a directed graph, including self-loops and cycles."""
    count = draw(st.integers(1, most_nodes))
    nodes = st.integers(0, count - 1)
    return [sorted(draw(st.sets(nodes, max_size=3))) for _ in range(count)]
