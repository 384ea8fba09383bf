"""A run uses the present content of its inputs, whatever size and modification time they have."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from security.hostile_project import Place
from weft.api.run import RunResult, run
from weft.backends.attempt import digests
from weft.backends.attempt.digests import FileVersion

OLD_NS = 1_500_000_000_000_000_000
FORMS: dict[str, Any] = {
    "name": "seed",
    "path": {"file": "x", "from": "seed"},
    "URL": {"file": "x", "from": "file:seed"},
    "directory": {"file": "x", "from": "folder"},
    "shared": {"file": "x", "from": "seed", "shared": True},
    "shared URL": {"file": "x", "from": "file:seed", "shared": True},
    "shared directory": {"file": "x", "from": "folder", "shared": True},
    "compressed": {"file": "x.gz", "from": "packed.gz", "compressed": True},
}


def write(project: Path, text: str, how: str) -> None:
    """Write all inputs; they keep their size and modification time."""
    (project / "folder").mkdir(exist_ok=True)
    packed = gzip.compress(text.encode(), compresslevel=0, mtime=0)
    contents = {"seed": text.encode(), "folder/seed": text.encode(), "packed.gz": packed}
    for name, content in contents.items():
        path = project / name
        if how == "replace":
            path = path.with_name("new")
        path.write_bytes(content)
        os.utime(path, ns=(OLD_NS, OLD_NS))
        path.rename(project / name)
    os.utime(project / "folder", ns=(OLD_NS, OLD_NS))


def execute(place: Place, **options: Any) -> RunResult:
    place.ran = run(
        place.project / "flow.yaml",
        on=place.project / "machines.yaml",
        project=place.project,
        policy="fcfs",
        **options,
    )
    return place.ran


NAMES = [f"out.{number}" for number in range(len(FORMS))]


def run_twice(place: Place, how: str, **options: Any) -> dict[str, str]:
    """Run a task for each form of input, change the inputs and run them again; return what they have read."""
    write(place.project, "one\n", how)
    show = "cat {inputs}/seed 2> /dev/null || cat {inputs}"
    tasks = {
        f"t{number}": {"command": f"({show}) > {name}", "inputs": [form], "outputs": [name]}
        for number, (form, name) in enumerate(zip(FORMS.values(), NAMES, strict=True))
    }
    assert place.run(tasks).completed, place.ends()
    assert {place.made(name) for name in NAMES} == {"one\n"}
    write(place.project, "two\n", how)
    assert execute(place, **options).completed
    return {form: place.made(name) for form, name in zip(FORMS, NAMES, strict=True)}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("how", ["write", "replace"])
def test_changed_input_of_the_same_size_and_time_is_used(place: Place, how: str, fresh: bool) -> None:
    assert run_twice(place, how, fresh=fresh) == dict.fromkeys(FORMS, "two\n")
    assert execute(place).completed, "unchanged inputs are reused"
    assert all(end.text == "reused from execution 2" for end in place.ends().values())


def test_cache_keyed_only_by_size_and_time_would_use_stale_content(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rule that weft once had, the same change of the inputs goes unnoticed."""
    settled = digests.file_version

    def believe(status: os.stat_result, *, settled_then: bool | None = None) -> FileVersion:
        del settled_then
        return replace(settled(status), inode=1, changed_ns=1, settled=True)

    monkeypatch.setattr(digests, "file_version", believe)
    monkeypatch.setattr(digests, "_key", lambda status: (status.st_size, status.st_mtime_ns))
    monkeypatch.setattr(digests, "is_settled", lambda *_: True)
    assert "one\n" in run_twice(place, "write").values()


@pytest.mark.parametrize("how", ["write", "replace"])
def test_changed_product_of_the_same_size_and_time_is_not_reused(place: Place, how: str) -> None:
    tasks = {
        "make": {"command": "echo one > made; touch -d 2020-01-01 made", "outputs": ["made"]},
        "use": {"command": "cat made > used", "inputs": ["made"], "outputs": ["used"]},
    }
    assert place.run(tasks).completed
    (made,) = place.project.glob(".weft/sandbox/here/**/[0]*/made")
    before = made.stat()
    path = made.with_name("new") if how == "replace" else made
    made.chmod(0o600)
    path.write_text("two\n")
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    path.rename(made)
    assert execute(place).completed
    assert place.made("used") == "one\n"
    assert place.ends()["make"].text == "its outputs were modified or removed"
