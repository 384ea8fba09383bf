"""Hostile workflows, run beside files that must not change."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patience import PATIENCE_S
from weft.api.run import RunResult, resume, run
from weft.engine.messages import Assign, Ended, StagedIn
from weft.repository.database import open_database
from weft.repository.journal import Journal
from weft.repository.journal_store import JournalStore

_LONG_AGO_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class End:
    """The end of a task's last attempt."""

    cause: str
    text: str
    code: int | None


class Place:
    """A project, and files beside it that must not change."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.outside = folder / "outside"
        self.project.mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "folder").mkdir()
        for name in ("canary", "folder/canary", "folder/out", "folder/err"):
            (self.outside / name).write_text("sings\n")
        self._before = self._look()
        self.ran: RunResult | None = None

    def _look(self) -> dict[str, tuple[str, int, int]]:
        found = {}
        for path in sorted(self.outside.rglob("*")):
            if path.is_file() and not hasattr(self, "_before"):
                os.utime(path, (_LONG_AGO_S, _LONG_AGO_S))
            status = path.lstat()
            text = path.read_text() if path.is_file() else "-"
            found[str(path.relative_to(self.outside))] = (
                text,
                status.st_mtime_ns if path.is_file() else 0,
                status.st_mode,
            )
        return found

    def assert_nothing_touched(self) -> None:
        """Assert that no file outside was changed or added."""
        assert self._look() == self._before

    def run(self, tasks: dict[str, Any], **more: Any) -> RunResult:
        """Run tasks to their end, including those that do not depend on failed ones."""
        (self.project / "flow.yaml").write_text(
            json.dumps({"weft": 1, "name": "hostile", "tasks": tasks, **more})
        )
        options: dict[str, Any] = {"policy": "fcfs", "keep_going": True, "retries": 0}
        self.ran = run(self.project / "flow.yaml", on=self._machines(), project=self.project, **options)
        return self.ran

    def resume(self) -> RunResult:
        self.ran = resume(project=self.project)
        return self.ran

    def _machines(self) -> Path:
        path = self.project / "machines.yaml"
        if not path.exists():
            path.write_text("weft: 1\nmachines:\n  here: {nodes: 4, backend: {kind: local}}\n")
        return path

    def ends(self) -> dict[str, End]:
        """Return the end of each task."""
        journal = self.journal()
        engine = journal.engine()
        task_of, found = {}, {}
        for entry in journal.entries:
            engine.apply(entry.event, entry.now, entry.commands)
            for command in entry.commands:
                if type(command) is Assign:
                    task_of[command.attempt] = engine.state.runs[command.run].compiled.names[command.task]
            event = entry.event
            if type(event) is StagedIn and event.problem:
                found[task_of[event.attempt]] = End("staging", event.problem, None)
            if type(event) is Ended:
                found[task_of[event.attempt]] = End(event.cause, event.story, event.exit_code)
        return found

    def journal(self) -> Journal:
        assert self.ran is not None
        with open_database(self.project / ".weft" / "weft.db") as database:
            return JournalStore(database).read(self.ran.execution)

    def made(self, name: str) -> str:
        """Return the content of a published result."""
        return (self.project / name).read_text()


def wait_for(condition: Any, timeout_s: float = PATIENCE_S) -> bool:
    """Wait until a condition holds; return False after the timeout."""
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        if condition():
            return True
        time.sleep(0.01)
    return False
