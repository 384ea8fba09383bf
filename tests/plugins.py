"""Packages with entry points in a folder of their own, and the example of the page about backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from architecture.documents import blocks
from architecture.package import PACKAGE, ROOT, environment

__all__ = ["backend_example", "environment_with", "install", "load_backend_example"]


def install(folder: Path, group: str, name: str, target: str, source: str | None = None) -> None:
    """Make a package ``plugin-NAME`` with one entry point; without ``source`` its module is missing."""
    packaged = folder / f"plugin_{name.replace('-', '_')}-1.0.dist-info"
    packaged.mkdir(parents=True)
    (packaged / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plugin-{name}\nVersion: 1.0\n")
    (packaged / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    if source is not None:
        (folder / f"{target.partition(':')[0]}.py").write_text(source)


def environment_with(folder: Path) -> dict[str, str]:
    """Return the environment of processes that have the packages of a folder."""
    return environment(PYTHONPATH=f"{PACKAGE.parent}:{folder}")


def backend_example() -> str:
    """Return the source of the backend in docs/how-to/backend.md."""
    page = (ROOT / "docs" / "how-to" / "backend.md").read_text(encoding="utf-8")
    return next(block.text for block in blocks(page) if block.language == "python")


def load_backend_example() -> Any:
    """Return the class of the backend in docs/how-to/backend.md."""
    names: dict[str, Any] = {"__name__": "child_backend"}
    exec(compile(backend_example(), "docs/how-to/backend.md", "exec"), names)
    return names["ChildBackend"]
