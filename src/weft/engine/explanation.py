"""Explain why a task is in its state at a given time of a journal.

The journal is applied up to that time. The history of the task (``story``) consists of the events and
commands about it. The conditions and estimates behind its last placement are recomputed from the state just
before the Assign command of that placement.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from weft.engine import messages
from weft.engine.engine import Engine
from weft.engine.history import AttemptRecord, History, describe_strays
from weft.engine.journal import JournalEntry, note_fields
from weft.engine.messages import Assign
from weft.engine.ranking import accepts_machine, find_requirement
from weft.engine.reactions.failures import requests_rerun
from weft.engine.replay import apply_entry, rebuild, refuse_damage
from weft.engine.selection import avoids_machine, may_use
from weft.engine.state.machines import HostSilence, MachineState
from weft.engine.state.plan import StoredPlan
from weft.engine.state.run import RunState
from weft.engine.state.state import STATE_UNKNOWN, EngineState
from weft.engine.states import (
    FINAL,
    UNKNOWN_SHARE,
    Admission,
    Attempt,
    Cause,
    Stage,
    TaskState,
    describe_restart,
    format_counters,
)
from weft.engine.transitions import absorb, enact
from weft.engine.view import EngineView
from weft.errors import InvalidInput, nearest
from weft.instance.candidates import list_conditions, negate_condition
from weft.instance.instance import mark_untimed_tasks
from weft.records import dataclass
from weft.units import format_bytes, format_count, format_seconds
from weft.workflow.task_graph import COMPUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition that a machine must meet to run a task."""

    name: str
    """One of ``demands``, ``up``, ``admission``, ``listed``, ``access``, ``state``, ``bound``,
    ``failures``, ``requirements``, ``application``, ``shared``, ``capacity``."""
    holds: bool
    text: str
    """The condition and its current value, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateMode:
    """One mode (machine and node count) of a task, with estimates."""

    count: int
    nodes: int
    seconds: float
    data_ready_s: float
    finish_s: float
    free: bool
    """Whether the task could have started in this mode at once."""
    assumed: bool = False
    """Whether the seconds are a placeholder because the task has no stated time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One machine with the conditions that it meets or fails."""

    machine: str
    conditions: tuple[Condition, ...]
    options: tuple[CandidateMode, ...] = ()
    """Modes of the task on this machine, by node count.

    Empty if a condition other than ``capacity`` fails.
    """
    rank: float | None = None
    """Value of the task's ranking expression for the machine; None: the task has no such expression."""

    @property
    def possible(self) -> bool:
        """Return whether the task could have started on this machine at once."""
        return all(condition.holds for condition in self.conditions)

    @property
    def refusals(self) -> tuple[Condition, ...]:
        """Return the conditions that the machine does not meet."""
        return tuple(condition for condition in self.conditions if not condition.holds)

    def as_record(self) -> dict[str, Any]:
        """Return the candidate as plain data."""
        return asdict(self) | {"possible": self.possible}


def _judge_candidates(state: EngineState, run: RunState, task: int) -> list[Candidate]:
    """Return, for every machine, which conditions of a task it meets now."""
    view = EngineView(state)
    compute = run.compiled.kind[task] == COMPUTE
    demands = list_conditions(run.instance, task) if compute else []
    if compute and run.compiled.template(task) in run.compiled.live_requirements:
        # ``list_conditions`` assumes idle machines; here the current state decides.
        stated = f"requirements {run.compiled.description(task).requirements}"
        demands = [(text, met) for text, met in demands if text != stated]
    found = []
    for machine in state.machines:
        conditions = [
            Condition(name="demands", holds=holds, text=text if holds else negate_condition(text))
            for text, met in demands
            for holds in (met[machine.index],)
        ]
        conditions += _list_current_conditions(state, run, task, machine)
        options: tuple[CandidateMode, ...] = ()
        if all(condition.holds for condition in conditions):
            options = tuple(_list_modes(state, view, run, task, machine.index))
            conditions.append(_check_capacity(state, run, task, machine, options))
        rank = view.rank(view.run(run.index), task, machine.index)
        found.append(
            Candidate(machine=machine.name, conditions=tuple(conditions), options=options, rank=rank)
        )
    return found


def _list_modes(
    state: EngineState, view: EngineView, run: RunState, task: int, machine: int
) -> Iterator[CandidateMode]:
    compiled = run.compiled
    compute = compiled.kind[task] == COMPUTE
    kept = bool(state.machines[machine].awaited_by)
    assumed = compute and bool(mark_untimed_tasks(run.instance)[task])
    for count in compiled.options(task).counts.get(machine, ()) if compute else (0,):
        if (mode := view.mode(view.run(run.index), task, machine, count)) is None:
            continue
        demand = run.demand(task, machine, count) if compute and compiled.demands else ()
        yield CandidateMode(
            count=mode.count,
            nodes=mode.nodes,
            seconds=mode.seconds,
            data_ready_s=mode.ready_s,
            finish_s=mode.finish_s,
            free=not compute or (not kept and state.machines.fits(machine, mode.nodes, demand)),
            assumed=assumed,
        )


def _list_current_conditions(
    state: EngineState, run: RunState, task: int, machine: MachineState
) -> Iterator[Condition]:
    """Yield those conditions for running a task on a machine that can change during a run."""
    down = f"is lost: {machine.reason}" if machine.reason else "is down"
    up = "is up" if machine.silence is None else f"is not lost, but {describe_silence(machine.silence)}"
    yield Condition(name="up", holds=machine.up, text=up if machine.up else down)
    settings, index, inquiries = state.settings, machine.index, state.inquiries
    if machine.admission != Admission.OPEN:
        yield Condition(name="admission", holds=False, text=state.obstacle(index))
    if settings.discover_every_s is not None or inquiries.listed is not None:
        listed = inquiries.listed is not None and index in inquiries.listed
        text = f"the information service {'lists' if listed else 'does not list'} it"
        yield Condition(name="listed", holds=listed, text=text)
    if settings.authorise or index in inquiries.access:
        allowed = inquiries.access.get(index, False)
        answer = "granted" if allowed else "refused" if index in inquiries.access else "not granted yet"
        yield Condition(name="access", holds=allowed, text=f"access is {answer}")
    if inquiries.measures_every_s is not None:
        unknown = state.obstacle(index) == STATE_UNKNOWN
        text = STATE_UNKNOWN if unknown else "its state is known"
        yield Condition(name="state", holds=not unknown, text=text)
    variable = run.compiled.variable[task]
    if (bound := run.binding.get(variable)) is not None:
        name = run.compiled.graph.variables[variable]
        text = f"{name!r} is bound to {state.machines[bound].label}"
        yield Condition(name="bound", holds=bound == machine.index, text=text)
    if run.facts and avoids_machine(state, run, task, index):
        yield Condition(name="failures", holds=False, text="the task failed there")
    order = run.facts_of(task).order
    if order is not None and index not in order:
        text = f"its selector {run.compiled.selector(task)} does not accept it"
        yield Condition(name="selector", holds=False, text=text)
    changed = run.facts_of(task).requirements
    if changed is not None and changed[0]:
        holds = accepts_machine(state, run, task, machine.index)
        text = f"the running application demands {changed[0]}"
        yield Condition(name="application", holds=holds, text=text)
    elif stated := find_requirement(run, task):
        holds = accepts_machine(state, run, task, machine.index)
        text = f"{'meets' if holds else 'does not meet'} the requirements {stated} now"
        yield Condition(name="requirements", holds=holds, text=text)


def _check_capacity(
    state: EngineState, run: RunState, task: int, machine: MachineState, options: tuple[CandidateMode, ...]
) -> Condition:
    if any(option.free for option in options):
        return Condition(name="capacity", holds=True, text="nodes and resources are free")
    if machine.awaited_by:
        first = state.attempts[next(iter(machine.awaited_by))]
        moved = state.runs[first.run].name(first.task)
        text = f"its next free nodes are kept for {moved}, which the user moves there"
        return Condition(name="capacity", holds=False, text=text)
    if not may_use(run, task, machine.index):
        text = "another task of the same abstract machine cannot use it"
        return Condition(name="shared", holds=False, text=text)
    least = min(options, key=lambda option: option.nodes, default=None)
    if least is None:
        text = "it is too small for what the task needs now"
    elif machine.free_nodes < least.nodes and machine.counts_nodes:
        free_s = format_seconds(machine.free_at_s(least.nodes, state.attempts, state.now))
        text = (
            f"{machine.free_nodes} of {machine.nodes} nodes are free, the task needs {least.nodes} "
            f"(expected at {free_s})"
        )
    else:
        needed = run.demand(task, machine.index, least.count)
        left = ", ".join(
            f"{name} {machine.amounts[name]:g} of {amount:g}"
            for name, amount in needed
            if name in machine.amounts
        )
        text = f"not enough resources are free ({left})"
    return Condition(name="capacity", holds=False, text=text)


_SHOWN_RECORDS = (
    messages.Refuse,
    messages.ReportModule,
    messages.ReportLateCancel,
)
"""The record commands (``messages.Record``) that are shown in the history of a task."""


@dataclass(frozen=True, slots=True)
class _MessageText:
    """Convert messages to texts for the history of a task; attempts are numbered per task, from 1."""

    state: EngineState
    history: History
    name_source: Callable[[AttemptRecord], str]

    def describe(self, message: messages.Event | messages.Command) -> str:
        """Return a text about a message for the task's history; "": the history does not show the message."""
        match message:
            case messages.Started():
                return "its program started"
            case messages.Ended(attempt=number, taken_over=int()):
                return f"its outputs were reused from {self.name_source(self.history.attempts[number])}"
            case messages.Ended(story=story) as ended if story and requests_rerun(ended):
                return f"its program was ended: {story}"
            case messages.Ended(cause=Cause.PROLOG):
                return "its prolog failed, so its program did not start"
            case messages.Ended(cause=Cause.STAGING) as ended:
                # Only an attempt whose inputs could not be staged states these fields. Without them, staging
                # may also have failed after the program.
                unstarted = ended.lasting or ended.lost
                return f"staging failed{', so its program did not start' if unstarted else ''}"
            case messages.Ended(exit_code=code, cause=cause, strays=strays):
                why = cause or ("no exit code" if code is None else f"exit code {code}")
                left = f"; weft {describe_strays(strays)}" if strays else ""
                # A finished program states why the earlier result of its task was not reused.
                stale = message.story if not cause and message.work_done == 1.0 else ""
                return f"its program ended: {why}{left}{f'; it ran because {stale}' if stale else ''}"
            case messages.StagedIn():
                return self._describe_arrival(message)
            case messages.Checkpointed(work_done=None):
                return ""  # the reason is in the record that follows
            case messages.Checkpointed(work_done=done):
                share = f" at {done:.0%} of the work" if done and done > UNKNOWN_SHARE else ""
                return f"it wrote restart files{share}"
            case messages.JobQueued(job=job):
                return f"it is job {job} of the batch system"
            case messages.StartDelayed(reason=reason):
                return f"it waits: {reason}"
            case messages.Suspended():
                return "it was suspended"
            case messages.Resumed():
                return "it was resumed"
            case messages.RequirementsChanged(requirements=requirement, rank=rank):
                named = (("requirement", requirement), ("rank", rank))
                said = [f"{name} {text or 'none'}" for name, text in named if text is not None]
                return f"it changed its requirements: {', '.join(said)}" if said else ""
            case messages.Progressed(work_done=done) if done is not None:
                return f"it reported {done:.0%} of the work"
            case _:
                return self._describe_command(message)

    def _describe_arrival(self, event: messages.StagedIn) -> str:
        attempt = self.history.attempts[event.attempt]
        if event.problem:
            return f"{f'its {event.module}' if event.module else 'staging in'} failed: {event.problem}"
        if event.taken_over is not None:
            return f"its copy was reused from {self.name_source(attempt)}"
        if attempt.is_transfer and attempt.moved_from == attempt.machine and not event.moved_bytes:
            return "its file was there already: nothing was copied"
        route = f", {event.route}" if event.route else ""
        copied = f" ({format_bytes(event.moved_bytes)} copied{route})" if event.moved_bytes else ""
        return f"its {'file' if attempt.is_transfer else 'input data'} arrived{copied}"

    def _describe_command(self, command: messages.Event | messages.Command) -> str:
        match command:
            case messages.Assign():
                machine = self.state.machines[command.machine].label
                how = "bound to" if command.reserve else "sent to the queue of"
                if command.replaces is not None:
                    how = self._describe_move(command)
                again = "it had failed there before" if self._has_failed_there(command) else ""
                reasons = "; ".join(filter(None, (command.reason, again)))
                why = f" ({reasons})" if reasons else ""
                saved = f", {where}" if (where := describe_restart(command.restart_from)) else ""
                return f"{self._attempt(command.attempt)}: {how} {machine}{why}{saved}"
            case messages.StageIn(parcels=parcels) if self.history.attempts[command.attempt].is_transfer:
                source = parcels[0].source
                if source == command.machine:
                    return ""  # nothing is copied within one machine
                return f"copying of its file from {self.state.machines[source].label} was requested"
            case messages.StageIn(parcels=parcels, prolog=prolog):
                copied = f"copying of its input data was requested ({format_count(len(parcels), 'part')})"
                return f"{copied}, then its own prolog" if prolog else copied
            case messages.Start(attempt=number):
                if self.history.attempts[number].reused_from is not None:
                    return ""  # no program was submitted
                return f"{self._attempt(number)}: submitted to {self.state.machines[command.machine].label}"
            case messages.Cancel(reason=reason):
                return f"{self._attempt(command.attempt)} was cancelled: {reason}"
            case messages.Settle():
                why = f": {command.reason}" if command.reason else ""
                word = "held" if command.state == TaskState.STOPPED else command.state.name.lower()
                return f"it became {word}{why}"
            case messages.RevertMigration():
                return "its migration was called off"
            case messages.ReattachJob():
                return "its runner did not respond, but its machine did: the runner was reconnected"
            case messages.CleanUp():
                return f"{self._attempt(command.attempt)}: removal of its files was requested"
            case messages.ReportViolation(ratio=ratio, reason=reason):
                late = "" if ratio is None else f": projected to take {1.0 + ratio:.2f} times its estimate"
                return f"it violates its contract{late}{f': {reason}' if reason else ''}"
            case messages.KeepAttempt(reason=reason):
                return f"it stays on its machine: {reason}"
            case messages.IgnoreRequirement(reason=reason):
                return f"it wrote a file that is {reason}"
            case messages.AwaitMachine(reason=reason) | messages.PostponeStaging(reason=reason):
                return reason
            case _ if isinstance(command, _SHOWN_RECORDS) and (note := note_fields(command)) is not None:
                value = "" if note.value is None else f" ({note.value:.2f})"
                return f"{note.kind}{value}{': ' if note.text else ''}{note.text}"
            case _:
                return ""

    def _has_failed_there(self, command: messages.Assign) -> bool:
        """Return whether an earlier attempt of the task has failed on the machine of this assignment."""
        tried = self.history.attempts
        task = tried[command.attempt].task
        return any(
            (each.run, each.task) == (command.run, task)
            and 0 <= each.attempt < command.attempt
            and tried[each.attempt].machine == command.machine
            for each in self.history.failures
        )

    def _describe_move(self, command: messages.Assign) -> str:
        """Return how an assignment replaces an earlier attempt; the name of the machine follows the text."""
        if (move := self.history.find_move(command.attempt)) is None:
            return "assigned again to"
        source = self.state.machines[move.source].name
        if move.ran:
            return f"{'migrates' if move.happened else 'is to migrate'} from {source} to"
        return f"had not started on {source}, assigned to"

    def _attempt(self, number: int) -> str:
        return f"attempt {self.history.attempts[number].task_attempt}"


def _name_execution(attempt: AttemptRecord) -> str:
    return f"execution {attempt.reused_from}"


_MAX_NAMED = 4
"""Maximal number of names that a text lists; the other names are only counted."""

_MAX_TASKS = 100
"""Maximal number of tasks of a stalled run that are examined."""


def _list_wait_reasons(state: EngineState, run: RunState, task: int) -> list[str]:
    """Return what a task waits for, as texts; the list is empty if the task waits for nothing."""
    match TaskState(run.state[task]):
        case TaskState.WAITING:
            return _describe_predecessors(run, task)
        case TaskState.READY:
            return _describe_selector(run, task) or _describe_machines(state, run, task)
        case TaskState.HELD:
            waits = _describe_predecessors(run, task) if run.missing[task] else []
            return ["a user to release it", *waits]
        case TaskState.STOPPED:
            return ["the user to resume it: its retries are used up"]
        case TaskState.SUSPENDED:
            return ["the machine to resume it"]
        case _:
            attempt = state.attempt_of(run, task)
            return [] if attempt is None else _describe_attempt(state, run, attempt)


def _describe_selector(run: RunState, task: int) -> list[str]:
    facts = run.facts_of(task)
    if facts.order == ():
        return [f"its selector {run.compiled.selector(task)}, which accepts no machine now"]
    return [f"the answer of its selector {run.compiled.selector(task)}"] if facts.order_wanted else []


def describe_unplaceable(state: EngineState, run: RunState) -> str:
    """Return a text about the first ready task whose selector or requirement accepts no machine.

    "": there is no such task. At most ``_MAX_TASKS`` ready tasks are examined.
    """
    if not (run.compiled.live_requirements or run.facts):
        return ""
    for task in islice(run.ready, _MAX_TASKS):
        if run.facts_of(task).order == ():
            return f"{run.name(task)} waits for {_describe_selector(run, task)[0]}"
        text = find_requirement(run, task)
        if text and not any(
            accepts_machine(state, run, task, machine) for machine in run.compiled.options(task).counts
        ):
            return f"{run.name(task)} waits for a machine that meets {text}"
    return ""


def _describe_predecessors(run: RunState, task: int) -> list[str]:
    found = []
    for predecessor in run.compiled.before(task):
        held = run.loops.held_back_by(predecessor, task)
        if run.state[predecessor] not in FINAL:
            found.append(f"{run.name(predecessor)}, which is {_state_word(run, predecessor)}")
        elif held is not None and not run.loops.bodies[held].left:
            body = run.loops.bodies[held]
            found.append(f"loop {body.loop.name}, which is in iteration {body.iteration}")
    return _shorten_list(list(dict.fromkeys(found)))


def _describe_machines(state: EngineState, run: RunState, task: int) -> list[str]:
    """Return why no machine can run a ready task, or that the policy has not placed the task yet."""
    if run.planned and run.plan is None:
        return ["a plan"] if run.plan_wanted else ["a plan, which could not be made"]
    judged = _judge_candidates(state, run, task)
    if any(candidate.possible for candidate in judged):
        names = ", ".join(candidate.machine for candidate in judged if candidate.possible)
        return [f"the policy's decision: nodes are free on {names}"]
    reasons: dict[str, list[str]] = {}
    for candidate in judged:
        reasons.setdefault(candidate.refusals[0].text, []).append(candidate.machine)
    return [f"a machine: {', '.join(_shorten_list(names))}: {text}" for text, names in reasons.items()]


class Reservation(NamedTuple):
    """A task that the user moves to a busy machine, and that waits for nodes of this machine."""

    run: int
    task: str
    """Name of the task, with its iterations."""
    attempt: int
    machine: str
    nodes: int

    @property
    def needed(self) -> str:
        """Return the nodes for which the task waits, as text."""
        return f"{format_count(self.nodes, 'free node')} of {self.machine}"

    @property
    def text(self) -> str:
        """Return a line about the reservation."""
        return f"{self.task} waits for {self.needed}, to which the user moves it"


def list_reservations(state: EngineState, run: int | None = None) -> list[Reservation]:
    """Return the reservations of a run in the order of its attempts; None: of all runs."""
    waiting = [each for each in state.attempts.values() if each.awaited_machine is not None]
    return [_find_reservation(state, each) for each in waiting if run in (None, each.run)]


def _find_reservation(state: EngineState, attempt: Attempt) -> Reservation:
    run, machine = state.runs[attempt.run], attempt.awaited_machine
    assert machine is not None
    nodes = run.compiled.options(attempt.task).nodes[machine, attempt.awaited_count]
    label = run.name(attempt.task)
    return Reservation(attempt.run, label, attempt.number, state.machines[machine].name, nodes)


def describe_silence(silence: HostSilence, moment: Callable[[float], str] | None = None) -> str:
    """Return since when a host has not answered and when it counts as lost, to follow its name.

    ``moment`` returns a time of the engine as text (default: seconds since the start of the run).
    """
    show = moment or (lambda at_s: f"{format_seconds(round(at_s))} of the run")
    why = f" ({silence.reason})" if silence.reason else ""
    lost_at_s = silence.lost_at_s
    then = "does not become lost by that" if lost_at_s is None else f"counts as lost at {show(lost_at_s)}"
    return f"has not answered since {show(silence.since_s)}{why}: its tasks are unknown; it {then}"


def _describe_attempt(state: EngineState, run: RunState, attempt: Attempt) -> list[str]:
    found = _describe_stage(state, run, attempt)
    machine = state.machines[attempt.machine]
    if machine.silence is not None and attempt.stage != Stage.CLEANING:
        found.append(f"an answer of {machine.label}, which {describe_silence(machine.silence)}")
    if attempt.awaited_machine is not None:
        found.insert(0, f"{_find_reservation(state, attempt).needed}, to which the user moves it")
    return found


def _describe_stage(state: EngineState, run: RunState, attempt: Attempt) -> list[str]:
    if attempt.stage in (Stage.SUBMITTED, Stage.STAGING_OUT):
        where = state.machines[attempt.machine].label
        what = "start it" if attempt.stage == Stage.SUBMITTED else "copy its outputs to their targets"
        return [f"{where} to {what}"]
    if attempt.stage == Stage.ENDED and run.state[attempt.task] == TaskState.EPILOG:
        return ["the next try to copy its outputs to their targets"]
    if attempt.stage != Stage.ASSIGNED:
        return []
    machine = state.machines[attempt.machine]
    found = []
    if (old := state.find_attempt(attempt.replaces)) is not None:
        found.append(f"its earlier attempt on {state.machines[old.machine].label} to end")
    if run.missing[attempt.task]:
        found += _describe_predecessors(run, attempt.task)
    if attempt.staging:
        found.append(f"input data that are being copied to {machine.label}")
    if not found and attempt.queued:
        before = sum(1 for turn in machine.queue if turn < attempt.turn)
        free = f"{machine.free_nodes} of {machine.nodes} nodes are free, the task needs {attempt.nodes}"
        found.append(f"its turn on {machine.label}: {before} attempts are before it in the queue, {free}")
    return found


def describe_standstill(state: EngineState, numbers: Mapping[int, int] = MappingProxyType({})) -> list[str]:
    """Return lines that say what the tasks of each active run wait for; used if no event can occur.

    ``numbers``: by run index, the run number shown to users (default: the index).
    """
    return [
        f"run {numbers.get(run.index, run.index)}: {line}"
        for run in state.active.values()
        for line in describe_stalled_run(state, run)
    ]


def describe_stalled_run(state: EngineState, run: RunState) -> Iterator[str]:
    """Yield lines that say what the unfinished tasks of a run wait for."""
    left = [task for task, value in enumerate(run.state) if value not in FINAL]
    # Tasks that wait for predecessors do not explain a standstill; list them only if there are no others.
    stuck = [task for task in left if run.state[task] != TaskState.WAITING] or left
    groups: dict[tuple[str, str], list[str]] = {}
    for task in stuck[:_MAX_TASKS]:
        reasons = "; ".join(_list_wait_reasons(state, run, task)) or "an unknown cause"
        groups.setdefault((_state_word(run, task), reasons), []).append(run.name(task))
    for (word, reasons), names in groups.items():
        wait = "waits" if len(names) == 1 else "wait"
        yield f"{', '.join(_shorten_list(names))} ({word}) {wait} for {reasons}"
    rest = len(left) - min(len(stuck), _MAX_TASKS)
    if rest:
        yield f"{format_count(rest, 'more task')} not ended"


def _state_word(run: RunState, task: int) -> str:
    return describe_state(TaskState(run.state[task]).name.lower())


_STATE_WORDS = {"prolog": "preparing its inputs", "epilog": "copying its outputs"}
"""Words for the states PROLOG and EPILOG, because most tasks have no prolog or epilog program."""


def describe_state(name: str) -> str:
    """Return words for a task's state that can follow "is" in a sentence; ``name``: name of the state."""
    return _STATE_WORDS.get(name, name)


def _shorten_list(names: list[str]) -> list[str]:
    rest = len(names) - _MAX_NAMED
    return [*names[:_MAX_NAMED], f"{rest} more"] if rest > 1 else names


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationStep:
    """One event or decision in the history of a task."""

    entry: int
    now: float
    text: str
    routine: bool = False
    """Whether this step is a progress report or a checkpoint; a task may have very many of these."""
    migration: bool = False
    """Whether this step assigns the task to another machine than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """The last assignment of the explained task to a machine."""

    entry: int
    now: float
    attempt: int
    machine: str
    nodes: int
    count: int
    by: str
    """The policy that chose the machine, or the reason for the migration."""
    queued: bool
    """Whether the attempt was put into the machine's queue and did not start at once."""
    ahead: int
    """If the attempt was queued: the number of attempts that were before it in the queue."""
    candidates: tuple[Candidate, ...]
    """Machines with the conditions and estimates that held just before the assignment.

    They are all machines except ``left``. For a migration, the old attempt counts as gone from its machine.
    """
    left: str = ""
    """Machine that the task leaves for another one; "": it leaves none."""
    ran: bool = False
    """Whether the task had started before this assignment, so that it migrates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The state of a task with the decisions and conditions that led to it."""

    run: int
    workflow: str
    task: str
    iteration: int
    counters: tuple[int, ...]
    """Iterations of all loops around the task, outermost first."""
    at_s: float
    state: str
    waits_for: tuple[str, ...]
    choice: PlacementChoice | None
    candidates: tuple[Candidate, ...]
    """All machines with their current conditions if the task has no machine; otherwise empty."""
    story: tuple[ExplanationStep, ...]

    def as_record(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        record = asdict(self)
        record["candidates"] = [candidate.as_record() for candidate in self.candidates]
        if self.choice is not None:
            record["choice"]["candidates"] = [each.as_record() for each in self.choice.candidates]
        return record


def explain(
    fresh: Callable[[], Engine],
    entries: Sequence[JournalEntry],
    plans: Mapping[str, StoredPlan],
    task: str,
    *,
    run: int = 0,
    number: int | None = None,
    at_s: float = math.inf,
    rebuilt: Callable[[int], Engine] | None = None,
    name_source: Callable[[AttemptRecord], str] | None = None,
) -> Explanation:
    """Return why a task of a run is in its state at time ``at_s`` of a journal.

    ``task`` may name an iteration, such as ``solve#2`` or, in nested loops, ``solve#2.1``. ``run`` is the
    index of the run in the journal, ``number`` the run number shown to users (default: the index). ``fresh``
    creates an engine with the settings of the journal. ``rebuilt(n)``, if given, returns an engine in the
    state after the first n entries, for example from a snapshot; without ``rebuilt`` the entries are applied
    again. If an attempt reused outputs, ``name_source`` returns the name of the execution that produced them
    (default: the word "execution" and its number).
    """
    shown = run if number is None else number
    engine, history = fresh(), History()
    engine.state.plans.update(plans)
    past = [entry for entry in entries if entry.now <= at_s]
    collected = _TaskMessages(run, task, history)
    for entry in past:
        apply_entry(engine, entry, history.take, collected.add)
    there = _find_run(engine, run, shown)
    if (found := find_iteration(there, task)) is None:
        raise _unknown_task(there, task, shown)
    position, counters = found
    chosen = collected.select(there.compiled.names[position], counters)
    current = there.loops.counters(position)
    is_over = counters is not None and counters != current
    if is_over and not chosen:
        raise missing_iteration(there, position, task)
    choice = None
    if placed := [each for each in chosen if isinstance(each.message, Assign)]:
        index = placed[-1].entry
        before = rebuild(fresh(), past[:index], plans) if rebuilt is None else rebuilt(index)
        choice = _reconstruct_choice(before, past[index], placed[-1].position)
    describe = _MessageText(engine.state, history, name_source or _name_execution).describe
    story: list[ExplanationStep] = []
    for each in chosen:
        entry = past[each.entry]
        with refuse_damage(entry):
            text = describe(each.message)
        if text:
            story.append(
                ExplanationStep(
                    entry=entry.sequence,
                    now=entry.now,
                    text=text,
                    routine=isinstance(each.message, messages.Progressed | messages.Checkpointed),
                    migration=isinstance(each.message, Assign)
                    and history.find_move(each.message.attempt) is not None,
                )
            )
    state = _last_state(chosen) if is_over else TaskState(there.state[position])
    waiting = not is_over and state in (TaskState.READY, TaskState.WAITING, TaskState.HELD)
    waits = [] if is_over or state in FINAL else _list_wait_reasons(engine.state, there, position)
    if waiting and state == TaskState.HELD:
        waits[0] += _describe_hold(there.name(position), chosen, past)
    shown_counters = counters or current
    return Explanation(
        run=shown,
        workflow=there.compiled.key,
        task=there.compiled.names[position],
        iteration=shown_counters[-1] if shown_counters else 1,
        counters=shown_counters,
        at_s=engine.state.now if math.isinf(at_s) else at_s,
        state=state.name.lower(),
        waits_for=tuple(waits),
        choice=choice,
        candidates=tuple(_judge_candidates(engine.state, there, position)) if waiting else (),
        story=tuple(story),
    )


class _TaskMessage(NamedTuple):
    """A message about a task and its place in the journal."""

    task: str
    counters: tuple[int, ...]
    """Iterations of the loops around the task at the time of the message, outermost first."""
    entry: int
    """Index of the journal entry."""
    position: int
    """Index of the command in its entry; -1: the message is the event of the entry."""
    message: messages.Event | messages.Command


class _TaskMessages:
    """Collects the messages about one task of a run; the task's name may include an iteration."""

    def __init__(self, run: int, task: str, history: History) -> None:
        self._run = run
        self._names = {task, task.rpartition("#")[0]}
        self._history = history
        self._found: list[_TaskMessage] = []

    def add(self, entry: JournalEntry, state: EngineState) -> None:
        """Add the messages of an entry that name the task.

        Call this after the entry was added to the history and applied to ``state``.
        """
        for position, message in enumerate((entry.event, *entry.commands), start=-1):
            subject = self._history.find_subject(message)
            if subject.run == self._run and subject.task in self._names:
                attempt = self._history.attempts.get(-1 if subject.attempt is None else subject.attempt)
                found = self._find_counters(entry, state, position) if attempt is None else attempt.counters
                place = self._history.entries - 1, position
                self._found.append(_TaskMessage(subject.task or "", found, *place, message))

    def select(self, task: str, counters: tuple[int, ...] | None) -> list[_TaskMessage]:
        """Return the messages about a task in one iteration, or in all iterations if ``counters`` is None."""
        return [each for each in self._found if each.task == task and counters in (None, each.counters)]

    def _find_counters(self, entry: JournalEntry, state: EngineState, position: int) -> tuple[int, ...]:
        """Return the loop iterations that a message refers to if it names a task but no attempt."""
        message = entry.commands[position] if position >= 0 else entry.event
        loops, task = state.runs[self._run].loops, getattr(message, "task", -1)
        around = loops.around.get(task, ())
        is_repeated = any(
            isinstance(later, messages.RepeatLoop) and later.run == self._run and later.body in around
            for later in entry.commands[position + 1 :]
        )
        # The state is that after the entry, in which the next iteration has begun.
        return self._found[-1].counters if is_repeated and self._found else loops.counters(task)


def _last_state(chosen: Sequence[_TaskMessage]) -> TaskState:
    """Return the final state of a task in one iteration, from the messages about that iteration."""
    settled = [each.message.state for each in chosen if isinstance(each.message, messages.Settle)]
    return settled[-1] if settled else TaskState.COMPLETED


def _describe_hold(task: str, chosen: Sequence[_TaskMessage], entries: Sequence[JournalEntry]) -> str:
    """Return how a held task is released, since when it is held, and why; ``chosen``: messages about it."""
    holds = [
        (entries[each.entry].now, each.message.reason)
        for each in chosen
        if isinstance(each.message, messages.Settle) and each.message.state == TaskState.HELD
    ]
    how = f" with `weft release {shlex.quote(task)}`"
    if not holds:
        return how
    now, reason = holds[-1]
    return f"{how}: {reason or 'held'} at {format_seconds(now)}"


def find_iteration(run: RunState, name: str) -> tuple[int, tuple[int, ...] | None] | None:
    """Return the index of the named task, and the loop iterations stated in a name such as ``NAME#2.1``.

    The iterations are None if the name states none. Return None if there is no such task. Raise InvalidInput
    if the iterations do not fit the loops around the task. Whether the iteration has begun is not checked.
    """
    names = run.compiled.names
    if name in names:
        return names.index(name), None
    bare, _, text = name.rpartition("#")
    if bare not in names:
        return None
    task = names.index(bare)
    parts, loops = text.split("."), len(run.loops.around.get(task, ()))
    if not loops:
        raise InvalidInput(f"{name!r} names an iteration", rule=f"{bare!r} is in no loop")
    if len(parts) != loops or not all(part.isascii() and part.isdecimal() for part in parts):
        example = f"{bare}#{format_counters((2,) + (1,) * (loops - 1))}"
        order = ", outermost first" if loops > 1 else ""
        rule = f"{bare!r} is in {format_count(loops, 'loop')}: give one number for each{order}"
        raise InvalidInput(
            f"{text!r} in {name!r} names no iteration", rule=rule, advice=f"for example {example!r}"
        )
    return task, tuple(int(part) for part in parts)


def missing_iteration(run: RunState, task: int, name: str) -> InvalidInput:
    """Return an error that says that an iteration of a task does not exist or has not begun."""
    last = format_counters(run.loops.counters(task))
    so_far = "" if run.ending else " so far"
    return InvalidInput(
        f"there is no iteration {name!r}", rule=f"the last one{so_far} is {run.compiled.names[task]}#{last}"
    )


def _find_run(engine: Engine, run: int, shown: int) -> RunState:
    if run < len(engine.state.runs):
        return engine.state.runs[run]
    count = len(engine.state.runs)
    rule = f"runs 0 to {count - 1} exist at that time" if count else "no run has arrived by that time"
    if shown != run and count:
        rule = "the run had not arrived by that time"
    raise InvalidInput(f"there is no run {shown}", rule=rule)


def _unknown_task(run: RunState, task: str, shown: int) -> InvalidInput:
    close = nearest(task, run.compiled.names)
    points = [name for name in run.compiled.names if name.startswith(f"{task}[")]
    advice = f"did you mean {close!r}?" if close else "`weft show` lists the tasks of a workflow"
    if points:
        advice = f"{task!r} is a sweep of {len(points)} points: name one of them, such as {points[0]!r}"
    return InvalidInput(f"run {shown} ({run.compiled.key}) has no task {task!r}", advice=advice)


def _reconstruct_choice(engine: Engine, entry: JournalEntry, position: int) -> PlacementChoice:
    """Return the assignment made by command number ``position`` of an entry, with all candidate machines.

    ``engine`` must be in the state before the entry; its state is changed.
    """
    state = engine.state
    absorb(state, entry.event, entry.now)
    for command in entry.commands[:position]:
        enact(state, command)
    command = entry.commands[position]
    assert isinstance(command, Assign)
    run = state.runs[command.run]
    old = state.find_attempt(command.replaces)
    left, ran = "", False
    if old is not None:
        left, ran = state.machines[old.machine].name, _has_started(state, old)
        _leave_machine(state, run, old)
    later = entry.commands[position + 1 :]
    starts = any(isinstance(each, messages.Start) and each.attempt == command.attempt for each in later)
    queued = not (command.reserve or starts)
    mine = (math.inf if command.order is None else command.order, command.attempt)
    by, chosen = f"policy {engine.policy.name!r}", state.machines[command.machine].name
    if command.replaces is not None:
        change = "migration" if ran else "reassignment"
        by = f"{change}: {command.reason}" if command.reason else f"{by}, {change}"
    elif command.reason:
        by = f"{by}: {command.reason}"
    by += _describe_order(state, run, command.task)
    return PlacementChoice(
        entry=entry.sequence,
        now=entry.now,
        attempt=command.attempt,
        machine=chosen,
        nodes=command.nodes,
        count=command.count,
        by=by,
        queued=queued,
        ahead=sum(turn < mine for turn in state.machines[command.machine].queue) if queued else 0,
        candidates=tuple(
            each
            for each in _judge_candidates(state, run, command.task)
            if each.machine == chosen or each.machine != left
        ),
        left=left if left != chosen else "",
        ran=ran,
    )


def _describe_order(state: EngineState, run: RunState, task: int) -> str:
    """Return in which order a task's selector program takes the machines; "": there is no such order."""
    facts = run.facts_of(task)
    if not facts.order:
        return ""
    names = ", ".join(_shorten_list([state.machines[machine].label for machine in facts.order]))
    if facts.order_usual:
        return f"; machines by rank and estimated end, since its selector failed: {names}"
    return f"; machines in the order of its selector {run.compiled.selector(task)}: {names}"


def _has_started(state: EngineState, attempt: Attempt | None) -> bool:
    """Return whether an attempt, or one that it replaces, has started its program."""
    while attempt is not None and attempt.started_s is None:
        attempt = state.find_attempt(attempt.replaces)
    return attempt is not None


def _leave_machine(state: EngineState, run: RunState, old: Attempt) -> None:
    """Remove an attempt that another one replaces from its machine, and the binding that the task leaves."""
    state.unqueue(old)
    if old.holds:
        state.release_nodes(old)
    state.stop_waiting(old)
    run.unbind(run.compiled.variable[old.task])
