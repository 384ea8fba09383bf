"""Policies by name, with options."""

from __future__ import annotations

import pytest

from weft.api.describing import describe
from weft.errors import InvalidInput
from weft.policies import POLICIES
from weft.policies.layered import Layered
from weft.policies.manager_worker import ManagerWorker, PriorityManagerWorker
from weft.policies.naming import policy_named
from weft.policies.orders import ByPriority
from weft.policies.sharing import Foft


def test_options_become_fields():
    assert policy_named("foft:intra=priority") == Foft(intra="priority")
    assert isinstance(policy_named("foft:intra=priority").order, ByPriority)
    assert policy_named("layered:inter=srpt:rounds=tasks") == Layered(inter="srpt", rounds="tasks")


def test_the_names_of_the_paper_are_known():
    assert policy_named("m-s:fastest=true") == ManagerWorker(fastest=True)
    assert policy_named("pm-s") == PriorityManagerWorker()
    assert "m-s" not in list(POLICIES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foff", "unknown policy 'foff'; did you mean 'foft'?"),
        ("foft:intro=rank", "policy 'foft' has no option 'intro=rank'; did you mean 'intra=...'?"),
        ("foft:intra=best", "foft:intra=best; must be one of rank, index, priority"),
        ("plan:strict=1", "plan:strict=1; must be true or false"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(InvalidInput) as caught:
        policy_named(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_option_is_explained(name):
    found = describe(name, POLICIES)
    assert found.title
    assert [option.name for option in found.options if not option.meaning] == []
