"""Unusable Dask clusters are refused with advice."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

import dask_clusters as clusters
import weft
from weft.errors import InvalidInput
from weft.pools import dask_cluster
from weft.pools.dask_cluster import DaskPool


@pytest.fixture(autouse=True)
def _needs_dask():
    if importlib.util.find_spec("distributed") is None and not os.environ.get("CI"):
        pytest.skip("the package distributed is not installed")


@pytest.mark.parametrize("address", ["nonsense", "", "tcp://127.0.0.1", "tcp://127.0.0.1:no"])
def test_invalid_cluster_address_is_refused(address):
    with pytest.raises(InvalidInput, match=r"must be an address with a port; write tcp://HOST:8786"):
        DaskPool(address)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tcp://no-such-host.invalid:8786"])
def test_error_names_a_scheduler_that_does_not_answer(address, monkeypatch):
    monkeypatch.setattr(dask_cluster, "_TIMEOUT_S", 1)
    with pytest.raises(InvalidInput, match=r"no Dask scheduler answers at .*dask scheduler"):
        DaskPool(address)


def test_a_cluster_without_workers_is_refused(tmp_path):
    with (
        clusters.cluster(tmp_path, workers=0) as address,
        pytest.raises(InvalidInput, match="has no workers"),
    ):
        DaskPool(address)


def test_workers_with_another_version_are_refused(tmp_path, monkeypatch):
    with clusters.cluster(tmp_path) as address:
        monkeypatch.setattr(weft, "__version__", "99.0")
        with pytest.raises(
            InvalidInput, match=r"the worker tcp://.* has weft .*; every worker must have weft 99\.0; install"
        ):
            DaskPool(address)


def test_error_names_the_package_to_install_when_dask_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInput, match=r"pip install 'weft\[dask\]'"):
        DaskPool("tcp://127.0.0.1:8786")
