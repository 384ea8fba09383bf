"""Worker pools of planners, and the progress of a search."""

from __future__ import annotations

import pytest

import weft
from planning_examples import platform, workflow
from weft.api.plan import open_pool
from weft.errors import InvalidInput
from weft.pools.pool import SerialPool
from weft.search.pool import INLINE_POOL

FORK = {"a": {"work": 3}, "b": {"sweep": {"k": "1..7"}, "work": "k", "after": "a"}}
UNLIKE = platform({"speed": 1.0}, {"speed": 1.7})


class TestPool:
    def test_one_worker_uses_no_pool(self):
        with open_pool() as pool:
            assert pool is INLINE_POOL

    def test_workers_are_processes(self):
        with open_pool(workers=2) as pool:
            assert (type(pool).__name__, pool.workers) == ("ProcessPool", 2)

    def test_pool_is_created_by_name(self):
        with open_pool(pool="threads:3") as pool:
            assert (type(pool).__name__, pool.workers) == ("ThreadPool", 3)

    def test_open_pool_is_used_unchanged(self):
        given = SerialPool()
        with open_pool(pool=given) as pool:
            assert pool is given

    @pytest.mark.parametrize(
        ("given", "reported"),
        [
            ({"workers": 0}, "0 workers; must be at least 1"),
            ({"workers": 2, "cluster": "tcp://127.0.0.1:9"}, "workers and cluster were given"),
            ({"cluster": "tcp://127.0.0.1:9", "pool": "serial"}, "cluster and pool were given"),
            ({"pool": "serial:2"}, "serial:2 has an argument; the pool serial has one worker"),
            ({"pool": "fibres"}, "unknown pool 'fibres'"),
        ],
    )
    def test_invalid_numbers_of_workers_are_rejected(self, given, reported):
        with pytest.raises(InvalidInput, match=reported):
            weft.plan(workflow(FORK), on=UNLIKE, **given)


class TestProgress:
    def test_improved_plans_are_reported(self):
        received = []
        planned = weft.plan(workflow(FORK), on=UNLIKE, plan_steps=200, progress=received.append)
        assert received[-1].makespan_s == planned.makespan_s
        assert received[-1].bound_s <= planned.lower_bound_s

    def test_progress_record_names_planner_and_bound(self):
        planned = weft.plan(workflow(FORK), on=UNLIKE, plan_steps=200, pool="threads:2")
        record = planned.as_record()
        assert record["found_by"] == planned.plan.by
        assert (record["workers"], record["islands"], record["plan_steps"]) == (2, 2, 200)
