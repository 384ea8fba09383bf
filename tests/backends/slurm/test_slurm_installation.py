"""Tests that need Slurm say so where it is missing."""

from __future__ import annotations

import pytest

import slurm_cluster


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_slurm_tests_are_skipped_and_fail_in_ci(monkeypatch, tmp_path, ci, outcome) -> None:
    monkeypatch.setattr(slurm_cluster, "ADMIN_PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="apt-get install"):
        slurm_cluster.need_slurm()
