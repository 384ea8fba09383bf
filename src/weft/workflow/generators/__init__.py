"""Generators of workflows; ``generator.py`` defines the interface."""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["GENERATORS"]

GENERATORS = Registry(
    "weft.generators",
    "kind of workflow",
    {
        "barrier": "weft.workflow.generators.moldable:Barrier",
        "fork-join": "weft.workflow.generators.fork_join:ForkJoin",
        "independent": "weft.workflow.generators.moldable:Independent",
        "layered": "weft.workflow.generators.layered:LayeredGraph",
        "montage": "weft.workflow.generators.montage:Montage",
        "reduction-tree": "weft.workflow.generators.moldable:ReductionTree",
        "sample-sweeps": "weft.workflow.generators.sweep_graphs:SampleGraph",
        "sweeps": "weft.workflow.generators.sweep_graphs:RandomSweeps",
    },
    interface=("title", "generate"),
)
"""Generators by name. A new generator needs one module and one line here."""
