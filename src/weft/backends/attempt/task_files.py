"""Files through which a task reports to weft: progress, requirements, restart files, results and sweep lines.

While it runs, a task may write its progress, new requirements (``gw_reqs``), a new rank (``gw_rank``), a
complaint about its performance (``gw_perf``) and restart files (docs/papers/adaptive-jobs.md, section 2). A
task may write anything, so only regular files of limited size are read, and nothing in them is executed.
Content that cannot be interpreted is reported and has no other effect.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar
from weakref import WeakKeyDictionary

from weft.backends.attempt.command import RESULT_FILE, monitored_files
from weft.backends.attempt.safe_paths import FileDescriptor, StagingProblem, open_inside
from weft.backends.attempt.substitution import JobProblem
from weft.backends.attempt.trees import match_names
from weft.engine.state.compiled import CompiledWorkflow
from weft.errors import InvalidInput, shorten
from weft.expressions import Expression, Value, ValueKind, infer_kind, parse
from weft.records import dataclass
from weft.workflow.quantity import MAX_POINTS
from weft.workflow.unfold import try_unfold
from weft.workflow.workflow import Workflow, find_growth_files, find_named_writer, set_growth_lines

MAX_BYTES = 65_536
"""Maximal size in bytes of a file that is read as a whole."""

Signature = tuple[int, int, int, int]
"""Inode, size, modification time and status change time of a file; they change with its content."""
RestartState = list[dict[str, Signature]]
"""By declared name or wildcard of restart files: the signatures of its files."""


def read_signature(workdir: Path, name: str) -> Signature | None:
    """Return the signature of a file, without reading it; None if it is missing or cannot be opened."""
    with suppress(StagingProblem), FileDescriptor(open_inside(workdir, name)) as fd:
        status = os.fstat(fd)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None


def read_task_file(workdir: Path, name: str, *, tail: bool = False, max_bytes: int = MAX_BYTES) -> str | None:
    """Return the text of a file; None if it is missing; raise JobProblem if it cannot be read.

    A file with more than ``max_bytes`` is refused, unless ``tail`` is True: then only its last lines are
    returned.
    """
    try:
        fd = open_inside(workdir, name)
    except StagingProblem as problem:
        if problem.is_missing:
            return None
        raise JobProblem(str(problem), number=problem.number) from None
    with FileDescriptor(fd):
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise JobProblem(f"{shorten(name)} is not a regular file")
        if status.st_size > max_bytes and not tail:
            what = f"{shorten(name)} has {status.st_size} bytes"
            raise JobProblem(what, rule=f"at most {max_bytes} bytes are read")
        try:
            content = os.pread(fd, max_bytes, max(0, status.st_size - max_bytes))
        except OSError as error:
            what = f"{shorten(name)} cannot be read: {error.strerror}"
            raise JobProblem(what, number=error.errno) from None
    if status.st_size > max_bytes:
        # The first line is incomplete: a message could show the end of a secret in it.
        _, newline, content = content.partition(b"\n")
        if not newline:
            raise JobProblem(f"the last line of {shorten(name)} has more than {max_bytes} bytes")
    return content.decode("utf-8", "replace")


_PROGRESS_RULE = "must be 0.4, 40%, 3/10, or JSON with done, iterations, all_iterations, last_iteration_s"
# The digits are limited because each takes time; str() of a number in Python has up to 17, after zeros.
_DIGITS = "[0-9]{1,40}"
_NUMBER = rf"[0-9]{{1,15}}(?:\.(?:{_DIGITS})?)?(?:[eE][+-]?[0-9]{{1,2}})?"
_SHARE = re.compile(rf"({_NUMBER}|\.{_DIGITS})\s*(%?)")
_STEPS = re.compile(rf"({_NUMBER})\s*/\s*({_NUMBER})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProgress:
    """Content of a progress file; a value is None if the file does not state it."""

    done: float | None = None
    """Completed share of the task's work."""
    iterations: int | None = None
    all_iterations: int | None = None
    last_iteration_s: float | None = None


def parse_progress(text: str) -> ReportedProgress | None:
    """Parse the last complete line of a progress file; return None if there is no such line.

    A line is ``0.4``, ``40%``, ``3/10`` or a JSON object. A file with a single line may lack the newline.
    """
    whole, _, begun = text.rpartition("\n")
    lines = [line.strip() for line in (whole or begun).split("\n") if line.strip()]
    if not lines:
        return None
    line = lines[-1]
    if line.startswith("{"):
        return _from_json(line)
    if steps := _STEPS.fullmatch(line):
        return _from_steps(float(steps[1]), float(steps[2]), line)
    if share := _SHARE.fullmatch(line):
        return ReportedProgress(done=_share(float(share[1]) / (100.0 if share[2] else 1.0), line))
    raise _progress_problem(line)


def _from_steps(done: float, whole: float, line: str) -> ReportedProgress:
    if not whole > 0 or done > whole:
        raise _progress_problem(line)
    counted = done.is_integer() and whole.is_integer()
    return ReportedProgress(
        done=done / whole,
        iterations=int(done) if counted else None,
        all_iterations=int(whole) if counted else None,
    )


def _from_json(line: str) -> ReportedProgress:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _progress_problem(line) from None
    done = _number(found, "done", line)
    iterations, everything = _number(found, "iterations", line), _number(found, "all_iterations", line)
    if done is None and iterations is not None and everything:
        done = iterations / everything
    return ReportedProgress(
        done=None if done is None else _share(done, line),
        iterations=None if iterations is None else int(iterations),
        all_iterations=None if everything is None else int(everything),
        last_iteration_s=_number(found, "last_iteration_s", line),
    )


def _number(found: dict[str, object], key: str, line: str) -> float | None:
    if (value := found.get(key)) is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e15:
        raise _progress_problem(line)
    return float(value)


def _share(value: float, line: str) -> float:
    if not 0 <= value <= 1:
        raise _progress_problem(line)
    return value


def _progress_problem(line: str) -> JobProblem:
    return JobProblem(f"progress {shorten(repr(line))} cannot be parsed", rule=_PROGRESS_RULE)


_OPTIONAL = "optional"

Demand = tuple[str, bool]
"""A requirement or rank in weft's expression language ("": none), and whether it is mandatory."""


def parse_demand(text: str, file: str, wanted: ValueKind) -> Demand:
    """Parse a requirement (a truth value) or a rank (a number) in GridWay's or weft's language.

    A line ``# optional`` in the file makes the requirement or rank optional: the application may stay on its
    machine. Raises JobProblem.
    """
    # Imported on first use: few applications change their requirements.
    from weft.formats.format import ProblemCollector, SourceFile
    from weft.formats.gridway_template import TemplateEntry, translate_expression

    lines = [line.strip() for line in text.split("\n")]
    comments = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    expression = " ".join(line for line in lines if line and not line.startswith("#"))
    mandatory = _OPTIONAL not in comments
    if not expression.rstrip(" ;"):
        return "", mandatory
    complaints = ProblemCollector(SourceFile(name=file, data=b""))
    entry = TemplateEntry(key=file, value=expression, line=1, column=1)
    found = translate_expression(entry, complaints, is_rank=wanted is ValueKind.NUMBER)
    if found is not None:
        return str(found), mandatory
    try:
        # Text valid in both languages (SIZE_MEM_MB > 512) is GridWay's.
        return str(_check_kind(parse(expression), wanted)), mandatory
    except InvalidInput as error:
        why = complaints.found[0] if "=" in expression and "==" not in expression else error.problems[0]
        reason = f"{why.what}; {why.rule}" if why.rule else why.what
        raise JobProblem(f"{file} contains {shorten(repr(expression))}: {reason}") from None


def _check_kind(expression: Expression, wanted: ValueKind) -> Expression:
    if (kind := infer_kind(expression, {})) not in (wanted, ValueKind.UNKNOWN):
        raise InvalidInput(f"it evaluates to a {kind.value}", rule=f"must evaluate to a {wanted.value}")
    return expression


REQUIREMENT_FILE, RANK_FILE, PERFORMANCE_FILE = "gw_reqs", "gw_rank", "gw_perf"
"""Names of the files of GridWay's protocol for requirements, rank and performance."""

_Found = TypeVar("_Found")
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation(ReportedProgress):
    """The latest progress of a task, and everything that changed since the previous observation."""

    reported_at: float | None = None
    """Wall-clock time at which the progress file was written; None: the file has not changed."""
    requirements: str | None = None
    """New requirement in weft's language; "": the requirement was withdrawn; None: it has not changed."""
    rank: str | None = None
    mandatory: bool = True
    """Whether the application must leave a machine that does not satisfy the requirement."""
    degraded: str | None = None
    """New complaint about the performance; None: there is no new one."""
    restart_changed: bool = False
    problems: tuple[str, ...] = ()
    """For each file that could not be interpreted and was ignored: the reason."""


class TaskFiles:
    """Observer of the files of one attempt."""

    def __init__(
        self, workdir: Path, progress: str, restart: Sequence[str] = (), *, from_now: bool = False
    ) -> None:
        """Create an observer of the files in ``workdir``.

        ``progress`` is the name of the progress file, ``restart`` are the names of the restart files. If
        ``from_now`` is True, existing restart files were staged before the start and do not count as changed.
        Otherwise they count as changed at the first observation, as after a restart of the engine.
        """
        self._workdir = workdir
        self._progress_file = progress
        self.restart_files = tuple(restart)
        self._signatures: dict[str, Signature | None] = {}
        self._restart: RestartState | None = self._restart_state() if from_now else None
        self._progress = ReportedProgress()

    @classmethod
    def of(cls, compiled: CompiledWorkflow, task: int, workdir: Path, *, from_now: bool = False) -> TaskFiles:
        """Return an observer for an attempt of a task."""
        progress, restart = monitored_files(compiled, task)
        return cls(workdir, progress, restart, from_now=from_now)

    def observe(self) -> Observation:
        """Read the files that have changed, and return what was found."""
        problems: list[str] = []
        progress = self._changed(self._progress_file, parse_progress, problems, tail=True)
        requirement = self._changed(REQUIREMENT_FILE, _parse_requirement, problems)
        rank = self._changed(RANK_FILE, _parse_rank, problems)
        degraded = self._changed(PERFORMANCE_FILE, _read_complaint, problems, tail=True)
        self._progress = progress or self._progress
        return Observation(
            **asdict(self._progress),
            reported_at=None if progress is None else self._modified_at(self._progress_file),
            requirements=None if requirement is None else requirement[0],
            rank=None if rank is None else rank[0],
            mandatory=requirement is None or requirement[1],
            degraded=degraded,
            restart_changed=self._restart_changed(),
            problems=tuple(problems),
        )

    def _changed(
        self, name: str, read: Callable[[str], _Found], problems: list[str], *, tail: bool = False
    ) -> _Found | None:
        """Return the parsed content of a file if it has changed since the previous observation, else None.

        If the file cannot be read or parsed, the reason is added to ``problems``.
        """
        if (signature := read_signature(self._workdir, name)) == self._signatures.get(name):
            return None
        # A file modified during the read has another signature at the next observation.
        self._signatures[name] = signature
        try:
            text = None if signature is None else read_task_file(self._workdir, name, tail=tail)
            return None if text is None else read(text)
        except JobProblem as problem:
            problems.append(str(problem))
            return None

    def _modified_at(self, name: str) -> float | None:
        """Return the modification time (wall-clock) that a file had at its last observation."""
        signature = self._signatures.get(name)
        return None if signature is None else signature[2] / 1e9

    def _restart_state(self) -> RestartState:
        """Return, for each declared name or wildcard of restart files, its files and their signatures."""
        found = []
        for pattern in self.restart_files:
            try:
                names = match_names(self._workdir, pattern)
            except StagingProblem:
                names = []
            signatures = ((name, read_signature(self._workdir, name)) for name in names)
            found.append({name: signature for name, signature in signatures if signature is not None})
        return found

    def _restart_changed(self) -> bool:
        """Return whether the restart files have changed and every declared name has a file."""
        if not self.restart_files:
            return False
        if (state := self._restart_state()) == self._restart or not all(state):
            return False
        self._restart = state
        return True


_parse_requirement = partial(parse_demand, file=REQUIREMENT_FILE, wanted=ValueKind.BOOLEAN)
_parse_rank = partial(parse_demand, file=RANK_FILE, wanted=ValueKind.NUMBER)


def _read_complaint(text: str) -> str:
    return shorten(text.strip(), _LONGEST_TEXT) or "the application reports bad performance"


_RESULT_RULE = (
    "a result file contains one flat JSON object, {name: number, text or true/false}, of at most 64 kB"
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MOST_LINE_BYTES = 64_000_000
_SWEEP_FILES: WeakKeyDictionary[CompiledWorkflow, dict[str, str | None]] = WeakKeyDictionary()
"""By compiled workflow: the files whose lines define sweeps, with what ``find_named_writer`` returns."""


def read_result(workdir: Path, name: str = RESULT_FILE) -> dict[str, Value]:
    """Return the content of a task's result file; {} if there is no such file."""
    if (text := read_task_file(workdir, name)) is None or not text.strip():
        return {}
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        what = f"the result file is not valid JSON: {shorten(str(error))}"
        raise JobProblem(what, rule=_RESULT_RULE) from None
    if not isinstance(found, dict):
        raise JobProblem(f"the result file contains {shorten(text)}, not an object", rule=_RESULT_RULE)
    if _SURROGATE.search(text):
        _refuse_half_surrogates(found)
    for key, value in found.items():
        if isinstance(value, dict | list) or (isinstance(value, float) and not math.isfinite(value)):
            raise JobProblem(f"{shorten(key)} in the result file is {shorten(value)}", rule=_RESULT_RULE)
    return found


def _refuse_half_surrogates(found: dict[str, Value]) -> None:
    """Raise JobProblem if a text contains half of a surrogate pair, which cannot be stored in UTF-8."""
    for key, value in found.items():
        for text in (key, value):
            if isinstance(text, str) and text.encode("utf-8", "replace").decode() != text:
                what = f"{shorten(key)!a} in the result file contains half of a surrogate pair"
                raise JobProblem(what, rule=r"codes from \uD800 to \uDFFF must form pairs")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def read_sweep_lines(
    compiled: CompiledWorkflow, task: int, workdir: str, outputs: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the lines of sweep files that this task wrote, by file name.

    A sweep file is a file whose lines define a sweep. ``outputs`` are the names of the task's outputs.
    ``lines(split.parts)`` refers to a file of that name, or to the output ``parts`` of the task ``split``.
    """
    if not (sweep_files := _find_sweep_files(compiled)):
        return {}
    name_of_task = compiled.description(task).name
    found: dict[str, tuple[str, ...]] = {}
    for file, writer in sweep_files.items():
        if writer is None and file in outputs:
            found[file] = _read_lines(Path(workdir), file)
        elif writer == name_of_task:
            rest = file.partition(".")[2]
            found[file] = _read_lines(Path(workdir), rest if rest in outputs else file)
    if found:
        _check_growth(compiled.graph.workflow, found)
    return found


def _check_growth(workflow: Workflow, lines: dict[str, tuple[str, ...]]) -> None:
    """Raise JobProblem if the workflow has problems with these lines as values of its sweeps."""
    _, problems = try_unfold(set_growth_lines(workflow, lines))
    if problems:
        what = f"with the lines of {' and '.join(map(shorten, lines))} the workflow is invalid"
        raise JobProblem(f"{what}: {problems[0].what}", rule=problems[0].rule)


def _find_sweep_files(compiled: CompiledWorkflow) -> dict[str, str | None]:
    if (found := _SWEEP_FILES.get(compiled)) is None:
        workflow = compiled.graph.workflow
        found = _SWEEP_FILES[compiled] = {
            file: find_named_writer(workflow.tasks, file) for file in find_growth_files(workflow)
        }
    return found


def has_sweep_files(compiled: CompiledWorkflow) -> bool:
    """Return whether the lines of some file define a sweep of the workflow."""
    return bool(_find_sweep_files(compiled))


def _read_lines(workdir: Path, name: str) -> tuple[str, ...]:
    if (text := read_task_file(workdir, name, max_bytes=_MOST_LINE_BYTES)) is None:
        raise JobProblem(f"{shorten(name)} was not written", rule="each of its lines is a value of a sweep")
    lines = [line for line in (raw.strip() for raw in text.split("\n")) if line]
    fault = ""
    if not lines:
        fault = "has no lines"
    elif len(lines) > MAX_POINTS:
        fault = f"has {len(lines):,} lines, but a sweep has at most {MAX_POINTS:,} values"
    elif len(set(lines)) < len(lines):
        duplicate = Counter(lines).most_common(1)[0][0]
        fault = f"has the line {shorten(duplicate)!r} twice"
    elif "\0" in text or "\ufffd" in text:
        fault = "is not text"
    if fault:
        raise JobProblem(f"{shorten(name)} {fault}", rule="a sweep has one subtask per line")
    return tuple(lines)
