"""The registry of planners. The interface is in ``planner.py``."""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["PLANNERS"]

PLANNERS = Registry(
    "weft.planners",
    "planner",
    {
        "auto": "weft.planners.auto:Auto",
        "heft": "weft.planners.heft:Heft",
        "cpop": "weft.planners.cpop:Cpop",
        "peft": "weft.planners.peft:Peft",
        "lookahead": "weft.planners.lookahead:Lookahead",
        "dls": "weft.planners.dls:Dls",
        "etf": "weft.planners.etf:Etf",
        "hlfet": "weft.planners.hlfet:Hlfet",
        "mct": "weft.planners.immediate_mode:Mct",
        "olb": "weft.planners.immediate_mode:Olb",
        "minmin": "weft.planners.batch_mode:MinMin",
        "maxmin": "weft.planners.batch_mode:MaxMin",
        "sufferage": "weft.planners.batch_mode:Sufferage",
        "shuffle": "weft.planners.sweeps:Shuffle",
        "xdcp": "weft.planners.xdcp:Xdcp",
        "heft-moldable": "weft.planners.heft_moldable:HeftMoldable",
        "cpa": "weft.planners.cpa:Cpa",
        "local-optimum": "weft.planners.local_optimum:LocalOptimum",
        "weave": "weft.planners.weave:Weave",
        "genetic": "weft.planners.genetic:GeneticPlanner",
        "moldable-genetic": "weft.planners.moldable_genetic:MoldableGeneticPlanner",
        "annealing": "weft.planners.annealing:AnnealingPlanner",
        "cp-sat": "weft.planners.exact.cp_sat:CpSat",
        "lazy": "weft.planners.lazy:LazyPlanner",
        "fastest": "weft.planners.immediate_mode:Fastest",
        "cheapest": "weft.planners.cheapest:Cheapest",
        "round-robin": "weft.planners.baselines:RoundRobin",
        "random": "weft.planners.baselines:RandomMachine",
    },
    interface=("title", "anytime", "supports", "plan"),
)
"""Planner classes by name, as ``module:class``; a new planner needs a module and a line here."""
