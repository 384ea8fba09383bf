"""Reproductions of the papers' experiments. The interface is in ``reproduction.py``."""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["REPRODUCTIONS"]


REPRODUCTIONS = Registry(
    "weft.reproductions",
    "reproduction",
    {
        "s1-tuning": "weft.papers.dynamic_grid_tuning:TuningStudy",
        "s1-dynamic": "weft.papers.dynamic_grid_migration:MigrationStudy",
        "s2-local": "weft.papers.moldable_local:LocalOptimumStudy",
        "s2-alpha": "weft.papers.moldable_alpha:AlphaStudy",
        "s3-degradation": "weft.papers.adaptive_jobs:DegradationStudy",
        "s3-requirements": "weft.papers.adaptive_jobs:RequirementsStudy",
        "s4-tables": "weft.papers.parameter_sweeps:TablesStudy",
        "s4-samples": "weft.papers.parameter_sweeps:SamplesStudy",
        "s5-scenario": "weft.papers.many_workflows_online:OnlineStudy",
        "s5-starvation": "weft.papers.many_workflows:StarvationStudy",
        "u1": "weft.papers.unified:UnifiedStudy",
        "u2": "weft.papers.unified_pipeline:PipelineStudy",
        "u3": "weft.papers.unified_sharing:SharingStudy",
        "u4": "weft.papers.unified_migration:JobMigrationStudy",
    },
    interface=("title", "cells", "run", "rows"),
)
"""To add a reproduction, add a class and one line here."""
