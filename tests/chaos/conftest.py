"""Fixtures of the chaos tests: a process that forks engines, and the results of undisturbed runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from architecture.package import environment
from chaos.engines import Stable
from chaos.scene import EVERYTHING, Outcome, Scene, undisturbed


@pytest.fixture(scope="session")
def stable() -> Iterator[Stable]:
    """Return the process that forks engines."""
    made = Stable(environment())
    yield made
    made.close()


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

    def make(*workflows: str, policy: str = "fcfs") -> Scene:
        scene = Scene(tmp_path_factory.mktemp("chaos") / "scene", stable, workflows, policy=policy)
        made.append(scene)
        return scene

    yield make
    for scene in made:
        scene.tidy()
