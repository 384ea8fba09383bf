"""A task that changes its staged inputs changes nobody else's file, whatever the form of the input."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from security.hostile_project import Place
from weft.backends.attempt import external_files, staging
from weft.backends.attempt.digests import DIGESTS
from weft.backends.attempt.safe_paths import OpenEntry, Parts

_ATTACK = """
import os
found = []
for folder, _, names in os.walk("."):
    found += [os.path.join(folder, name) for name in names if name != "attack.py"]
for path in found:
    assert not os.path.islink(path), path
    os.chmod(path, 0o666)
    with open(path, "a") as file:
        file.write("evil")
    os.utime(path, (1, 1))
    os.truncate(path, 3)
    os.replace(path, path + ".old")
    with open(path, "w") as file:
        file.write("evil")
with open(f"report-{os.environ['WEFT_TASK']}", "w") as report:
    print(len(found), file=report)
"""


def _from(source: str, **more: object) -> dict[str, Any]:
    return {"inputs": [{"file": "x.gz" if "compressed" in more else "x", "from": source, **more}]}


FORMS: dict[str, dict[str, Any]] = {
    "plain name": {"inputs": ["seed"]},
    "relative path": _from("data/seed"),
    "absolute path": _from("OUTSIDE/canary"),
    "file: URL without slashes": _from("file:OUTSIDE/canary"),
    "file: URL": _from("file://OUTSIDE/canary"),
    "file: URL with a host": _from("FILE://localhost/OUTSIDE/canary"),
    "relative file: URL": _from("file:data/seed"),
    "directory": _from("data"),
    "directory as a URL": _from("file://OUTSIDE/folder"),
    "symbolic link of the user": _from("link"),
    "shared": _from("data/seed", shared=True),
    "shared URL": _from("file://OUTSIDE/canary", shared=True),
    "compressed": _from("data/seed.gz", compressed=True),
    "compressed URL": _from("file:data/seed.gz", compressed=True),
    "product": {"inputs": ["made"]},
    "wildcard": {"inputs": ["part.*"]},
    "directory of a product": {"inputs": ["parts/"]},
    "file in a directory of a product": {"inputs": ["parts/deep/x"]},
    "script": {"command": [sys.executable, "attack.py", "words/script.sh", "seed"]},
    "standard input": {"stdin": "seed"},
    "restart file": {
        "command": f'if [ "$WEFT_RESTART" = 1 ]; then exec {sys.executable} attack.py; fi; echo step > restart; exit 85',
        "checkpoint": {"files": ["restart"], "every": "1h"},
    },
}  # fmt: skip
_MAKE = "echo 1 > made; echo 2 > part.1; echo 3 > part.2; mkdir -p parts/deep; echo 4 > parts/deep/x"
_VICTIMS = {
    "make": {"command": _MAKE, "outputs": ["made", "part.1", "part.2", "parts/"]},
    "use": {
        "command": "cat made part.1 part.2 parts/deep/x > used",
        "inputs": ["made", "part.*", "parts/"],
        "outputs": ["used"],
    },
}


def _attacks(place: Place) -> dict[str, Any]:
    tasks = {
        f"a{number}": {"command": [sys.executable, "attack.py"], "outputs": [f"report-a{number}"], **form}
        for number, form in enumerate(FORMS.values())
    }
    found: dict[str, Any] = json.loads(json.dumps(tasks).replace("OUTSIDE", str(place.outside)))
    return found


def _look(*folders: Path) -> dict[str, tuple[object, ...]]:
    """Return content, permissions, time and inode of all files that belong to the user or to the first run."""
    found = {}
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        # Runners and the engine write their own files.
        if path.is_symlink() or not path.is_file() or path.match(".weft/*") or "runners" in path.parts:
            continue
        status = path.stat()
        found[str(path)] = (path.read_bytes(), status.st_mode, status.st_mtime_ns, status.st_ino)
    return found


def _attack(folder: Path) -> tuple[Place, dict[str, tuple[object, ...]]]:
    """Run the victims, then the attacks, which reuse their products; return the files before the attacks."""
    place = Place(folder)
    project = place.project
    for name in ("data/deep", "words"):
        (project / name).mkdir(parents=True)
    for name in ("seed", "data/seed", "data/deep/seed", "words/script.sh"):
        (project / name).write_text(f"{name}\n")
    (project / "data" / "seed.gz").write_bytes(gzip.compress(b"packed\n"))
    (project / "link").symlink_to("data/seed")
    (project / "attack.py").write_text(_ATTACK)
    assert place.run(_VICTIMS).completed, place.ends()
    (project / "flow.yaml").unlink()
    before = _look(project, place.outside)
    place.run({**_VICTIMS, **_attacks(place)})
    return place, before


def _changed(place: Place, before: dict[str, tuple[object, ...]]) -> list[str]:
    after = _look(place.project, place.outside)
    return [name for name in before if after.get(name) != before[name]]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Return a project after the attacks, and its files before."""
    place, before = _attack(tmp_path_factory.mktemp("staged"))
    assert place.ran is not None
    assert place.ran.completed, place.ends()
    assert place.ends()["make"].text == "reused from execution 1"
    yield place, before
    place.assert_nothing_touched()


@pytest.mark.parametrize("form", FORMS)
def test_attacking_task_can_change_its_own_staged_input_of_every_form(
    attacked: tuple[Place, dict[str, Any]], form: str
) -> None:
    place, _ = attacked
    assert int(place.made(f"report-a{list(FORMS).index(form)}")) > 0


def test_no_file_of_the_user_or_of_an_earlier_run_has_changed(
    attacked: tuple[Place, dict[str, Any]],
) -> None:
    place, before = attacked
    assert len(before) > 10
    assert _changed(place, before) == []


def test_attacks_would_change_files_of_the_user_if_inputs_were_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With links as weft once made them, the same attacks change files of the user and of the first run."""

    copy = staging.copy_file

    def link(found: OpenEntry, source: str, root: Path, parts: Parts, **named: Any) -> tuple[int, str]:
        digest, target = DIGESTS.of_entry(found, source), root.joinpath(*parts)
        if target.exists() or "cache" in root.parts:
            return copy(found, source, root, parts, **named)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.hardlink_to(Path(f"/proc/self/fd/{found.fd}").readlink())
        return 0, digest

    monkeypatch.setattr(staging, "copy_file", link)
    monkeypatch.setattr(external_files, "copy_file", link)
    place, before = _attack(tmp_path)
    changed = "\n".join(_changed(place, before))
    assert "/outside/canary" in changed
    assert "/project/seed" in changed
    assert "/.weft/sandbox/" in changed


def test_cache_and_checkpoint_have_not_changed(attacked: tuple[Place, dict[str, Any]]) -> None:
    place, _ = attacked
    cached = [path.read_bytes() for path in place.project.glob(".weft/sandbox/**/cache/content/*")]
    assert sorted(cached) == [b"data/seed\n", b"packed\n", b"sings\n"]
    kept = [path.read_text() for path in place.project.glob(".weft/checkpoints/*/*/*/restart")]
    assert kept == ["step\n"]


def test_no_file_of_the_project_has_a_second_hard_link(attacked: tuple[Place, dict[str, Any]]) -> None:
    place, _ = attacked
    files = [path for path in place.project.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 2 * len(FORMS)
    assert [path for path in files if path.stat().st_nlink > 1] == []
