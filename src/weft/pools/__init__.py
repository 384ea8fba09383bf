"""Where work is done side by side: the shelf of pools. The contract is ``weft.search.pool``; read it first.

``pool.py`` adds what whoever opens a pool needs: its name, and to close it.
"""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["POOLS"]

POOLS = Shelf(
    "weft.pools",
    "pool",
    {
        "serial": "weft.pools.serial:Serial",
        "threads": "weft.pools.threads:Threads",
        "processes": "weft.pools.processes:Processes",
        "dask": "weft.pools.dask_cluster:DaskCluster",
    },
)
"""To add a pool: one file, one line here."""
