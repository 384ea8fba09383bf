"""Policies by name, with options: ``fcfs``, ``foft:intra=priority``, ``plan:strict=true``."""

from __future__ import annotations

from weft.naming import made_by_name
from weft.policies.policy import Policy

__all__ = ["policy_named"]


def policy_named(text: str) -> Policy:
    """Make the policy that a name with options describes."""
    from weft.policies import POLICIES

    policy: Policy = made_by_name(POLICIES, text)
    return policy
