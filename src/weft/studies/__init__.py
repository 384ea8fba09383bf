"""Studies: the papers' experiments, run again. The contract is in ``reproduction.py``; read it first."""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["REPRODUCTIONS"]

REPRODUCTIONS = Shelf(
    "weft.reproductions",
    "reproduction",
    {
        "s1-tuning": "weft.studies.dynamic_grid.tuning:Tuning",
        "s1-dynamic": "weft.studies.dynamic_grid.dynamic:Dynamic",
        "s2-local": "weft.studies.moldable.local:Local",
        "s2-alpha": "weft.studies.moldable.alpha:Alpha",
        "s3-degradation": "weft.studies.adaptive_jobs.degradation:Degradation",
        "s3-requirements": "weft.studies.adaptive_jobs.requirements_change:RequirementsChange",
        "s4-tables": "weft.studies.sweeps.tables:Tables",
        "s4-samples": "weft.studies.sweeps.samples:Samples",
        "s5-scenario": "weft.studies.many_workflows.scenario:Scenario",
        "s5-starvation": "weft.studies.many_workflows.starvation:Starvation",
        "u1": "weft.studies.unified.together:Together",
        "u2": "weft.studies.real_time.pipelining:Pipelining",
        "u3": "weft.studies.real_time.sharing:Sharing",
        "u4": "weft.studies.real_time.adapting:Adapting",
    },
)
"""To add a reproduction: one file, one line here."""
