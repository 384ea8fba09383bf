"""Registry of pools for parallel evaluation.

``weft.search.pool`` defines the interface, ``pool.py`` the base class.
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
    interface=("workers", "map", "close"),
)
"""To add a pool, add a module and one line here."""
