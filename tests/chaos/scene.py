"""A project with workflows of known outcome, and the audit of its state after disturbances."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.checker import check
from chaos.engines import Engine, Stable
from chaos.evidence import Evidence, ProgramRun, add_evidence, give_file
from patience import PATIENCE_S
from weft.api.journal import replay_journal
from weft.engine.journal import JournalEntry
from weft.engine.messages import Ended, MachineChanged, Start
from weft.repository.database import open_database
from weft.repository.journal_store import JournalStore
from weft.repository.runs import RunTable
from weft.runtime.lock import Lock
from weft.workflow.task import CAUSES, RESERVED_CODES

HERE = Path(__file__).parent
PLATFORM = """weft: 1
machines:
  left: {nodes: 2, backend: {kind: local}}
  right: {nodes: 2, backend: {kind: local}}
"""
OUTSIDE = """weft: 1
machines:
  left: {nodes: 2, backend: {kind: local, sandbox: ../sandbox/left}}
  right: {nodes: 2, backend: {kind: local, sandbox: ../sandbox/right}}
"""
"""The same machines with sandboxes outside the project, which are not part of a copy of it."""
_FORGIVING = "defaults: {retries: {preempted: 30, lost: 30, timeout: 10, staging: 3}}"
_RUN = f"{sys.executable} -I -S program.py"
_WORKFLOWS = {
    "small": f"""weft: 1
name: small
{_FORGIVING}
tasks:
  first: {{command: "{_RUN} plain first first.txt 0.05 seed.txt", inputs: [seed.txt], outputs: [first.txt]}}
  last: {{command: "{_RUN} plain last last.txt 0.05 first.txt", inputs: [first.txt], outputs: [last.txt]}}
""",
    "dag": f"""weft: 1
name: dag
{_FORGIVING}
tasks:
  make:
    sweep: {{k: 1..5}}
    command: {_RUN} plain make-{{k}} make.{{k}} 0.2 seed.txt
    inputs: [seed.txt]
    outputs: ["make.{{k}}"]
  turn:
    sweep: {{k: 1..5}}
    nodes: [1, 2]
    command: {_RUN} plain turn-{{k}} turn.{{k}} 0.15 make.{{k}}
    inputs: ["make.{{k}}"]
    outputs: ["turn.{{k}}"]
  join:
    command: {_RUN} stubborn join joined.txt 0.2 {{inputs}}
    inputs: ["turn.{{1..5}}"]
    outputs: [joined.txt]
""",
    "loop": f"""weft: 1
name: loop
{_FORGIVING}
tasks:
  step:
    command: {_RUN} steps step x 0.3 x
    inputs: [x]
    outputs: [x]
    checkpoint: {{files: [restart], every: 1s, nodes: any}}
  check: {{command: "{_RUN} below check - 0.05 x", inputs: [x]}}
  show: {{after: conv, command: "{_RUN} plain show shown.txt 0.05 x", inputs: [x], outputs: [shown.txt]}}
loops:
  conv: {{from: check, to: step, until: check.exit_code == 0, max_iterations: 30}}
""",
    "grow": f"""weft: 1
name: grow
{_FORGIVING}
tasks:
  split: {{command: "{_RUN} lines split parts 0.1 seed.txt", inputs: [seed.txt], outputs: [parts]}}
  part:
    sweep: {{chunk: "lines(split.parts)"}}
    command: {_RUN} plain part-{{chunk}} part.{{chunk}} 0.15 parts
    inputs: [parts]
    outputs: ["part.{{chunk}}"]
  sum: {{after: part, command: "{_RUN} plain sum sum.txt 0.05 {{inputs}}", inputs: ["part.*"], outputs: [sum.txt]}}
""",
    "pairs": f"""weft: 1
name: pairs
{_FORGIVING}
tasks:
  a: {{command: "{_RUN} gate a - 0 seed.txt", inputs: [seed.txt]}}
  b: {{command: "{_RUN} quiet b - 0 seed.txt", inputs: [seed.txt]}}
  after-a: {{after: a, command: "{_RUN} quiet after-a - 0 seed.txt", inputs: [seed.txt]}}
  after-b: {{after: b, command: "{_RUN} quiet after-b - 0 seed.txt", inputs: [seed.txt]}}
""",
    "silent": f"""weft: 1
name: silent
tasks:
  speak: {{command: "{_RUN} silent speak spoken.txt 0 seed.txt", inputs: [seed.txt], outputs: [spoken.txt]}}
""",
    "mule": f"""weft: 1
name: mule
{_FORGIVING}
tasks:
  mule: {{command: "{_RUN} mule mule mule.txt 0.05 seed.txt", inputs: [seed.txt], outputs: [mule.txt], time_limit: 1s}}
""",
}
EVERYTHING = ("dag", "loop", "grow")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an undisturbed run: its files, and how often each task ran."""

    files: Mapping[str, bytes]
    starts: Mapping[str, int]


class Scene:
    """One project, in which an engine is started, killed and resumed."""

    def __init__(
        self,
        folder: Path,
        stable: Stable,
        workflows: Sequence[str],
        *,
        policy: str = "fcfs",
        platform: str = PLATFORM,
        seed: str = "seed",
    ) -> None:
        self.project = folder / "project"
        self.notes = folder / "notes"
        """Directory for the evidence of programs and the logs of engines."""
        self.environment: dict[str, str] = {}
        """Further variables of engines, runners and programs."""
        self.lives = 0
        self._stable = stable
        self._engines: list[Engine] = []
        self._workflows = [f"{name}.yaml" for name in workflows]
        self._policy = policy
        for directory in (self.project, self.notes):
            directory.mkdir(parents=True)
        shutil.copy(HERE / "program.py", self.project)
        (self.project / "machines.yaml").write_text(platform)
        give_file(self.notes, self.project / "seed.txt", f"{seed}\n".encode())
        give_file(self.notes, self.project / "x", b"20\n")
        for name in workflows:
            (self.project / f"{name}.yaml").write_text(_WORKFLOWS[name])
        self._given = set(self._files())

    @classmethod
    def adopt(cls, folder: Path, stable: Stable, like: Scene) -> Scene:
        """Return a scene of a folder that exists, with the workflows of another scene."""
        scene = object.__new__(cls)
        scene.project, scene.notes = folder / "project", folder / "notes"
        scene.environment, scene.lives = {}, 0
        scene._stable, scene._engines = stable, []
        scene._workflows, scene._policy, scene._given = like._workflows, like._policy, like._given
        return scene

    # Engines.

    def live(self, *, failpoint: str = "", **more: object) -> Engine:
        """Start an engine: the first starts the run, the others resume it."""
        resumes = self.begun and "more" not in more
        self.lives += 1
        engine = self._stable.start(
            {
                "log": str(self.notes / f"engine-{self.lives}"),
                "project": str(self.project),
                "resume": resumes,
                "workflows": self._workflows,
                "on": "machines.yaml",
                "policy": self._policy,
                "environment": {
                    "CHAOS_DIRECTORY": str(self.notes),
                    "WEFT_FAILPOINT": failpoint,
                    **self.environment,
                },
                **more,
            }
        )
        self._engines.append(engine)
        return engine

    @property
    def begun(self) -> bool:
        """Return whether there is an execution that can be resumed."""
        path = self.project / ".weft" / "weft.db"
        if not path.is_file() or not path.stat().st_size:
            return False
        with open_database(path, create=True) as database:
            return RunTable(database).unfinished() is not None

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Let an engine finish without disturbances; do nothing if the run has completed."""
        if self.lives and not self.begun and self.is_over:
            # The engine was killed after its last commit. Its idle runners exit within a minute; stopped ones
            # must be continued first.
            for pid in self.runners():
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
            return
        engine = self.live()
        try:
            code = engine.wait(timeout_s)
        except TimeoutError:
            os.kill(engine.pid, signal.SIGUSR2)
            time.sleep(0.5)
            engine.kill()
            raise AssertionError(f"the engine hangs\n{self.last_words()}") from None
        assert code == 0, f"the engine ended with {code}\n{self.last_words()}"

    def again(self) -> None:
        """Resume the unfinished execution; start a new one if it has failed permanently."""
        for _ in range(2):
            if self.is_over or self.live().wait(90.0) == 0:
                return
        raise AssertionError(self.last_words())

    @property
    def is_over(self) -> bool:
        """Return whether the last execution has completed."""
        # An engine may have been killed before it created its tables.
        with open_database(self.project / ".weft" / "weft.db", create=True) as database:
            found = RunTable(database).executions()
        return bool(found) and found[-1].state == "completed"

    def last_words(self) -> str:
        """Return the end of the log of the last engine."""
        return (self.notes / f"engine-{self.lives}").read_text(errors="replace")[-6000:]

    def record_fault(self, kind: str, **more: object) -> None:
        """Add a fault to the evidence, before it happens."""
        add_evidence(self.notes, "fault", kind=kind, **more)

    # Processes.

    def living(self) -> list[ProgramRun]:
        """Return the programs that have started and still run."""
        runs = Evidence.read(self.notes).runs
        return [run for run in runs if run.ended is None and self._is_ours(run.pid)]

    def runners(self) -> list[int]:
        """Return the process numbers of the running runners."""
        pids = []
        for path in self.project.glob(".weft/runners/*/*/pid"):
            text = path.read_text().partition(" ")[2]
            pids += [int(json.loads(text)["pid"])] if text else []
        return [pid for pid in pids if self._is_ours(pid)]

    def processes(self) -> dict[int, str]:
        """Return the command lines of all processes with this scene's environment, by process number."""
        found = {}
        for name in os.listdir("/proc"):  # noqa: PTH208
            if name.isdecimal() and self._is_ours(int(name)):
                with suppress(OSError):  # it has ended since it was listed
                    with_spaces = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(name)] = with_spaces.decode(errors="replace")
        return found

    def _is_ours(self, pid: int) -> bool:
        try:
            born_with = Path("/proc", str(pid), "environ").read_bytes()
        except OSError:
            return False
        return f"CHAOS_DIRECTORY={self.notes}".encode() in born_with.split(b"\0")

    def tidy(self) -> None:
        """Kill the remaining processes by their numbers."""
        for engine in self._engines:
            if not engine.over:
                engine.kill()
        for pid in self.processes():
            with suppress(ProcessLookupError):  # it has ended since it was listed
                os.kill(pid, signal.SIGKILL)

    # Results.

    def outcome(self) -> Outcome:
        """Return the result of the run."""
        starts = Counter(run.key for run in Evidence.read(self.notes).runs)
        return Outcome(self._files(self._given), starts)

    def audit(self, expected: Outcome, *, once: bool = False) -> list[str]:
        """Return a text per deviation from the expected result; ``once``: no program may run twice."""
        return [
            *check(self.project, self.notes),
            *self._wrong_files(expected),
            *self._wrong_starts(expected, once),
            *self._wrong_journal(),
            *self._left_behind(),
        ]

    def entries(self) -> list[JournalEntry]:
        """Return the entries of the journal."""
        with open_database(self.project / ".weft" / "weft.db") as database:
            number = RunTable(database).executions()[-1].number
            return list(JournalStore(database).all_after(number))

    def _wrong_files(self, expected: Outcome) -> list[str]:
        files = self._files(self._given)
        names = sorted(files.keys() | expected.files.keys())
        return [f"file {name} differs" for name in names if files.get(name) != expected.files.get(name)]

    def _wrong_starts(self, expected: Outcome, once: bool) -> list[str]:
        runs = Evidence.read(self.notes).runs
        starts = Counter(run.key for run in runs)
        ends = Counter(run.key for run in runs if run.ended is not None)
        found = [f"{task} was lost" for task in expected.starts if not ends[task]]
        found += [f"{task} should not have run" for task in starts if task not in expected.starts]
        if once:
            found += [f"{task} was started {count} times" for task, count in starts.items() if count > 1]
        return found

    def _wrong_journal(self) -> list[str]:
        entries = self.entries()
        # An attempt that was only assigned may be withdrawn by a new plan, with a reason.
        started = {
            command.attempt for entry in entries for command in entry.commands if type(command) is Start
        }
        ended = [entry.event for entry in entries if type(entry.event) is Ended]
        silent = sorted(started - {event.attempt for event in ended} - _started_before_losses(entries))
        found = [f"attempt {number} has no end" for number in silent]
        found += [f"{event}: no cause" for event in ended if not _explained(event)]
        numbers = [event.attempt for event in ended]
        found += [f"attempt {number} ended twice" for number, count in Counter(numbers).items() if count > 1]
        replayed = replay_journal(self.project).replayed
        if not replayed.same:
            found.append(f"the journal replays otherwise: {replayed.differences}")
        return found

    def wait_for_processes(self) -> dict[int, str]:
        """Wait until all processes of the scene have ended; return those that have not after 30 s."""
        until_s = time.monotonic() + 30.0
        while (left := self.processes()) and time.monotonic() < until_s:
            time.sleep(0.02)
        return left

    def _left_behind(self) -> list[str]:
        found = [f"process {pid} is left: {words}" for pid, words in self.wait_for_processes().items()]
        try:
            Lock(self.project / ".weft" / "lock").release()
        except Exception as error:
            found.append(f"the lock is not free: {error}")
        return found

    def _files(self, but: set[str] | None = None) -> dict[str, bytes]:
        found = {path.name: path for path in self.project.iterdir() if path.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if name not in (but or ())}


def _explained(event: Ended) -> bool:
    """Return whether an end is a success or has a cause."""
    outcomes = (
        0,
        1,
    )  # 1 is a valid answer of the loop's check; for other tasks the audit reports it
    return event.cause in CAUSES or (not event.cause and event.exit_code in (*outcomes, *RESERVED_CODES))


def undisturbed(folder: Path, stable: Stable, workflows: Sequence[str], *, seed: str = "seed") -> Outcome:
    """Return the result of workflows that run without disturbances."""
    scene = Scene(folder, stable, workflows, seed=seed)
    scene.finish()
    outcome = scene.outcome()
    found = scene.audit(outcome, once=True)
    assert not found, found
    return outcome


def _started_before_losses(entries: Sequence[JournalEntry]) -> set[int]:
    """Return the attempts that were started before the last loss of their machine; these may have no end."""
    found, started = set[int](), dict[int, set[int]]()
    for entry in entries:
        if isinstance(entry.event, MachineChanged) and entry.event.up is False:
            found |= started.pop(entry.event.machine, set())
        for command in entry.commands:
            if isinstance(command, Start):
                started.setdefault(command.machine, set()).add(command.attempt)
    return found
