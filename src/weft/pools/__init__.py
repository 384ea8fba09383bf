"""Where work is done side by side: the registry of pools. The contract is ``weft.search.pool``; read it
first.

``pool.py`` adds what whoever opens a pool needs: its name, and to close it.
"""

from __future__ import annotations

from weft.registry import Registry

__all__ = ["POOLS"]

POOLS = Registry(
    "weft.pools",
    "pool",
    {
        "serial": "weft.pools.pool:SerialPool",
        "threads": "weft.pools.pool:ThreadPool",
        "processes": "weft.pools.processes:ProcessPool",
        "dask": "weft.pools.dask_cluster:DaskPool",
    },
)
"""To add a pool: one file, one line here."""
