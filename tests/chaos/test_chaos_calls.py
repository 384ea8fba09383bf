"""Every n-th system call fails: a run stops with a message or continues, and nothing false is claimed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from chaos.calls import fail_calls
from chaos.engines import Stable
from chaos.scene import Outcome, Scene
from chaos.shim import ENGINE, RUNNER, TASK


@pytest.mark.parametrize("roles", [ENGINE, RUNNER, TASK, ENGINE | RUNNER | TASK])
def test_run_completes_although_system_calls_fail(
    scenes: Callable[..., Scene], preloaded: Stable, expected_small: Outcome, roles: int
) -> None:
    failed = 0
    for seed in range(2):
        scene = scenes("small", by=preloaded)
        failed += sum(fail_calls(scene, random.Random(f"{roles} {seed}"), roles=roles).values())
        assert scene.audit(expected_small) == []
    assert failed
