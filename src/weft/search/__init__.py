"""Problem-independent optimisers over integer genomes; nothing of workflows is known here.

The contract is in ``optimiser.py``; read it first.
"""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["OPTIMISERS"]

OPTIMISERS = Shelf(
    "weft.optimisers",
    "optimiser",
    {
        "genetic": "weft.search.genetic:Genetic",
        "annealing": "weft.search.annealing:Annealing",
        "local-search": "weft.search.local_search:LocalSearch",
        "simplex": "weft.search.simplex:Simplex",
        "gradient": "weft.search.gradient:Gradient",
        "exhaustive": "weft.search.exhaustive:Exhaustive",
        "islands": "weft.search.islands:Islands",
    },
)
"""To add an optimiser: one file, one line here."""
