"""Progress of an execution: task counts by kind, failures, running attempts and the time left.

``ExecutionProgress`` computes these from the history, during the run or while a journal is read.

The pace of a task is its measured time divided by its estimated time at the estimated speed of its machine,
which is lower beside competing load. The time left is the rest of the plan at the current speeds of the
machines, multiplied by an expected pace. So a slow machine is counted once: a program that competing load
does not slow has a pace below 1 there. For tasks with a stated time, the expected pace is the median (for
P50) or the 90 % quantile (for P90) of the paces of completed tasks; before any of these tasks has completed,
it is computed from the promise. For tasks without a stated time, which have a placeholder in the plan, it is
the same statistic over completed tasks of the same kind, or, before one has completed, over the projected
times of its running tasks that have reported progress. The paces of the tasks with a stated time and of each
kind without one are averaged, weighted by their expected seconds.

The time left is unknown in these cases: there is no plan; held tasks block the run; all machines are lost;
the selector or the requirement of a ready task accepts no machine; an unfinished task has neither an estimate
nor a task of its kind that has completed or reported progress; a loop states no expected number of iterations
or exceeds it; the planned end has passed; all programs have ended, and only outputs are still copied or
epilogs run.

The rest of the plan keeps its machines and its order: a task begins when its predecessors, their transfers
and the tasks planned before it on its machine have ended. So a late task delays only the tasks that wait for
it. A plan made during the run, for example after a migration, has no lines for the tasks that were running at
that time; planned tasks wait for them in the same way. Held tasks and the tasks that wait for them are not
counted.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

import numpy as np

from weft.engine.explanation import describe_unplaceable
from weft.engine.history import AttemptRecord, FailureRecord, History
from weft.engine.journal import JournalEntry
from weft.engine.kind_counts import KindCount, count_kinds
from weft.engine.replan.promise import Promise
from weft.engine.selection import spared_share
from weft.engine.state.compiled import LoopState
from weft.engine.state.plan import PlanLine
from weft.engine.state.run import RunState
from weft.engine.state.state import EngineState
from weft.engine.states import FINAL, Attempt, TaskState, TimerKind
from weft.instance.instance import Instance, mark_untimed_tasks
from weft.records import dataclass
from weft.units import format_count, format_seconds
from weft.workflow.task_graph import COMPUTE

_BLOCKED = {TaskState.HELD, TaskState.WAITING}
_QUEUED = (TaskState.SCHEDULED, TaskState.PROLOG)
_KEPT = 1_000
"""The paces of this many last completed tasks are used; also the largest number of failures returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """An attempt whose program is running, with its start time."""

    run: int
    task: str
    attempt: int
    machine: str
    nodes: int
    since_s: float
    host: str | None = None
    """The physical machine if ``machine`` is a share of one, else None."""
    suspended_since_s: float | None = None
    """Time at which the program was suspended; None: it is not suspended."""
    silent_since_s: float | None = None
    """Time since which its host has not answered, so that its state is unknown; None: the host answers."""
    job: str = ""
    """Number of its job in the batch system; "": it has none, or none is known."""


class ExecutionProgress:
    """Progress of an execution, derived from its history and the engine's state."""

    def __init__(self, history: History, state: EngineState) -> None:
        self.history = history
        self.state = state
        self.stale: dict[tuple[int, str], Counter[str]] = {}
        """By (run, kind): how often each reason made an earlier result stale."""
        self.ran: Counter[tuple[int, str]] = Counter()
        """By (run, kind): the number of tasks whose programs ran and completed."""
        self.paces: dict[int, deque[float]] = {}
        """By run: the paces (see above) of the tasks completed last."""
        self.untimed: dict[tuple[int, str], deque[float]] = {}
        """By (run, kind), for tasks without a stated time: the same; the placeholder is the estimate."""
        self._untimed_tasks: dict[int, tuple[Instance, frozenset[str]]] = {}
        """By run: its instance, and the names of the tasks of that instance without a stated time."""
        self._counted = 0
        """Number of attempts in ``History.succeeded`` that are already counted."""
        self.update()

    def take(self, entry: JournalEntry) -> None:
        """Add an entry to the history; the engine must already have applied the entry to its state."""
        self.history.take(entry, self.state)
        self.update()

    @property
    def taken_over(self) -> Counter[tuple[int, str]]:
        """Return, by (run, kind), the number of tasks whose outputs are reused from earlier executions."""
        return self.history.taken_over

    @property
    def failures(self) -> list[FailureRecord]:
        """Return the last failures of the execution, at most 1,000."""
        return self.history.failures[-_KEPT:]

    def update(self) -> None:
        """Count the attempts that have succeeded in the history since the last call."""
        succeeded = self.history.succeeded
        for attempt in succeeded[self._counted :]:
            self._add(attempt)
        self._counted = len(succeeded)

    def _add(self, attempt: AttemptRecord) -> None:
        key = attempt.run, attempt.kind
        self.ran[key] += 1
        if attempt.story:
            self.stale.setdefault(key, Counter())[attempt.story] += 1
        seconds = attempt.seconds
        # Restarted attempts are skipped: the fraction of work in their restart files is only an estimate.
        if seconds > 0 and not attempt.restart_from:
            took_s = attempt.measured_s
            if took_s is None:
                took_s = (attempt.ended_s or 0.0) - (attempt.submitted_s or 0.0)
            pace = took_s * attempt.speed_factor / seconds
            if self._is_untimed(attempt):
                self.untimed.setdefault(key, deque(maxlen=_KEPT)).append(pace)
            else:
                self.paces.setdefault(attempt.run, deque(maxlen=_KEPT)).append(pace)

    def _is_untimed(self, attempt: AttemptRecord) -> bool:
        run = self.state.runs[attempt.run]
        instance, tasks = self._untimed_tasks.get(run.index, (None, frozenset[str]()))
        if instance is not run.instance:  # the first attempt, or the graph has grown
            marked = np.flatnonzero(mark_untimed_tasks(run.instance)).tolist()
            tasks = frozenset(run.compiled.names[task] for task in marked)
            self._untimed_tasks[run.index] = run.instance, tasks
        return attempt.task in tasks

    def began_s(self, attempt: int) -> float | None:
        """Return the time at which a running attempt was started; None if it is not running."""
        running = self.history.running.get(attempt)
        return None if running is None else running.submitted_s

    def running_attempts(self, run: int | None = None) -> list[RunningAttempt]:
        """Return the running attempts of one run, or of all runs, by start time."""
        state = self.state
        return [
            RunningAttempt(
                run=attempt.run,
                task=state.runs[attempt.run].name(attempt.task),
                attempt=attempt.number,
                machine=state.machines[attempt.machine].name,
                nodes=attempt.count,
                since_s=started.started_s or started.submitted_s or 0.0,
                host=state.machines[attempt.machine].share_of,
                suspended_since_s=attempt.suspended_since_s,
                silent_since_s=None
                if (silence := state.machines[attempt.machine].silence) is None
                else silence.since_s,
                job=started.job,
            )
            for number, started in self.history.running.items()
            if (attempt := state.attempts.get(number)) is not None and run in (None, attempt.run)
        ]

    def counts(self, run: int | None = None) -> list[KindCount]:
        """Return a row of task counts for each kind, in workflow order; of every run if ``run`` is None."""
        chosen = [each for each in self.state.runs if run in (None, each.index)]
        return [row for each in chosen for row in count_kinds(each, self.history)]


_MINIMAL_PACE = 0.05
"""Smaller measured paces are raised to this value, because they come from very short tasks."""

_Pace = tuple[float, float | None]
"""Median and 90 % quantile (None if unknown) of the paces of tasks: measured time / estimated time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLeft:
    """Estimated seconds until a run ends; None if unknown."""

    p50_s: float | None
    p90_s: float | None
    why: str = ""
    """Why the time is unknown; "" if it is known, or if it is unknown without a reason to state."""
    held: int = 0
    """Number of held tasks, if no task is running and no other task can start; otherwise 0."""
    without: int = 0
    """Number of held tasks that are not counted, nor are the tasks that wait for them."""

    def __str__(self) -> str:
        if self.p50_s is None:
            return f"unknown ({self.why})" if self.why else "unknown"
        without = f", without {format_count(self.without, 'held task')}" if self.without else ""
        if self.p90_s is None:
            return f"{_rounded(self.p50_s)} (spread unknown){without}"
        low, high = _rounded(self.p50_s), _rounded(self.p90_s)
        return f"{low if low == high else f'{low} to {high}'}{without}"


UNKNOWN = TimeLeft(p50_s=None, p90_s=None)


def _rounded(seconds: float) -> str:
    """Return an estimate as text, rounded to seconds; below 10 s to tenths."""
    return format_seconds(round(seconds, 1) if seconds < 10 else float(round(seconds)))


def clock_time(zero_at_s: float, at_s: float) -> str:
    """Return a time of the engine as the time of day here; ``zero_at_s`` is the Unix time at its time 0."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(zero_at_s + at_s))
    except (OverflowError, ValueError, OSError):  # the journal is damaged
        return f"{at_s:g} s of the run"


def latest_of(found: Sequence[TimeLeft]) -> TimeLeft:
    """Return the time until the last of several runs ends; unknown if it is unknown for any run."""
    unknown = [each for each in found if each.p50_s is None]
    if held := sum(each.held for each in unknown):
        others = [each for each in found if not each.held and each.p50_s != 0.0]
        return _blocked(held) if not others else TimeLeft(p50_s=None, p90_s=None, why=_held_text(held))
    if unknown:
        return unknown[0]
    late = [each.p90_s for each in found if each.p90_s is not None]
    return TimeLeft(
        p50_s=max((each.p50_s or 0.0 for each in found), default=0.0),
        p90_s=max(late, default=0.0) if len(late) == len(found) else None,
        without=sum(each.without for each in found),
    )


def _blocked(held: int) -> TimeLeft:
    return TimeLeft(p50_s=None, p90_s=None, why=_held_text(held), held=held)


def _held_text(held: int) -> str:
    return f"{format_count(held, 'task')} {'is' if held == 1 else 'are'} held"


def _count_blocking(run: RunState) -> int:
    """Return the number of held tasks if no other task of the run is running or can start, else 0."""
    if not (held := bytes(run.state).count(TaskState.HELD)):
        return 0
    states = set(run.state) - FINAL - _BLOCKED
    active = (task for task, state in enumerate(run.state) if state in states)
    # A task may be in the queue of a machine before its predecessors have ended.
    is_active = any(run.state[task] not in _QUEUED or not run.missing[task] for task in active)
    return 0 if is_active else held


def time_left(
    run: RunState, progress: ExecutionProgress, now_s: float, promise: Promise | None = None
) -> TimeLeft:
    """Return the estimated time left of a run; ``promise`` is the prediction recorded before the run."""
    if run.ending:
        return TimeLeft(p50_s=0.0, p90_s=0.0)
    if held := _count_blocking(run):
        return _blocked(held)
    if not any(machine.up for machine in progress.state.machines):
        return TimeLeft(p50_s=None, p90_s=None, why="all machines are lost")
    if unplaced := describe_unplaceable(progress.state, run):
        return TimeLeft(p50_s=None, p90_s=None, why=unplaced)
    further_s = None if run.plan is None else _further_s(run, run.plan.planned_tasks)
    if run.plan is None or further_s is None:
        return UNKNOWN
    lines = run.plan.planned_tasks
    held, blocked = _find_held(run)
    open_tasks = [task for task in lines if run.state[task] not in FINAL and task not in blocked]
    # A plan made during the run has no lines for the tasks that were running then.
    unplanned = {
        task: attempt
        for task, number in run.attempt_of.items()
        if task not in lines
        and run.state[task] not in FINAL
        and (attempt := progress.state.find_attempt(number)) is not None
    }
    tasks = [*open_tasks, *unplanned]
    if not tasks:
        return TimeLeft(p50_s=0.0, p90_s=0.0)
    untimed = mark_untimed_tasks(run.instance)
    paces = _untimed_paces(run, progress)
    mute = [task for task in tasks if untimed[task] and _key(run, task) not in paces]
    if mute:
        return TimeLeft(p50_s=None, p90_s=None, why=f"{format_count(len(mute), 'task')} of unknown duration")
    planned_s = {task: lines[task].finish_s - lines[task].start_s for task in open_tasks}
    expected_s = {task: _expected_s(run, progress, task, lines[task]) for task in open_tasks}
    scale = sum(expected_s.values()) / whole_s if (whole_s := sum(planned_s.values())) > 0.0 else 1.0
    machines = progress.state.machines
    for task, attempt in unplanned.items():
        expected_s[task] = attempt.seconds / machines[attempt.machine].speed_factor
    usual, slow = _mean_pace(run, progress, expected_s, untimed.tolist(), paces, promise)

    def rest_of(attempt: Attempt) -> float:
        """Return the remaining seconds of an attempt on the plan's time axis."""
        return _attempt_left_s(progress, attempt, now_s, usual) / scale

    rest_s = {task: rest_of(attempt) for task, attempt in unplanned.items()}
    ends_s = _planned_ends_s(run, progress, open_tasks, now_s, rest_of, rest_s)
    left_s = max((*rest_s.values(), *ends_s.values()))
    left_s += further_s
    if left_s <= 0.0:
        copying = any(run.state[task] == TaskState.EPILOG for task in tasks)
        why = "outputs are being copied, or epilogs run" if copying else "the planned end has passed"
        return TimeLeft(p50_s=None, p90_s=None, why=why)
    left_s *= scale
    return TimeLeft(p50_s=left_s * usual, p90_s=None if slow is None else left_s * slow, without=held)


def _find_held(run: RunState) -> tuple[int, set[int]]:
    """Return the number of held tasks of a run, and these tasks with all tasks that wait for them."""
    if not (held := bytes(run.state).count(TaskState.HELD)):
        return 0, set()
    stack = [task for task, state in enumerate(run.state) if state == TaskState.HELD]
    blocked = set(stack)
    while stack:
        for after in run.compiled.after(stack.pop()):
            if after not in blocked and run.state[after] not in FINAL:
                blocked.add(after)
                stack.append(after)
    return held, blocked


def _expected_s(run: RunState, progress: ExecutionProgress, task: int, line: PlanLine) -> float:
    """Return the estimated seconds of a planned task at the current speed of its machine."""
    if run.compiled.kind[task] != COMPUTE:
        return line.finish_s - line.start_s
    whole_s = run.compiled.seconds(task, line.machine, line.count)
    attempt = progress.state.attempt_of(run, task)
    spared = attempt.restart_from if attempt is not None else spared_share(run, task, line.count)
    return whole_s * (1.0 - spared) / progress.state.machines[line.machine].speed_factor


def _has_begun(run: RunState, progress: ExecutionProgress, task: int) -> bool:
    """Return whether the program of a task runs, or has ended and its outputs are not yet copied."""
    number = run.attempt_of.get(task)
    if number is None:
        return False
    return run.state[task] == TaskState.EPILOG or progress.began_s(number) is not None


def _planned_ends_s(
    run: RunState,
    progress: ExecutionProgress,
    open_tasks: Sequence[int],
    now_s: float,
    rest_of: Callable[[Attempt], float],
    rest_s: Mapping[int, float],
) -> dict[int, float]:
    """Return the seconds until each open task of the plan ends, on the plan's time axis.

    A task that has begun ends after the remaining seconds of its attempt. Any other task begins when the open
    tasks that it waits for have ended: its predecessors, with their transfers, the tasks before it on its
    machine, and running tasks without plan lines (``rest_s``). A task that waits for none of these begins at
    its planned start, or now if that has passed. O(open tasks * log(open tasks) + edges).
    """
    if run.plan is None:
        return {}
    lines, state, compiled = run.plan.planned_tasks, progress.state, run.compiled
    begun = {
        task: state.attempts[run.attempt_of[task]] for task in open_tasks if _has_begun(run, progress, task)
    }
    behind_s = _wait_for_unplanned_s(
        run, progress, [task for task in open_tasks if task not in begun], rest_s
    )
    ends_s: dict[int, float] = {}
    queues: dict[int, list[tuple[float, float]]] = {}
    """By machine: heap of (planned end, expected end) of tasks that later tasks may wait for."""
    free_s: dict[int, float] = {}
    """By machine: expected end of the tasks whose planned end is before the start of the current task."""
    for task in sorted(open_tasks, key=lambda task: (lines[task].start_s, lines[task].finish_s, task)):
        line = lines[task]
        if task in begun:
            machine, ends_s[task] = begun[task].machine, rest_of(begun[task])
        else:
            machine = line.machine
            waits = [behind_s[task]] if task in behind_s else []
            for before, edge in zip(compiled.before(task), compiled.edges_before(task), strict=True):
                if (end_s := ends_s.get(before)) is not None:
                    source = lines[before].machine
                    moves = source != machine and compiled.moves_data
                    waits.append(end_s + run.instance.edge_s(edge, source, machine) if moves else end_s)
            queue = queues.get(machine, [])
            while queue and queue[0][0] <= line.start_s:
                free_s[machine] = max(free_s.get(machine, 0.0), heappop(queue)[1])
            if machine in free_s:
                waits.append(free_s[machine])
            start_s = max(waits) if waits else max(0.0, line.start_s - now_s)
            ends_s[task] = start_s + line.finish_s - line.start_s
        if compiled.kind[task] == COMPUTE:
            heappush(queues.setdefault(machine, []), (line.finish_s, ends_s[task]))
    return ends_s


def _wait_for_unplanned_s(
    run: RunState, progress: ExecutionProgress, waiting: Sequence[int], rest_s: Mapping[int, float]
) -> dict[int, float]:
    """Return, by task that has not begun, the seconds until the running tasks without plan lines have ended.

    Only running tasks that the task waits for count: its predecessors, and those that hold nodes of its
    machine that it needs. ``rest_s`` holds the remaining seconds of the running tasks.
    """
    if not rest_s or run.plan is None:
        return {}
    state, lines = progress.state, run.plan.planned_tasks
    by_machine: dict[int, list[int]] = {}
    for task in waiting:
        if run.compiled.group[task] >= 0:
            by_machine.setdefault(lines[task].machine, []).append(task)
    found: dict[int, float] = {}
    for task, left_s in rest_s.items():
        attempt = state.attempts[run.attempt_of[task]]
        machine = state.machines[attempt.machine]
        behind = [*run.compiled.after(task)]
        if attempt.holds and machine.counts_nodes:
            free = machine.nodes - attempt.nodes
            behind += [
                other
                for other in by_machine.get(attempt.machine, ())
                if run.compiled.options(other).nodes.get((attempt.machine, lines[other].count), 0) > free
            ]
        for other in behind:
            found[other] = max(left_s, found.get(other, 0.0))
    return found


def _key(run: RunState, task: int) -> tuple[int, str]:
    return run.index, run.compiled.description(task).program


def _untimed_paces(run: RunState, progress: ExecutionProgress) -> dict[tuple[int, str], Iterable[float]]:
    """Return the paces of tasks without a stated time, by kind; see the module's docstring."""
    projected: dict[tuple[int, str], list[float]] = {}
    for number in progress.history.running:
        attempt = progress.state.attempts.get(number)
        if attempt is None or attempt.run != run.index or not run.compiled.is_untimed(attempt.task):
            continue
        if (pace := _projected_pace(progress, attempt)) is not None:
            projected.setdefault(_key(run, attempt.task), []).append(pace)
    return {**projected, **progress.untimed}


def _projected_pace(progress: ExecutionProgress, attempt: Attempt) -> float | None:
    """Return the pace of a running attempt that has reported progress; None: it has not."""
    began_s, whole = progress.began_s(attempt.number), 1.0 - attempt.restart_from
    if began_s is None or attempt.work_done is None or attempt.reported_s is None or attempt.seconds <= 0.0:
        return None
    if (done := attempt.work_done - attempt.restart_from) <= 0.0 or attempt.reported_s <= began_s:
        return None
    speed = progress.state.machines[attempt.machine].speed_factor
    return (attempt.reported_s - began_s) * whole / done * speed / attempt.seconds


def _mean_pace(
    run: RunState,
    progress: ExecutionProgress,
    expected_s: Mapping[int, float],
    untimed: Sequence[bool],
    untimed_paces: Mapping[tuple[int, str], Iterable[float]],
    promise: Promise | None,
) -> _Pace:
    """Return the mean pace that unfinished tasks are expected to have, weighted by their ``expected_s``."""
    weights: dict[tuple[int, str], float] = {}
    stated_s = 0.0
    for task, seconds in expected_s.items():
        if untimed[task]:
            key = _key(run, task)
            weights[key] = weights.get(key, 0.0) + seconds
        else:
            stated_s += seconds
    paces = [(seconds, _measured_pace(untimed_paces[key])) for key, seconds in weights.items()]
    if stated_s > 0.0 or not paces:
        paces.append((max(stated_s, 1e-9), _stated_pace(progress.paces.get(run.index, ()), promise)))
    whole = sum(weight for weight, _ in paces) or 1.0
    usual = sum(weight * pace[0] for weight, pace in paces) / whole
    late = [weight * pace[1] for weight, pace in paces if pace[1] is not None]
    return usual, sum(late) / whole if len(late) == len(paces) else None


def _stated_pace(measured: Iterable[float], promise: Promise | None) -> _Pace:
    """Return the pace of tasks with a stated time: from ``measured`` if not empty, else from the promise."""
    usual, slow = 1.0, None
    if promise is not None and promise.p50_s is not None and promise.planned_s > 0.0:
        usual = promise.p50_s / promise.planned_s
        slow = None if promise.p90_s is None else promise.p90_s / promise.planned_s
    if not (found := list(measured)):
        return usual, slow
    middle, late = _measured_pace(found)
    return middle, middle * slow / usual if late is None and slow is not None else late


def _measured_pace(paces: Iterable[float]) -> _Pace:
    """Return median and 90 % quantile of measured paces; the quantile is None for a single value."""
    found = np.array(list(paces))
    usual, slow = np.quantile(found, [0.5, 0.9]).tolist()
    return max(_MINIMAL_PACE, usual), max(_MINIMAL_PACE, slow) if len(found) > 1 else None


def _further_s(run: RunState, lines: dict[int, PlanLine]) -> float | None:
    """Return the seconds of the expected loop iterations that the plan does not contain; None if unknown."""
    total_s = 0.0
    for declared in run.compiled.graph.loops:
        counts = [_to_come(run, body) for body in run.loops.bodies if body.loop.name == declared.loop.name]
        more = [each[0] for each in counts if each is not None]
        if len(more) < len(counts):
            return None
        found = [lines[task] for task in declared.tasks.tolist() if task in lines]
        if found:
            span_s = max(line.finish_s for line in found) - min(line.start_s for line in found)
            total_s += max(more, default=0) * span_s
    return total_s


def _to_come(run: RunState, body: LoopState) -> tuple[int, int] | None:
    """Return (unplanned, all) remaining iterations of a loop; None if their number is unknown.

    In every remaining iteration of an outer loop, the first iteration of the inner loop counts as planned.
    """
    around = [each for each in run.loops.bodies if body.index in each.inner]
    outer = 0
    if around:
        if (found := _to_come(run, min(around, key=lambda each: len(each.tasks)))) is None:
            return None
        outer = found[1]
    if body.left and not outer:
        return 0, 0
    expect = next(each.expect for each in run.compiled.graph.loops if each.loop.name == body.loop.name)
    if expect is None or (not body.left and body.iteration > expect):
        return None
    now = 0 if body.left else expect - body.iteration
    return now + outer * (expect - 1), now + outer * expect


def _attempt_left_s(progress: ExecutionProgress, attempt: Attempt, now_s: float, pace: float) -> float:
    """Return the remaining estimated seconds of an attempt on its machine, not multiplied by ``pace``.

    The machine may differ from the planned one, and the attempt may have begun with restart files. If the
    program has ended, the result is the time until the copy of its outputs is tried again; the duration of
    the copy is unknown.
    """
    state = progress.state
    if state.runs[attempt.run].state[attempt.task] == TaskState.EPILOG:
        again_s = state.timers.get(TimerKind.STAGE_OUT.name_of(attempt.number), now_s)
        return max(0.0, again_s - now_s) / max(1e-9, pace)
    speed = state.machines[attempt.machine].speed_factor
    began_s, whole = progress.began_s(attempt.number), 1.0 - attempt.restart_from
    if began_s is None:
        return attempt.seconds / speed
    until_s = now_s if attempt.suspended_since_s is None else attempt.suspended_since_s
    rate = speed / max(1e-9, attempt.seconds * pace)
    if attempt.work_done is not None and whole > 0.0:
        share = (attempt.work_done - attempt.restart_from) / whole
        share += _unreported_s(attempt, until_s) * rate
    else:
        share = (until_s - began_s) * rate
    return (1.0 - min(1.0, max(0.0, share))) * attempt.seconds / speed


def _unreported_s(attempt: Attempt, until_s: float) -> float:
    """Return the seconds since the last progress report, limited to the interval between two reports.

    The limit is needed because a program whose next report is overdue may have stopped working.
    """
    passed_s = 0.0 if attempt.reported_s is None else max(0.0, until_s - attempt.reported_s)
    return passed_s if attempt.reports_every_s is None else min(passed_s, attempt.reports_every_s)
