"""Problem-independent optimisers over integer genomes; nothing of workflows is known here.

The contract is in ``optimiser.py``; read it first.
"""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["OPTIMISERS"]

OPTIMISERS = Registry(
    "weft.optimisers",
    "optimiser",
    {
        "genetic": "weft.search.genetic:GeneticAlgorithm",
        "annealing": "weft.search.annealing:SimulatedAnnealing",
        "local-search": "weft.search.local_search:LocalSearch",
        "simplex": "weft.search.descent:Simplex",
        "gradient": "weft.search.descent:Gradient",
        "exhaustive": "weft.search.exhaustive:ExhaustiveSearch",
        "islands": "weft.search.islands:Islands",
    },
)
"""To add an optimiser: one file, one line here."""
