"""Workflows made to order: the shelf of generators. The contract is in ``generator.py``; read it first."""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["GENERATORS"]

GENERATORS = Shelf(
    "weft.generators",
    "kind of workflow",
    {
        "barrier": "weft.workflow.generators.barrier:Barrier",
        "fork-join": "weft.workflow.generators.fork_join:ForkJoin",
        "independent": "weft.workflow.generators.independent:Independent",
        "layered": "weft.workflow.generators.layered:Layered",
        "montage": "weft.workflow.generators.montage:Montage",
        "reduction-tree": "weft.workflow.generators.reduction_tree:ReductionTree",
        "sample-sweeps": "weft.workflow.generators.sample_graphs:SampleGraph",
        "sweeps": "weft.workflow.generators.sweep_layers:RandomSweeps",
    },
)
"""To add a kind: one file, one line here."""
