"""Registry of problem-independent optimisers over integer genomes; ``optimiser.py`` defines the interface."""

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
    interface=("title", "refuses", "optimise"),
)
"""Optimiser classes by name, as ``module:class``; a new optimiser needs a module and a line here."""
