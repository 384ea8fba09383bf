"""Static planning: the shelf of planners. The contract is in ``planner.py``; read it first."""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["PLANNERS"]

PLANNERS = Shelf(
    "weft.planners",
    "planner",
    {
        "auto": "weft.planners.portfolio.auto:Auto",
        "heft": "weft.planners.lists.heft:Heft",
        "cpop": "weft.planners.lists.cpop:Cpop",
        "peft": "weft.planners.lists.peft:Peft",
        "lookahead": "weft.planners.lists.lookahead:Lookahead",
        "dls": "weft.planners.lists.dls:Dls",
        "etf": "weft.planners.lists.etf:Etf",
        "hlfet": "weft.planners.lists.hlfet:Hlfet",
        "mct": "weft.planners.lists.mct:Mct",
        "olb": "weft.planners.lists.olb:Olb",
        "minmin": "weft.planners.lists.minmin:MinMin",
        "maxmin": "weft.planners.lists.maxmin:MaxMin",
        "sufferage": "weft.planners.lists.sufferage:Sufferage",
        "shuffle": "weft.planners.sweeps.shuffle:Shuffle",
        "xdcp": "weft.planners.sweeps.xdcp:Xdcp",
        "heft-moldable": "weft.planners.moldable.heft_moldable:HeftMoldable",
        "cpa": "weft.planners.moldable.cpa:Cpa",
        "local-optimum": "weft.planners.moldable.local_optimum:LocalOptimum",
        "weave": "weft.planners.weaving.weave:Weave",
        "genetic": "weft.planners.searches.genetic:Genetic",
        "moldable-genetic": "weft.planners.searches.moldable_genetic:MoldableGenetic",
        "annealing": "weft.planners.searches.annealing:Annealing",
        "cp-sat": "weft.planners.exact.cp_sat:CpSat",
        "lazy": "weft.planners.baselines.lazy:Lazy",
        "fastest": "weft.planners.baselines.fastest:Fastest",
        "cheapest": "weft.planners.baselines.cheapest:Cheapest",
        "round-robin": "weft.planners.baselines.round_robin:RoundRobin",
        "random": "weft.planners.baselines.random_machine:RandomMachine",
    },
)
"""To add a planner: one file in a family's folder, one line here."""
