"""Tasks that leave links, devices, FIFOs and many files: no file outside their directory is read or
written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from security.hostile_project import Place

_OUTPUTS = {
    "link": ("ln -s $OUTSIDE/canary out.link", "leads out of"),
    "way": ("ln -s $OUTSIDE/folder d; true", "leads out of"),
    "tree": ("mkdir t; ln -s $OUTSIDE/folder t/inside", "leads out of"),
    "up": ("ln -s ../../../../../../../outside/canary out.up", "leads out of"),
    "pipe": ("mkfifo out.pipe", "a FIFO"),
    "device": ("ln -s /dev/zero out.device", "leads out of"),
    "socket": (
        f"{sys.executable} -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"out.socket\")'",
        "a socket",
    ),
    "loop": ("ln -s out.loop out.loop", "Too many levels of symbolic links"),
    "nothing": ("true", "was not written"),
    "gone": ('rm -rf "$PWD"', "was not written"),
    "swapped": ('rm -rf "$PWD"; ln -s $OUTSIDE "$PWD"', "was not written"),
}
_DECLARED = {"way": "d/canary", "tree": "t/", "swapped": "canary"}


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return one run with every kind of invalid output."""
    place = Place(tmp_path_factory.mktemp("files"))
    tasks = {
        name: {
            "command": command.replace("$OUTSIDE", str(place.outside)),
            "outputs": [_DECLARED.get(name, f"out.{name}")],
        }
        for name, (command, _) in _OUTPUTS.items()
    }
    place.run(tasks)
    yield place
    place.assert_nothing_touched()


@pytest.mark.parametrize("name", _OUTPUTS)
def test_error_about_an_invalid_output_names_the_output(left: Place, name: str) -> None:
    end = left.ends()[name]
    assert end.cause == "error"
    assert _OUTPUTS[name][1] in end.text
    assert _DECLARED.get(name, f"out.{name}").rstrip("/") in end.text
    assert not (left.project / f"out.{name}").exists()


def test_link_inside_the_working_directory_is_a_valid_output(place: Place) -> None:
    place.run({"a": {"command": "echo hi > x; ln -s x y", "outputs": ["y"]}})
    assert place.made("y") == "hi\n"
    assert not (place.project / "y").is_symlink()


def test_output_that_is_a_hard_link_to_an_outside_file_is_copied(place: Place) -> None:
    canary = place.outside / "canary"
    place.run({"a": {"command": f"ln {canary} out.hard", "outputs": ["out.hard"]}})
    assert place.made("out.hard") == "sings\n"
    assert canary.stat().st_mode & 0o200
    (place.project / "out.hard").write_text("changed")
    assert canary.read_text() == "sings\n"


def test_report_files_that_are_links_or_fifos_are_ignored(place: Place) -> None:
    canary = place.outside / "canary"
    tasks = {
        "result": {"command": f"ln -s {canary} $WEFT_RESULT_FILE"},
        "pipe": {"command": "mkfifo $WEFT_RESULT_FILE"},
        "progress": {"command": f"ln -s {canary} $WEFT_PROGRESS_FILE; sleep 1.2"},
        "waiting": {"command": "mkfifo p; sleep 1.2", "progress": "p"},
        "restart": {
            "command": f"ln -s {canary} r; mkfifo q; sleep 1.2",
            "checkpoint": {"files": ["r", "q"], "every": "1s"},
        },
        "huge": {"command": "head -c 70000 /dev/zero > $WEFT_RESULT_FILE"},
    }
    place.run(tasks)
    ends = place.ends()
    assert ends["result"].cause == "error"
    assert "leads out of" in ends["result"].text
    assert str(canary) in ends["result"].text
    assert "FIFO" in ends["pipe"].text
    assert "70000 bytes" in ends["huge"].text
    assert [ends[name].code for name in ("progress", "waiting", "restart")] == [0, 0, 0]
    kept = [path for path in place.project.glob(".weft/checkpoints/**/*") if path.is_file()]
    assert not [path for path in kept if path.read_text() == "sings\n"]


def test_task_with_ten_thousand_files_completes(place: Place) -> None:
    command = (
        "mkdir many d; (cd many; seq 1 10000 | xargs touch); (cd d; seq 1 300 | xargs touch); echo > out.many"
    )
    ran = place.run({"a": {"command": command, "outputs": ["out.many", "d/"]}})
    assert ran.completed
    assert len(list((place.project / "d").iterdir())) == 300
    assert not (place.project / "many").exists()


def test_link_in_place_of_the_next_working_directory_is_not_followed(place: Place) -> None:
    """The parent directory of all attempts is moved away and replaced by an external link."""
    sandbox = place.project / ".weft" / "sandbox" / "here"
    swap = f"cd {sandbox}/*; mv 1 old; ln -s {place.outside} 1"
    place.run(
        {
            "a": {"command": swap},
            "b": {"after": "a", "command": "echo hi > out.b", "outputs": ["out.b"]},
            "c": {"after": "a", "command": "echo hi"},
        }
    )
    ends = place.ends()
    for name in "bc":
        assert ends[name].cause == "staging"
        assert re.search(f"{sandbox}/[0-9a-f]{{16}}/1'", ends[name].text)
        assert "a file or a link, not a directory" in ends[name].text
    assert not (place.outside / "1").exists()


def test_sandbox_reached_through_a_link_of_the_user_is_accepted(place: Place, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "disk")
    (place.project / "machines.yaml").write_text(
        f"weft: 1\nmachines:\n  here: {{backend: {{kind: local, sandbox: {tmp_path}/scratch/box}}}}\n"
    )
    (place.project / "seed").write_text("s\n")
    ran = place.run(
        {
            "a": {"command": "cat seed > x", "inputs": ["seed"], "outputs": ["x"]},
            "b": {"command": "cat x > y", "inputs": ["x"], "outputs": ["y"]},
        }
    )
    assert ran.completed, place.ends()
    assert place.made("y") == "s\n"
    assert (tmp_path / "disk" / "box").is_dir()
