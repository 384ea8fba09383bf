"""The checker of histories: every claim of a project's database is held against the evidence of its programs.

Programs, and the tests that disturb them, leave their own evidence outside the project (``evidence.py``). The
database is read without code of weft (``claims.py``). Each rule returns one text per violation; an empty list
means that everything weft claims has happened, and that nothing else has.

The idea is that of Jepsen (Kingsbury): the system under test is judged from outside by a recorded history.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos.claims import ClaimedAttempt, ClaimedProduct, Claims, read_claims
from chaos.evidence import Evidence, ProgramRun
from chaos.program import digest

_ENDS_PROGRAMS = {"runner killed", "runner stopped", "runner stuck", "power cut", "restored", "failing calls"}
_ALLOWED = {
    "lost": _ENDS_PROGRAMS,
    "staging": {"full disk", "failing calls"},
    "error": {"full disk", "failing calls"},
}
"""Faults by the cause of failure that they explain; other causes have their own conditions."""


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


@dataclass(frozen=True, slots=True)
class History:
    """The claims of one project, and the evidence against which they are held."""

    project: Path
    claims: Claims
    evidence: Evidence
    content: Callable[[Path], bytes | None] = field(default=_content)
    """Returns the content of a file; None: it does not exist."""

    @classmethod
    def read(cls, project: Path, notes: Path) -> History:
        """Read the database of a project and the evidence in a folder."""
        return cls(project, read_claims(project / ".weft" / "weft.db"), Evidence.read(notes))

    def runs_of(self, attempt: ClaimedAttempt) -> list[ProgramRun]:
        """Return the runs of programs that the evidence has for an attempt."""
        return [
            run
            for run in self.evidence.runs
            if run.execution == str(attempt.execution)
            and run.number == attempt.number
            and attempt.nonce.startswith(run.nonce)
        ]

    def attempt_of(self, run: ProgramRun) -> ClaimedAttempt | None:
        """Return the attempt of the journal to which a program belonged."""
        if not run.execution.isdecimal():
            return None
        attempt = self.claims.attempts.get((int(run.execution), run.number))
        return attempt if attempt is not None and attempt.nonce.startswith(run.nonce) else None


def check(project: Path, notes: Path) -> list[str]:
    """Return one text per rule that the history of a project violates."""
    return check_history(History.read(project, notes))


def check_history(history: History) -> list[str]:
    """Return one text per rule that a history violates."""
    return [f"{rule.__name__}: {text}" for rule in RULES for text in rule(history)]


def programs_run_alone(history: History) -> Iterator[str]:
    """No two programs of one task run at the same time, whatever their attempts are."""
    for run in history.evidence.runs:
        if not run.alone:
            yield f"{run.key} began (attempt {run.identity}) while another program of this task ran"


def attempts_begin_once(history: History) -> Iterator[str]:
    """The program of an attempt begins once, or again after a loss; a nonce is never used for another task."""
    seen: dict[tuple[object, ...], ProgramRun] = {}
    for run in history.evidence.runs:
        era = history.evidence.losses_before(run)
        for key in ((run.execution, run.identity, era), (run.execution, run.nonce and run.identity)):
            earlier = seen.setdefault(key, run)
            if earlier is not run and (len(key) == 3 or (run.nonce and earlier.key != run.key)):
                yield f"attempt {run.identity} of execution {run.execution} began twice: {earlier.key}, {run.key}"
                break


def programs_are_in_the_journal(history: History) -> Iterator[str]:
    """A program begins only after its start was recorded; only a loss explains one that is unknown."""
    losses = len(list(history.evidence.of_kind("loss")))
    for run in history.evidence.runs:
        attempt = history.attempt_of(run)
        if (attempt is None or attempt.started is None) and history.evidence.losses_before(run) == losses:
            yield f"{run.key} began as attempt {run.identity}, which the journal does not have"


def lost_programs_end_first(history: History) -> Iterator[str]:
    """After a loss, programs that the journal does not have end before another program begins."""
    era = history.evidence.losses_before
    for run in history.evidence.runs:
        if run.ended is None or history.attempt_of(run):
            continue
        beside = [
            other.key for other in history.evidence.runs if era(other) > era(run) and other.began < run.ended
        ]
        if beside:
            yield f"{run.key} (attempt {run.identity}, lost by the journal) still ran when {beside[0]} began"


def completions_have_evidence(history: History) -> Iterator[str]:
    """The last program of an attempt claimed as ended by itself has ended with this code, for the same task."""
    names = {(each.execution, each.attempt): each for each in history.claims.products}
    for attempt in history.claims.attempts.values():
        end = attempt.completed
        if end is None or end.taken_over is not None:
            continue
        run = next(iter(history.runs_of(attempt)[-1:]), None)
        if run is None or run.ended is None or run.code != end.exit_code:
            # The interpreter may not be able to read the program.
            if not end.exit_code or not history.evidence.faults & _ALLOWED["error"]:
                yield f"{attempt.label} is claimed as ended with {end.exit_code}; no program did"
            continue
        product = names.get((attempt.execution, attempt.number))
        if product is not None and (run.task, run.iteration) != (product.name, product.iteration):
            yield f"{attempt.label} is claimed for {product.name}; its program was {run.key}"


def attempts_end_once(history: History) -> Iterator[str]:
    """An attempt has at most one end, and every started attempt of a finished execution has one.

    An attempt that was lost with its machine may have none.
    """
    for attempt in history.claims.attempts.values():
        if len(attempt.ends) > 1:
            yield f"{attempt.label} ended {len(attempt.ends)} times"
        state = history.claims.executions[attempt.execution]
        silent = attempt.started is not None and not attempt.ends and not attempt.lost
        if silent and state == "completed":
            yield f"{attempt.label} was started and has no end"


def tasks_are_complete(history: History) -> Iterator[str]:
    """Every task of a completed run was completed or skipped, and its last completion has evidence."""
    completed = {(each.execution, each.position) for each in history.claims.runs if each.state == "completed"}
    for (execution, run, task), state in history.claims.settled.items():
        if (execution, run) in completed and state not in ("COMPLETED", "SKIPPED"):
            yield f"execution {execution}: run {run} is claimed as completed, its task {task} is {state}"


def causes_are_true(history: History) -> Iterator[str]:
    """The cause of a failure is one that the evidence explains."""
    for attempt in history.claims.attempts.values():
        for end in attempt.ends:
            if end.cause and (reason := _doubt(history, attempt, end.cause)):
                yield f"{attempt.label}: cause {end.cause!r} ({end.story}), but {reason}"


def _doubt(history: History, attempt: ClaimedAttempt, cause: str) -> str:
    """Return why a cause cannot be true; "": it can."""
    runs = history.runs_of(attempt)
    if cause == "preempted":
        killed = {each["group"] for _, each in history.evidence.of_kind("fault") if "group" in each}
        return "" if any(run.group in killed for run in runs) else "the test did not kill its program"
    if cause == "cancelled":
        return "" if attempt.cancelled else "the journal has no command that cancels it"
    if cause == "timeout":
        limited = any(
            history.claims.description(attempt.execution, run.task).get("time_limit") for run in runs
        )
        return "" if limited else "its task has no time limit"
    if cause == "error" and any(run.code or _lacks_outputs(history, attempt, run) for run in runs):
        return ""
    if cause in _ALLOWED:
        faults = history.evidence.faults & _ALLOWED[cause]
        return "" if faults else "the test did nothing that leads to it"
    return "nothing in the workflow leads to it"


def _lacks_outputs(history: History, attempt: ClaimedAttempt, run: ProgramRun) -> bool:
    declared = history.claims.description(attempt.execution, run.task).get("outputs")
    return run.ended is not None and bool(declared) and not run.outputs


def inputs_are_current(history: History) -> Iterator[str]:
    """A program reads the content that its producer wrote before, or that the user's file has."""
    for run in history.evidence.runs:
        for name, content in run.inputs.items():
            if reason := _wrong_input(history, run, name, content):
                yield f"{run.key} (attempt {run.identity}) read {name}: {reason}"


def _wrong_input(history: History, run: ProgramRun, name: str, content: str) -> str:
    """Return what is wrong with an input of a program; "": nothing."""
    given = [each["digest"] for place, each in history.evidence.of_kind("given")
             if each["name"] == name and place < run.began]  # fmt: skip
    producers = [each for each in history.evidence.runs if name in each.outputs and each.code == 0]
    wanted = _iteration_read(history, run, producers)
    if not producers or not wanted:
        if given and given[-1] == content:
            return ""
        return "it has an older content of the user's file" if content in given else "its origin is unknown"
    before = [each for each in producers if each.iteration == wanted and (each.ended or 0) < run.began]
    if not before:
        return f"no program had written it in iteration {wanted}"
    if all(each.outputs[name] != content for each in before):
        return f"its content is none that was written in iteration {wanted}"
    return ""


def _iteration_read(history: History, run: ProgramRun, producers: list[ProgramRun]) -> int:
    """Return the iteration whose output a program must read; 0: the user's file."""
    last = max((each.iteration for each in producers if (each.ended or 0) < run.began), default=1)
    if any(each.task == run.task for each in producers):
        return run.iteration - 1
    repeats = any(each.iteration > 1 for each in history.evidence.runs if each.task == run.task)
    return run.iteration if repeats else last


def products_have_the_witnessed_content(history: History) -> Iterator[str]:
    """Files claimed for a completed task are those its program had written, and still have this content."""
    for product in history.claims.products:
        attempt = history.claims.attempts.get((product.execution, product.attempt))
        if attempt is None:
            yield f"product {product.number} is of attempt {product.attempt}, which the journal does not have"
            continue
        made = [run for run in _sources(history, attempt, product) if run.ended is not None]
        if not any(dict(run.outputs) == product.files for run in made):
            yield f"{attempt.label} ({product.name}): {product.files} is claimed, but {[dict(run.outputs) for run in made]} was written"
        elif not attempt.removed:
            yield from _changed_files(history, product)


def _sources(history: History, attempt: ClaimedAttempt, product: ClaimedProduct) -> list[ProgramRun]:
    """Return the programs that can have made a product: the last of its attempt, or all of its task if it is reused."""
    end = attempt.completed
    if end is None or end.taken_over is None:
        return history.runs_of(attempt)[-1:]
    key = product.name, product.iteration
    return [run for run in history.evidence.runs if (run.task, run.iteration) == key]


def _changed_files(history: History, product: ClaimedProduct) -> Iterator[str]:
    folder = history.project / product.directory
    for name, content in product.files.items():
        found = history.content(folder / name)
        if found is None:
            yield f"{product.name}: {folder / name} is claimed and does not exist"
        elif digest(found) != content:
            yield f"{product.name}: {folder / name} has another content than claimed"


def given_files_are_unchanged(history: History) -> Iterator[str]:
    """A file of the user has the content that the user gave it, unless a task publishes one of this name."""
    given = {each["name"]: each["digest"] for _, each in history.evidence.of_kind("given")}
    for name, content in given.items():
        found = history.content(history.project / name)
        if not _is_made(history, name) and (found is None or digest(found) != content):
            yield f"{name} was changed or removed"


def reuse_is_current(history: History) -> Iterator[str]:
    """A result is reused only if its program had read what the inputs are now."""
    given = {each["name"]: each["digest"] for _, each in history.evidence.of_kind("given")}
    for product in history.claims.products:
        attempt = history.claims.attempts.get((product.execution, product.attempt))
        end = None if attempt is None else attempt.completed
        if (
            product.execution != history.claims.last
            or attempt is None
            or end is None
            or end.taken_over is None
        ):
            continue
        now = {name: given[name] for name in given if not _is_made(history, name)}
        for_it = [run for run in _sources(history, attempt, product) if run.outputs == product.files]
        if not any(
            all(now.get(name, content) == content for name, content in run.inputs.items()) for run in for_it
        ):
            yield f"{attempt.label} ({product.name}) reuses a result of other inputs"


def _is_made(history: History, name: str) -> bool:
    return any(name in run.outputs for run in history.evidence.runs)


def dependents_begin_later(history: History) -> Iterator[str]:
    """The start of a task is recorded after the ends of the tasks on which it depends."""
    ends = [
        (end.entry, attempt.execution, run)
        for attempt in history.claims.attempts.values()
        for end in attempt.ends
        for run in history.runs_of(attempt)
        if run.code == 0 or end.taken_over is not None
    ]
    reused = {
        each.execution
        for each in history.claims.attempts.values()
        if any(end.taken_over for end in each.ends)
    }
    for attempt in history.claims.attempts.values():
        runs = history.runs_of(attempt)
        if attempt.started is None or not runs or attempt.execution in reused:
            continue
        begun = runs[-1]
        before = {run.task for entry, execution, run in ends
                  if execution == attempt.execution and entry <= attempt.started}  # fmt: skip
        for producer in _needed_tasks(history.claims, attempt.execution, begun):
            if not any(name.partition("[")[0] == producer for name in before) and begun.iteration == 1:
                yield f"{attempt.label} ({begun.key}) was started before an end of {producer} was recorded"


def _needed_tasks(claims: Claims, execution: int, run: ProgramRun) -> list[str]:
    """Return the descriptions that a task names in ``after``, or whose outputs it reads."""
    own = claims.description(execution, run.task)
    after = own.get("after", ())
    needed = [after] if isinstance(after, str) else list(after)
    others = {name: each for (number, name), each in claims.descriptions.items() if number == execution}
    for name, description in others.items():
        patterns = [re.sub(r"\{.*?\}", "*", str(each)) for each in description.get("outputs", ())]
        read = any(fnmatch.fnmatchcase(each, pattern) for each in run.inputs for pattern in patterns)
        if read and description is not own:
            needed.append(name)
    return [name for name in needed if name in others]


def published_files_are_results(history: History) -> Iterator[str]:
    """A file that a completed task has published has a content that the task wrote."""
    written: dict[str, set[str]] = {}
    for product in history.claims.products:
        attempt = history.claims.attempts.get((product.execution, product.attempt))
        if attempt is not None and attempt.published and attempt.execution == history.claims.last:
            for name, content in product.files.items():
                written.setdefault(name, set()).add(content)
    for name, contents in written.items():
        found = history.content(history.project / name)
        if found is None:
            yield f"{name} was published and does not exist"
        elif digest(found) not in contents:
            yield f"{name} has another content than its task wrote"


Rule = Callable[[History], Iterator[str]]

RULES: tuple[Rule, ...] = (
    programs_run_alone,
    attempts_begin_once,
    programs_are_in_the_journal,
    lost_programs_end_first,
    completions_have_evidence,
    attempts_end_once,
    tasks_are_complete,
    causes_are_true,
    inputs_are_current,
    products_have_the_witnessed_content,
    given_files_are_unchanged,
    reuse_is_current,
    dependents_begin_later,
    published_files_are_results,
)
