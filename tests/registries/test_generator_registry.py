"""Every generator of the registry implements the interface; new entries are tested automatically."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys

import pytest

import weft
from patience import PATIENCE_S
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


def test_generator_has_a_name_and_a_title(kind):
    assert GENERATORS.load(kind.name) is kind
    assert len(kind.title) > 10


def test_generator_parameters_are_described_and_frozen(kind):
    for setting in list_parameters(kind):
        assert len(setting.meaning) > 5, setting.name
        assert "\n" not in setting.meaning
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kind(), list_parameters(kind)[0].name, 1)


def test_default_parameters_given_as_text_equal_the_default_parameters(kind):
    texts = dict(setting.text.split("=", 1) for setting in list_parameters(kind))
    assert configure_generator(kind, texts) == kind()


def test_parameters_below_their_bounds_are_rejected(kind):
    numbers = [setting for setting in list_parameters(kind) if setting.type in (int, float)]
    for setting in numbers:
        with pytest.raises(weft.InvalidInput, match=rf"{setting.name} of {kind.name} is -1.*must be "):
            configure_generator(kind, {setting.name: -1})


def test_all_invalid_generator_parameters_are_reported_together(kind):
    numbers = [setting.name for setting in list_parameters(kind) if setting.type in (int, float)]
    with pytest.raises(weft.InvalidInput) as refused:
        configure_generator(kind, dict.fromkeys(numbers, -1))
    reported = [problem.what.split()[0] for problem in refused.value.problems]
    assert sorted(reported) == sorted(numbers)


def test_equal_seeds_give_equal_workflows(kind, made):
    assert weft.generate(kind.name, seed=1) == made
    assert kind().generate(generator(1, "generate", kind.name)) == made


def test_different_seeds_give_different_workflows(kind, made):
    assert weft.generate(kind.name, seed=2).workflow != made.workflow


def test_writing_and_reading_gives_an_equal_workflow(made):
    text = WeftYaml().write(made.workflow)
    assert WeftYaml().read(SourceFile(name="flow.yaml", data=text.encode())) == made.workflow
    if made.platform is not None:
        data = write_platform(made.platform).encode()
        assert read_platform_file(SourceFile(name="grid.yaml", data=data)) == made.platform


def test_generated_workflow_is_planned_on_its_platform(made):
    planned = weft.plan(made.workflow, on=made.platform or "identical:4", planner="heft")
    assert planned.verify() == []
    assert 0 < planned.lower_bound_s <= planned.makespan_s


def test_every_generated_task_has_work_and_every_file_has_a_size(made):
    planned = weft.plan(made.workflow, on=made.platform or "identical:4", planner="heft")
    assert "assumed" not in planned.estimate_sources
    assert check_and_unfold(made.workflow).unsized_files == 0


GENERATE_ALL = """
import weft
from weft.formats.native import WeftYaml
from weft.workflow.generators import GENERATORS
import sys
for kind in GENERATORS:
    sys.stdout.write(WeftYaml().write(weft.generate(kind, seed=5).workflow))
"""


def test_workflows_do_not_depend_on_the_hash_seed():
    found = set()
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", GENERATE_ALL], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
            capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.stdout
        found.add(hashlib.sha256(done.stdout).hexdigest())
    assert len(found) == 1
