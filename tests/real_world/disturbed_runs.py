"""Real runs that are disturbed while they go on: an action runs in a thread as soon as a file exists."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import weft
from weft.api.project import OpenProject
from weft.engine.journal import JournalEntry
from weft.repository.journal_store import JournalStore

PATIENCE_S = 60.0


def wait_for(path: Path) -> None:
    """Wait until a file exists."""
    wait_until(path.exists, f"{path} does not exist")


def wait_until(condition: Callable[[], bool], problem: str = "the condition does not hold") -> None:
    """Wait until a condition holds."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, problem
        time.sleep(0.02)


def run_disturbed(workflow: Path, *, on: Path, when: Path, action: Callable[[], None], **options):
    """Run a workflow; as soon as ``when`` exists, call ``action`` in another thread. Return the result."""
    failures: list[BaseException] = []

    def disturb() -> None:
        try:
            wait_for(when)
            action()
        except BaseException as error:  # it is raised in the main thread
            failures.append(error)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        ran = weft.run(workflow, on=on, project=workflow.parent, plan_steps=50, **options)
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return ran


def entries_of(ran) -> list[JournalEntry]:
    """Return the journal of a real run."""
    with OpenProject.at(str(ran.layout.project)) as opened:
        return list(JournalStore(opened.database).all_after(ran.execution))


@contextmanager
def busy_loops(count: int, core: int) -> Iterator[None]:
    """Keep programs busy on one core, which do not belong to weft."""
    spin = (
        f"import os\nos.sched_setaffinity(0, {{{core}}})\n"
        f"for _ in range({count - 1}):\n    if not os.fork(): break\nwhile True: pass"
    )
    program = subprocess.Popen([sys.executable, "-c", spin], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
