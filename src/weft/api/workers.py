"""The workers a planner gets: planners open no pools themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import InvalidInput, Problem
from weft.search.pool import ALONE, Pool

__all__ = ["pool_of"]


@contextmanager
def pool_of(
    *, workers: int = 1, cluster: str | None = None, pool: Pool | str | None = None
) -> Iterator[Pool]:
    """Open what was asked for, and close it: a pool by name, a Dask cluster, or processes of this host.

    A pool that is open already stays so.
    """
    if workers < 1:
        raise InvalidInput(Problem(what=f"{workers} workers", rule="must be at least 1"))
    given = {"workers": workers > 1, "cluster": cluster is not None, "pool": pool is not None}
    if sum(given.values()) > 1:
        both = " and ".join(name for name, said in given.items() if said)
        rule = "only one of them can say where planning is done"
        raise InvalidInput(Problem(what=f"{both} were given", rule=rule))
    if pool is not None and not isinstance(pool, str):
        yield pool
        return
    name = pool or (f"dask:{cluster}" if cluster is not None else f"processes:{workers}")
    if name == "processes:1":
        yield ALONE
        return
    from weft.pools.pool import pool_named

    with pool_named(name) as opened:
        yield opened
