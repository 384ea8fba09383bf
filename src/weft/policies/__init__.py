"""Online decisions during a run: the shelf, by name. The contract is in ``policies/policy.py``."""

from weft.registry import Shelf

__all__ = ["POLICIES"]

POLICIES = Shelf(
    "weft.policies",
    "policy",
    {
        "plan": "weft.policies.following:Following",
        "basic": "weft.policies.sharing:Basic",
        "g-heft": "weft.policies.sharing:GHeft",
        "aging": "weft.policies.sharing:Aging",
        "aging-e": "weft.policies.sharing:AgingE",
        "fcfs": "weft.policies.sharing:Fcfs",
        "srpt": "weft.policies.sharing:Srpt",
        "foft": "weft.policies.sharing:Foft",
        "layered": "weft.policies.layered:Layered",
        "shared-plans": "weft.policies.shared_plans:SharedPlans",
        "manager-worker": "weft.policies.manager_worker:ManagerWorker",
        "priority-manager-worker": "weft.policies.manager_worker:PriorityManagerWorker",
        "lazy": "weft.policies.lazy:Lazy",
        "rank": "weft.policies.matching:Matching",
    },
    aliases={"m-s": "manager-worker", "pm-s": "priority-manager-worker"},
)
"""To add a policy: one file, one line here."""
