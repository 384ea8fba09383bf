"""After a power cut at any point, whatever of the unsynced data is lost, nothing false is claimed and the run resumes.

A run is recorded with all its writes and syncs. The states of the disk that a cut may leave are computed from it.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.disk import LOSSES, MODELS, RecordedDisk
from chaos.engines import Stable
from chaos.power import RecordedRun
from chaos.scene import EVERYTHING, Outcome, Scene
from chaos.shim import Control
from chaos.trace import read_trace

POINTS = 1000
"""Points of the larger run that are judged."""
_RESUMED = 6


def test_power_cut_at_every_point_of_a_small_run_leaves_no_false_claim(recorded_small: RecordedRun) -> None:
    disk, found = recorded_small.disk, Counter[str]()
    assert disk.last > 100
    for cut in range(1, disk.last + 1):
        for model in MODELS:
            for loss in LOSSES:
                image = disk.image(cut, f"{cut} {model} {loss}", model=model, loss=loss)
                found.update(recorded_small.judge(image))
    assert found == {}


def test_power_cut_at_random_points_of_a_larger_run_leaves_no_false_claim(
    preloaded: Stable, tmp_path: Path
) -> None:
    recorded = RecordedRun(Scene(tmp_path / "scene", preloaded, EVERYTHING))
    rnd, found = random.Random(3), Counter[str]()
    for number in range(POINTS):
        cut, model = rnd.randint(1, recorded.disk.last), rnd.choice(MODELS)
        found.update(recorded.judge(recorded.disk.image(cut, number, model=model)))
    assert found == {}


def test_run_is_resumed_after_a_power_cut(
    recorded_small: RecordedRun, preloaded: Stable, expected_small: Outcome, tmp_path: Path
) -> None:
    rnd = random.Random(7)
    for number in range(_RESUMED):
        cut, model = rnd.randint(1, recorded_small.disk.last), rnd.choice(MODELS)
        image = recorded_small.disk.image(cut, number, model=model)
        scene = recorded_small.resume(image, tmp_path / str(number), preloaded)
        assert scene.audit(expected_small) == [], f"cut {cut}, seed {number}, {model}"


def test_recorded_writes_reproduce_the_files_on_disk(recorded_small: RecordedRun) -> None:
    """What the recorder does not see would be missing here: the outputs of programs and what SQLite writes."""
    whole, project = recorded_small.disk.whole(recorded_small.disk.last), recorded_small.scene.project
    on_disk = {str(path) for path in project.rglob("*") if path.is_file() and path.name not in ("out", "err")}
    assert on_disk == {path for path in whole.files if path.startswith(f"{project}/")}
    differing = [path for path in on_disk if whole.read(path) != Path(path).read_bytes()]
    assert differing == []


# The model of the disk.

_WRITER = """
import os, sys
os.chdir(sys.argv[1])
def write(name, data, sync=True):
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, data)
    if sync: os.fdatasync(file)
    os.close(file)
def sync_folder():
    folder = os.open(".", os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
"""


def _record(folder: Path, script: str) -> RecordedDisk:
    work, notes = folder / "work", folder / "notes"
    for each in (work, notes):
        each.mkdir()
    disk = RecordedDisk([work], notes)
    control = Control(folder / "control", roots=[work], witness=notes)
    control.set(trace=str(folder / "trace"))
    command = [sys.executable, "-I", "-S", "-c", _WRITER + script, str(work)]
    subprocess.run(command, check=True, env=control.environment())
    control.close()
    disk.add(read_trace(folder / "trace"))
    return disk


def _contents(disk: RecordedDisk, path: Path, model: str) -> Iterator[bytes | None]:
    """Yield what a file may contain at the end."""
    for seed in range(150):
        yield disk.image(disk.last, seed, model=model).read(path)


@pytest.mark.parametrize("model", MODELS)
def test_synced_data_is_never_lost_and_unsynced_data_may_be(
    preloaded: Stable, tmp_path: Path, model: str
) -> None:
    disk = _record(tmp_path, "write('a', b'kept'); sync_folder(); write('a', b'lost', sync=False)")
    found = set(_contents(disk, tmp_path / "work" / "a", model))
    assert found == {b"kept", b"keptlost"}


def test_unsynced_pages_of_a_file_are_written_to_the_disk_in_any_order(
    preloaded: Stable, tmp_path: Path
) -> None:
    disk = _record(tmp_path, "write('a', b''); sync_folder(); write('a', b'x' * 8192, sync=False)")
    found = set(_contents(disk, tmp_path / "work" / "a", "ordered"))
    assert found == {b"", b"x" * 4096, b"x" * 8192, bytes(4096) + b"x" * 4096}


def test_rename_without_a_directory_sync_may_be_lost_in_the_strict_disk_model(
    preloaded: Stable, tmp_path: Path
) -> None:
    disk = _record(tmp_path, "write('a', b'x'); os.rename('a', 'b'); write('c', b'y')")
    found = {model: set(_contents(disk, tmp_path / "work" / "b", model)) for model in MODELS}
    # The sync of another file brings the rename with it in the ordered model.
    assert found == {"ordered": {b"x"}, "strict": {b"x", None}}


def test_renamed_file_has_its_old_or_its_new_name_after_a_power_cut(
    preloaded: Stable, tmp_path: Path
) -> None:
    disk = _record(tmp_path, "write('a', b'x'); sync_folder(); os.rename('a', 'b')")
    for seed in range(40):
        image = disk.image(disk.last, seed, model="strict")
        names = [image.read(tmp_path / "work" / name) for name in ("a", "b")]
        assert sorted(map(str, names)) == sorted(map(str, [b"x", None]))
