"""Selectors: a job may name the policy that places it (docs/papers/adaptive-jobs.md, section 3)."""

from __future__ import annotations

import pytest

from driven_engine import platform_of, simulated
from weft.engine import messages as cm
from weft.engine.engine import Engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.errors import InvalidInput
from weft.instance.compilation import compile_instance
from weft.policies.policy import make_policy
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold


def two_kinds(selector=None, count=1):
    """Return jobs whose selector prefers the slowest machine, and plain tasks of the same size."""
    own = {} if selector is None else {"selector": selector}
    flow = Builder("two")
    flow.task("plain", work=10, sweep={"i": f"1..{count}"})
    flow.task("choosy", work=10, sweep={"i": f"1..{count}"}, rank="-speed", **own)
    return flow.build()


def machines_of(ran, name):
    names = ran.run.compiled.names
    return [each.machine for _, each in ran.commands(cm.Assign) if names[each.task].startswith(name)]


def test_job_is_placed_by_its_own_selector():
    ran = simulated(two_kinds("rank"), platform_of(1, 2, 3))
    assert machines_of(ran, "plain") == [2]
    assert machines_of(ran, "choosy") == [0]
    assert ran.run.ending == "completed"


def test_rank_determines_the_machine_of_tasks_with_and_without_a_selector():
    ran = simulated(two_kinds(), platform_of(1, 2, 3))
    assert (machines_of(ran, "plain"), machines_of(ran, "choosy")) == ([2], [0])


def test_selectors_take_options():
    flow = two_kinds("layered:intra=priority", count=2)
    ran = simulated(flow, platform_of(1, 2, 3, 4))
    assert (machines_of(ran, "plain"), machines_of(ran, "choosy")) == ([3, 2], [0, 1])


def test_all_tasks_complete_when_tasks_with_selectors_share_few_machines():
    ran = simulated(two_kinds("rank", count=5), platform_of(1, 2))
    assert ran.run.ending == "completed"
    assert len(ran.commands(cm.Start)) == 10


@pytest.mark.parametrize(("name", "message"), [("zzz", "zzz"), ("plan", "needs a plan")])
def test_invalid_selector_is_refused_before_the_run(name, message):
    with pytest.raises(InvalidInput, match=message):
        simulated(two_kinds(name), platform_of(1))


def test_engine_without_named_policies_refuses_selectors():
    instance = compile_instance(check_and_unfold(two_kinds("rank")), platform_of(1))
    with pytest.raises(InvalidInput, match="'rank': unknown policy"):
        Engine(WorkflowLibrary({"w": instance}), instance, make_policy("fcfs"))
