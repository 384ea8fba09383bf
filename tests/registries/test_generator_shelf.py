"""Every generator on the registry keeps the contract; new ones are picked up by themselves."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys

import pytest

import weft
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml, read_platform_file, write_platform
from weft.randomness import generator
from weft.workflow.checks import check_and_unfold
from weft.workflow.generators import GENERATORS
from weft.workflow.generators.generator import configure_generator, list_parameters


@pytest.fixture(params=list(GENERATORS), scope="module")
def kind(request):
    return GENERATORS.load(request.param)


@pytest.fixture(scope="module")
def made(kind):
    return weft.generate(kind.name, seed=1)


def test_it_says_who_it_is(kind):
    assert GENERATORS.load(kind.name) is kind
    assert len(kind.title) > 10


def test_its_parameters_are_explained_and_cannot_be_changed(kind):
    for setting in list_parameters(kind):
        assert len(setting.meaning) > 5, setting.name
        assert "\n" not in setting.meaning
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kind(), list_parameters(kind)[0].name, 1)


def test_the_defaults_as_texts_are_the_defaults(kind):
    texts = dict(setting.text.split("=", 1) for setting in list_parameters(kind))
    assert configure_generator(kind, texts) == kind()


def test_a_number_below_every_bound_is_refused(kind):
    numbers = [setting for setting in list_parameters(kind) if setting.type in (int, float)]
    for setting in numbers:
        with pytest.raises(weft.InvalidInput, match=rf"{setting.name} of {kind.name} is -1.*must be "):
            configure_generator(kind, {setting.name: -1})


def test_every_wrong_parameter_is_told_at_once(kind):
    numbers = [setting.name for setting in list_parameters(kind) if setting.type in (int, float)]
    with pytest.raises(weft.InvalidInput) as refused:
        configure_generator(kind, dict.fromkeys(numbers, -1))
    told = [problem.what.split()[0] for problem in refused.value.problems]
    assert sorted(told) == sorted(numbers)


def test_the_same_seed_gives_the_same(kind, made):
    assert weft.generate(kind.name, seed=1) == made
    assert kind().generate(generator(1, "generate", kind.name)) == made


def test_another_seed_gives_another(kind, made):
    assert weft.generate(kind.name, seed=2).workflow != made.workflow


def test_what_is_written_reads_back_as_the_same(made):
    text = WeftYaml().write(made.workflow)
    assert WeftYaml().read(SourceFile(name="flow.yaml", data=text.encode())) == made.workflow
    if made.platform is not None:
        data = write_platform(made.platform).encode()
        assert read_platform_file(SourceFile(name="grid.yaml", data=data)) == made.platform


def test_it_is_planned_on_its_platform(made):
    planned = weft.plan(made.workflow, on=made.platform or "identical:4", planner="heft")
    assert planned.verify() == []
    assert 0 < planned.lower_bound_s <= planned.makespan_s


def test_every_task_says_how_long_it_takes_and_every_file_its_size(made):
    planned = weft.plan(made.workflow, on=made.platform or "identical:4", planner="heft")
    assert "assumed" not in planned.estimate_sources
    assert check_and_unfold(made.workflow).unsized_files == 0


ALL_OF_THEM = """
import weft
from weft.formats.native import WeftYaml
from weft.workflow.generators import GENERATORS
import sys
for kind in GENERATORS:
    sys.stdout.write(WeftYaml().write(weft.generate(kind, seed=5).workflow))
"""


def test_hash_seeds_change_nothing():
    found = set()
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", ALL_OF_THEM], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
            capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.stdout
        found.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(found) == 1
