"""The poll interval is short enough for the shortest task with a contract."""

from __future__ import annotations

import pytest

from weft.api.settings import set_poll_interval
from weft.instance import compile_instance
from weft.platform.short_forms import parse_short_form
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings, SettingsLayers


def compiled(**works):
    """Return a compiled workflow with this work by task name; a task named ``owing...`` has a
    contract.
    """
    flow = Builder("pace")
    for name, work in works.items():
        flow.task(name, work=work, **({"contract": 0.5} if name.startswith("owing") else {}))
    return compile_instance(check_and_unfold(flow.build()), parse_short_form("identical:2,speed=2"))


@pytest.mark.parametrize(
    ("works", "every_s"),
    [
        ({"owing": 20}, 2.0),
        ({"owing": 20, "owing_more": 200, "free": 1}, 2.0),
        ({"owing": 0.1}, 0.5),
        ({"owing": 0, "owing_more": 20}, 2.0),
        ({"owing": 36000}, 30.0),
        ({"free": 1}, 30.0),
    ],
)
def test_poll_interval_is_a_fifth_of_the_shortest_task_with_a_contract(works, every_s):
    assert (
        set_poll_interval(SettingsLayers(), [compiled(free_too=1), compiled(**works)]).base.poll_every_s
        == every_s
    )


def test_a_contract_in_the_settings_applies_to_every_task():
    layers = SettingsLayers(overrides={"contract": 1.0})
    assert set_poll_interval(layers, [compiled(free=20)]).base.poll_every_s == 2.0


def test_poll_interval_is_kept_when_it_is_shorter_than_needed():
    requested = SettingsLayers(base=RunSettings(poll_every_s=0.1))
    assert set_poll_interval(requested, [compiled(owing=20)]) == requested
