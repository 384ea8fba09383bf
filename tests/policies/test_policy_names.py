"""Policies by name, with options."""

from __future__ import annotations

import pytest

from weft.cli.registries import describe
from weft.errors import InvalidInput
from weft.policies import POLICIES
from weft.policies.layered import LayeredPolicy
from weft.policies.manager_worker import ManagerWorker, PriorityManagerWorker
from weft.policies.multi_workflow import Foft
from weft.policies.orders import ByPriority
from weft.policies.policy import make_policy


def test_options_in_a_policy_name_set_fields():
    assert make_policy("foft:intra=priority") == Foft(intra="priority")
    assert isinstance(make_policy("foft:intra=priority").order, ByPriority)
    assert make_policy("layered:inter=srpt:rounds=tasks") == LayeredPolicy(inter="srpt", rounds="tasks")


def test_policy_names_of_the_papers_are_accepted():
    assert make_policy("m-s:fastest=true") == ManagerWorker(fastest=True)
    assert make_policy("pm-s") == PriorityManagerWorker()
    assert "m-s" not in list(POLICIES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foff", "unknown policy 'foff'; did you mean 'foft'?"),
        ("foft:intro=rank", "policy 'foft' has no option 'intro'; did you mean 'intra=...'?"),
        ("foft:intra", "option 'intra' of policy 'foft' has no value; write 'intra=...'"),
        ("foft:intra=best", "foft:intra=best; must be one of rank, index, priority"),
        ("plan:strict=1", "plan:strict=1; must be true or false"),
    ],
)
def test_error_names_the_invalid_policy_option(text, message):
    with pytest.raises(InvalidInput) as caught:
        make_policy(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_option_has_a_docstring(name):
    found = describe(name, POLICIES)
    assert found.title
    assert [option.name for option in found.options if not option.meaning] == []
