"""Registry of policies, which make decisions during a run; ``policy.py`` defines the interface."""

from weft.registry import Registry

__all__ = ["POLICIES"]

POLICIES = Registry(
    "weft.policies",
    "policy",
    {
        "plan": "weft.policies.plan_follower:PlanFollower",
        "basic": "weft.policies.multi_workflow:Basic",
        "g-heft": "weft.policies.multi_workflow:GHeft",
        "aging": "weft.policies.multi_workflow:Aging",
        "aging-e": "weft.policies.multi_workflow:AgingE",
        "fcfs": "weft.policies.multi_workflow:Fcfs",
        "srpt": "weft.policies.multi_workflow:Srpt",
        "foft": "weft.policies.multi_workflow:Foft",
        "layered": "weft.policies.layered:LayeredPolicy",
        "shared-plans": "weft.policies.shared_plans:SharedPlans",
        "manager-worker": "weft.policies.manager_worker:ManagerWorker",
        "priority-manager-worker": "weft.policies.manager_worker:PriorityManagerWorker",
        "lazy": "weft.policies.lazy:LazyPolicy",
        "rank": "weft.policies.matchmaker:Matchmaker",
    },
    interface=("title", "needs_plan", "decide"),
    aliases={"m-s": "manager-worker", "pm-s": "priority-manager-worker"},
)
"""The policies by name. To add a policy, add a module and one line here."""
