"""Fixtures of the chaos tests: a process that forks engines, and the results of undisturbed runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from architecture.package import environment
from chaos.engines import Stable
from chaos.power import RecordedRun
from chaos.scene import EVERYTHING, Outcome, Scene, undisturbed
from chaos.shim import compiler, library


@pytest.fixture(scope="session")
def stable() -> Iterator[Stable]:
    """Return the process that forks engines."""
    made = Stable(environment())
    yield made
    made.close()


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Stable]:
    """Return a process that forks engines which use the preloaded library; skip without a compiler."""
    if compiler() is None:
        assert not os.environ.get("CI"), "no C compiler"
        pytest.skip("no C compiler: install gcc")
    made = Stable(environment(LD_PRELOAD=str(library())))
    yield made
    made.close()


@pytest.fixture(scope="session")
def recorded_small(preloaded: Stable, tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    """Return the recorded run of the small workflow."""
    return RecordedRun(Scene(tmp_path_factory.mktemp("recorded") / "small", preloaded, ["small"]))


@pytest.fixture(scope="session")
def expected_small(stable: Stable, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the result of the small workflow without disturbances."""
    return undisturbed(tmp_path_factory.mktemp("peace") / "small", stable, ["small"])


@pytest.fixture(scope="session")
def expected(stable: Stable, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return the result of all workflows without disturbances."""
    return undisturbed(tmp_path_factory.mktemp("peace") / "all", stable, EVERYTHING)


@pytest.fixture
def scenes(stable: Stable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Scene]]:
    """Return a function that creates scenes; kill the processes they leave."""
    made: list[Scene] = []

    def make(*workflows: str, by: Stable = stable, folder: Path | None = None, **more: str) -> Scene:
        scene = Scene(folder or tmp_path_factory.mktemp("chaos") / "scene", by, workflows, **more)
        made.append(scene)
        return scene

    yield make
    for scene in made:
        scene.tidy()
