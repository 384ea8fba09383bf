"""Settings of a run: contracts, migration, failures, probes, planning; every key is declared once.

A layer contains the settings that are stated in one place: values by attribute of ``RunSettings``, without
the attributes that are not stated there. Each layer overrides those before it: the defaults, a preset,
``settings:`` of the workflow, a profile, the task, ``--set``. A preset is a profile that ships with weft.

Every key has a scope. A task may state only keys of scope ``task``; a workflow may state all keys. Keys of
scope ``execution`` concern the machines or the policy, which all workflows of an execution share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from typing import Any

from weft.documents import DocumentNode, Reader, from_python
from weft.errors import InvalidInput
from weft.fields import FLAG, QUANTITY_SHAPE, TEXT, Field, Record, Shape, ValueType, any_of, choice, integer
from weft.records import dataclass
from weft.units import parse_seconds
from weft.workflow.task import CAUSES, DEFAULT_FACTOR, ON_FAILURE, JobSpec, Task
from weft.workflow.workflow import Workflow

SettingsLayer = Mapping[str, Any]
"""The settings that one place states, by attribute of ``RunSettings``."""

DEFAULT_RETRIES: Mapping[str, int] = {
    "error": 0,
    "oom": 1,
    "timeout": 1,
    "preempted": 10,
    "lost": 10,
    "staging": 3,
    "contract": 10,
    "cancelled": 0,
    "prolog": 1,
    "wrapper": 0,
    "epilog": 1,
}
"""Allowed retries by cause of failure."""

MIGRATE_WHEN = ("never", "pays", "always")
ANCESTORS = ("lost", "always")
FOREVER = "forever"
REPLAN_WHEN = ("violated", "machines", "iteration")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How weft plans a run, and reacts to slow attempts, failures and changes."""

    begins_at_once: bool = False
    """Whether the backend starts a program as soon as it gets the command, and sends no Started event."""
    brings_results: bool = False
    """Whether outputs that no task reads are copied to the folder of the workflow."""
    contract: float | None = None
    """Allowed excess over the estimate, as a fraction of the estimate; None: no contract."""
    grace_s: float | None = None
    """Seconds before the first check; None: a tenth of the estimate."""
    iteration_limit_s: float | None = None
    """Seconds that an iteration of an application may take (adaptive-jobs.md); None: no limit."""
    belief_s: float = 600.0
    """Seconds for which a machine counts as slow after an attempt on it was slow; may be infinite."""
    poll_every_s: float = 30.0
    """Seconds between progress probes of attempts with a contract."""
    migrate: str = "pays"
    """When an attempt that violates its contract migrates: ``never``; ``always``, as in dynamic-grid.md and
    adaptive-jobs.md; ``pays``: if the migration, with the restart cost, saves at least the share ``gain`` of
    the remaining time.
    """
    gain: float = 0.2
    """Share of the attempt's remaining time that a migration must save."""
    gain_growth: float = 1.5
    """Factor on ``gain`` after each migration of a task, so that a task does not move back and forth."""
    migration_limit: int = 50
    """Number of migrations of a task after which searches for a better machine no longer move the task."""
    checkpoints: bool = True
    """Whether a migrated task continues from its last restart files; False: from zero (dynamic-grid.md)."""
    restart_cost_s: float = 0.0
    """Estimated seconds of a restart beyond copying the files."""
    better_every_s: float | None = None
    """Seconds between searches for a better machine (rescheduling in adaptive-jobs.md); None: never."""
    better_until_s: float | None = None
    """Seconds of running after which an attempt stays, even if a better machine is free; None: no limit."""
    suspension_timeout_s: float | None = 600.0
    """Seconds an attempt may be suspended by the machine's scheduler before it migrates; None: no limit."""
    waiting_timeout_s: float | None = None
    """Seconds an attempt may wait in the machine's own queue before it migrates; None: no limit."""
    ending_timeout_s: float = 5.0
    """Seconds between SIGTERM and SIGKILL, in which a program can write its restart files and end."""
    prolog_timeout_s: float | None = 3600.0
    """Seconds that the task's own prolog may take; None: no limit."""
    epilog_timeout_s: float | None = 3600.0
    """Seconds that the task's own epilog may take; None: no limit."""
    evaluator_timeout_s: float | None = 60.0
    """Seconds that one run of the task's evaluator program may take; None: until the task ends."""
    selector_timeout_s: float = 10.0
    """Seconds that one run of the task's selector program may take."""
    evaluated: bool = False
    """Whether a program of the task judges the performance of its attempts."""
    machine_timeout_s: float | None = 600.0
    """Seconds a run waits for machines that are lost, or that do not meet a requirement now.

    The time counts while no task of the run makes progress. None: no limit.
    """
    ladder_every_s: float | None = None
    """Seconds between liveness probes (adaptive-jobs.md, section 5); None: no probes."""
    discover_every_s: float | None = None
    """Seconds for which a machine list of the information service is valid; None: all machines are used."""
    fetch_every_s: float | None = None
    """Seconds between queries of a machine's dynamic state; None: no queries, the backend reports changes."""
    pushes_state: bool = False
    """Whether one query makes a backend measure the state every ``fetch_every_s`` and report changes."""
    authorise: bool = False
    """Whether access to a machine is tested before it is used."""
    bound_ancestors: str = "lost"
    """Which completed tasks run again when their abstract machine moves: ``always`` (dynamic-grid.md), or
    ``lost``: only those whose outputs are no longer available.
    """
    retries: Mapping[str, int] = field(default_factory=lambda: DEFAULT_RETRIES)
    """Allowed retries by cause of failure."""
    pause_s: float = 1.0
    """Seconds before outputs that could not be copied are copied again, after the first failure."""
    pause_growth: float = 2.0
    """Factor on ``pause_s`` after each further failure."""
    longest_pause_s: float = 300.0
    growth: float = 2.0
    """Factor by which a memory or time limit is multiplied after an attempt exceeded it."""
    on_failure: str = "stop"
    """Reaction when a task has no retry left: ``hold`` (wait for the user), ``reschedule`` (start it on
    another machine), ``stop`` (end the run) or ``continue`` (run all tasks that do not depend on it).
    """
    strict_plan: bool = False
    """Whether the planned order is kept even if a machine stays idle."""
    replan_when: tuple[str, ...] = ()
    """Events after which the rest of a run is planned again (docs/papers/unified.md, section 5, step 7)."""
    replan_share: float = 0.0
    """Share of the running tasks that must violate their contracts before ``violated`` causes a new plan."""
    replan_every_s: float | None = None
    """Seconds between plans; 0: plan again as soon as a plan is ready; None: no plans at fixed intervals."""
    replan_planner: str | None = None
    """Planner of later plans; None: the planner of the first plan."""
    policy: str | None = None
    """Policy that makes the decisions; None: the default of the command."""
    planner: str | None = None
    """Planner of the first plan; None: the default of the command."""
    objective: str = "makespan"
    """Value that plans minimise or maximise."""
    alpha: float | None = None
    """Weight between time (1) and cost (0), for objectives with such a weight; None: 0.5."""
    deadline_s: float | None = None
    """Latest end of a run, in seconds after its arrival; None: no deadline."""
    max_cost: float | None = None
    """Largest price of all node-hours of a run; None: no limit."""
    plan_time_s: float | None = None
    """Time budget of search planners for each plan; None: the default of the command."""
    plan_steps: int | None = None
    """Step budget of search planners instead of a time; None: no limit on steps."""

    @property
    def has_contract(self) -> bool:
        """Return whether the performance of attempts is checked."""
        return self.contract is not None or self.iteration_limit_s is not None or self.evaluated

    def polls_progress(self, *, untimed: bool) -> bool:
        """Return whether the progress of attempts is polled; ``untimed``: their task has no stated time."""
        timed = self.contract is not None and not untimed
        return timed or self.iteration_limit_s is not None or self.evaluated

    @property
    def replans(self) -> bool:
        """Return whether the rest of a run is planned again, after events or at an interval."""
        return bool(self.replan_when) or self.replan_every_s is not None

    @property
    def is_monitored(self) -> bool:
        """Return whether started attempts are monitored: for a contract, a waiting limit or re-planning."""
        return self.has_contract or self.waiting_timeout_s is not None or self.replans

    def with_layers(self, *layers: SettingsLayer) -> RunSettings:
        """Return these settings, overridden by the layers in order; ``retries`` are merged by cause."""
        if not (merged := merge_layers(*layers)):
            return self
        return replace(self, **merge_layers({"retries": self.retries}, merged))


def suit_real_runs(settings: RunSettings) -> RunSettings:
    """Return the settings adapted to real backends.

    ``begins_at_once``, ``brings_results`` and ``pushes_state`` are set.
    """
    return replace(settings, begins_at_once=True, brings_results=True, pushes_state=True)


def merge_layers(*layers: SettingsLayer) -> dict[str, Any]:
    """Return one layer in which later layers override earlier ones; ``retries`` are merged by cause."""
    merged: dict[str, Any] = {}
    for layer in layers:
        retries = {**merged.get("retries", {}), **layer.get("retries", {})}
        merged.update(layer)
        if retries:
            merged["retries"] = retries
    return merged


# Values


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read_number(reader: Reader, node: DocumentNode, *, least: float, most: float) -> float | None:
    value = node.value
    if _is_number(value) and least <= float(value) <= most:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    rule = f"must be a number of at least {least:g}" + (f" and at most {most:g}" if most < math.inf else "")
    reader.add_problem(node, f"{node.display()} is not allowed", rule=rule)
    return None


def _number(least: float = 0.0, most: float = math.inf) -> ValueType:
    shape: Shape = {"type": "number", "minimum": least, **({"maximum": most} if most < math.inf else {})}
    return ValueType("number", shape, partial(_read_number, least=least, most=most))


def _read_time(reader: Reader, node: DocumentNode, *, above: bool) -> float | None:
    value = node.value
    seconds = parse_seconds(value) if isinstance(value, str) else value
    if _is_number(seconds) and (seconds > 0 if above else seconds >= 0):  # type: ignore[operator]
        return float(seconds)  # type: ignore[arg-type]
    rule = f"must be a time such as 90, 30s or 1h30m, {'above 0' if above else 'at least 0'}"
    reader.add_problem(node, f"{node.display()} is not allowed", rule=rule)
    return None


def _read_period(reader: Reader, node: DocumentNode) -> float | None:
    return math.inf if node.value == FOREVER else _read_time(reader, node, above=False)


def _read_moments(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    found = [reader.choice(item, REPLAN_WHEN) for item in reader.listing(node) if item.value != "none"]
    return tuple(dict.fromkeys(word for word in found if word is not None))


def _read_retries(reader: Reader, node: DocumentNode) -> dict[str, int] | None:
    if not isinstance(node.value, dict):
        count = reader.integer(node, least=0, most=_MOST_RETRIES)
        return None if count is None else dict.fromkeys(CAUSES, count)
    found = {
        cause: reader.integer(value, least=0, most=_MOST_RETRIES)
        for cause, value in reader.mapping(node, CAUSES, "cause of failure").items()
    }
    return {cause: count for cause, count in found.items() if count is not None}


def _write_retries(retries: Mapping[str, int]) -> object:
    counts = set(retries.values())
    return counts.pop() if len(counts) == 1 and retries.keys() == set(CAUSES) else dict(retries)


_MOST_RETRIES = 1_000_000
_COUNT_SHAPE: Shape = {"type": "integer", "minimum": 0, "maximum": _MOST_RETRIES}
_WORD_SHAPE: Shape = {"enum": [*REPLAN_WHEN, "none"]}
_TIME = ValueType("time", QUANTITY_SHAPE, partial(_read_time, above=False), unit="s")
_INTERVAL = ValueType("time", QUANTITY_SHAPE, partial(_read_time, above=True), unit="s")
_PERIOD = ValueType(
    f"time or `{FOREVER}`",
    any_of(QUANTITY_SHAPE, {"const": FOREVER}),
    _read_period,
    lambda seconds: FOREVER if math.isinf(seconds) else seconds,
    unit="s",
)
_RETRIES = ValueType(
    "whole number, or by cause",
    any_of(
        _COUNT_SHAPE,
        {"type": "object", "properties": dict.fromkeys(CAUSES, _COUNT_SHAPE), "additionalProperties": False},
    ),
    _read_retries,
    _write_retries,
)
_MOMENTS = ValueType(
    ", ".join(f"`{word}`" for word in REPLAN_WHEN) + ", or a list of them",
    any_of(_WORD_SHAPE, {"type": "array", "items": _WORD_SHAPE}),
    _read_moments,
    lambda words: list(words) or "none",
)
_SHARE = _number(0.0, 1.0)


# The table

TASK, RUN, EXECUTION = "task", "run", "execution"
_SCOPES = (TASK, RUN, EXECUTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of the settings."""

    key: str
    """Key in files and after ``--set``; a dot separates the group: ``migration.gain``."""
    attribute: str
    """Attribute of ``RunSettings``."""
    type: ValueType
    help: str
    scope: str = TASK
    optional: bool = False
    """Whether ``none`` is allowed."""
    default_text: str = ""
    """Description of the default for the reference; "": its value is shown."""

    @property
    def default(self) -> Any:
        """Return the default value."""
        return getattr(DEFAULTS, self.attribute)

    def read(self, reader: Reader, node: DocumentNode) -> dict[str, Any] | None:
        """Return ``{attribute: value}``; None after adding a problem."""
        if self.optional and node.value in ("none", None):
            return {self.attribute: None}
        value = self.type.read(reader, node)
        return None if value is None else {self.attribute: value}

    def write(self, value: Any) -> Any:
        """Return a value as plain data for a file."""
        return "none" if value is None else self.type.write(value)

    def as_field(self) -> Field:
        """Return the field of the key within its group."""
        label = f"{self.type.label} or `none`" if self.optional else self.type.label
        shape = any_of(self.type.shape, {"enum": ["none", None]}) if self.optional else self.type.shape
        default = self.default_text or _show_default(self.write(self.default))
        kind = ValueType(label, shape, self.read, unit=self.type.unit)
        text = f"{self.help} (`{self.scope}`)"
        return Field(self.key.rpartition(".")[2], kind, text, attribute="*", default_text=default)


def _show_default(value: object) -> str:
    if isinstance(value, dict):
        return "by cause, see below"
    return f"{value:g}" if _is_number(value) else f"`{str(value).lower()}`"


DEFAULTS = RunSettings()

# fmt: off
SETTINGS: tuple[Setting, ...] = (
    Setting(key="contract.factor", attribute="contract", type=_number(), optional=True,
            help="allowed excess over the estimate: 0.5 allows 1.5 times the estimate"),
    Setting(key="contract.grace", attribute="grace_s", type=_TIME, optional=True,
            default_text="a tenth of the estimate", help="time before the contract is first checked"),
    Setting(key="contract.iteration", attribute="iteration_limit_s", type=_INTERVAL, optional=True,
            help="time that an iteration may take, for programs that report their iterations"),
    Setting(key="poll_every", attribute="poll_every_s", type=_INTERVAL, scope=EXECUTION,
            help="time between progress probes of attempts with a contract; if it is not stated, shorter "
                 "for short tasks"),
    Setting(key="slow_for", attribute="belief_s", type=_PERIOD, scope=EXECUTION,
            help="time for which a machine counts as slow after an attempt on it, whose program reports its "
                 "progress, was slow"),
    Setting(key="migration.when", attribute="migrate", type=choice(MIGRATE_WHEN),
            help="when an attempt that violates its contract migrates; `pays`: if the migration saves at "
                 "least `gain`"),
    Setting(key="migration.gain", attribute="gain", type=_SHARE,
            help="share of the remaining time that a migration must save"),
    Setting(key="migration.growth", attribute="gain_growth", type=_number(1.0),
            help="factor on `gain` after each migration of a task"),
    Setting(key="migration.limit", attribute="migration_limit", type=integer(0),
            help="number of migrations of a task after which searches for a better machine do not move it"),
    Setting(key="migration.checkpoints", attribute="checkpoints", type=FLAG,
            help="`false`: a migrated task starts from zero, even if it has restart files"),
    Setting(key="migration.restart_cost", attribute="restart_cost_s", type=_TIME,
            help="estimated time of a restart beyond copying the files"),
    Setting(key="migration.search_every", attribute="better_every_s", type=_INTERVAL, optional=True,
            help="time between searches for a better machine"),
    Setting(key="migration.search_until", attribute="better_until_s", type=_TIME, optional=True,
            help="running time after which an attempt is not moved to a better machine any more"),
    Setting(key="timeouts.suspended", attribute="suspension_timeout_s", type=_TIME, optional=True,
            help="time an attempt may be suspended by its machine before it migrates"),
    Setting(key="timeouts.queued", attribute="waiting_timeout_s", type=_TIME, optional=True,
            help="time an attempt may wait in the queue of its machine before it migrates"),
    Setting(key="timeouts.ending", attribute="ending_timeout_s", type=_TIME,
            help="time that a program has after SIGTERM to write its restart files, before it is killed"),
    Setting(key="timeouts.prolog", attribute="prolog_timeout_s", type=_INTERVAL, optional=True,
            help="time that the prolog of a task may take"),
    Setting(key="timeouts.epilog", attribute="epilog_timeout_s", type=_INTERVAL, optional=True,
            help="time that the epilog of a task may take"),
    Setting(key="timeouts.evaluator", attribute="evaluator_timeout_s", type=_INTERVAL, optional=True,
            help="time that one run of an evaluator program may take; `none`: until the task ends"),
    Setting(key="timeouts.selector", attribute="selector_timeout_s", type=_INTERVAL,
            help="time that one run of a selector program may take"),
    Setting(key="timeouts.machines", attribute="machine_timeout_s", type=_TIME, optional=True,
            scope=EXECUTION,
            help="time for which tasks wait for machines that are lost, do not meet a requirement now, or "
                 "are not accepted by a selector, if nothing else can go on; then the run fails"),
    Setting(key="probe_every", attribute="ladder_every_s", type=_INTERVAL, optional=True, scope=EXECUTION,
            help="time between probes that test whether job, runner and machine answer"),
    Setting(key="discover_every", attribute="discover_every_s", type=_INTERVAL, optional=True,
            scope=EXECUTION, help="time for which a list of available machines is valid"),
    Setting(key="state_every", attribute="fetch_every_s", type=_INTERVAL, optional=True, scope=EXECUTION,
            help="time between measurements of the dynamic state of a machine (load, free memory)"),
    Setting(key="authorise", attribute="authorise", type=FLAG, scope=EXECUTION,
            help="`true`: access to a machine is tested before it is used"),
    Setting(key="retries", attribute="retries", type=_RETRIES,
            help="retries of a failed attempt, for all causes or by cause"),
    Setting(key="pauses.first", attribute="pause_s", type=_TIME,
            help="time before outputs that could not be copied are copied again"),
    Setting(key="pauses.growth", attribute="pause_growth", type=_number(1.0),
            help="factor on the pause after each further failure"),
    Setting(key="pauses.longest", attribute="longest_pause_s", type=_TIME, help="longest pause"),
    Setting(key="limit_growth", attribute="growth", type=_number(1.0),
            help="factor on a memory or time limit after an attempt exceeded it"),
    Setting(key="on_failure", attribute="on_failure", type=choice(ON_FAILURE),
            help="action when the retries are used up"),
    Setting(key="ancestors", attribute="bound_ancestors", type=choice(ANCESTORS), scope=RUN,
            help="which completed tasks run again when their abstract machine moves: all of its tasks, or "
                 "those whose outputs are lost"),
    Setting(key="strict_plan", attribute="strict_plan", type=FLAG, scope=EXECUTION,
            help="`true`: the planned order is kept even if a machine stays idle"),
    Setting(key="replan.when", attribute="replan_when", type=_MOMENTS, scope=RUN,
            help="events after which the rest of a run is planned again: contracts violated, machines "
                 "lost, next iteration of a loop; machines that come back are planned with in any case"),
    Setting(key="replan.share", attribute="replan_share", type=_SHARE, scope=RUN,
            help="share of the running tasks that must violate their contracts for `violated`"),
    Setting(key="replan.every", attribute="replan_every_s", type=_TIME, optional=True, scope=RUN,
            help="time between plans; 0: the next plan follows the last one at once"),
    Setting(key="replan.planner", attribute="replan_planner", type=TEXT, optional=True, scope=RUN,
            default_text="that of the first plan", help="planner of later plans"),
    Setting(key="policy", attribute="policy", type=TEXT, optional=True, scope=EXECUTION,
            default_text="`plan`; of several runs `foft`, or `shared-plans` if a planner, objective, "
                         "limit or re-planning is stated",
            help="policy that makes the decisions"),
    Setting(key="planner", attribute="planner", type=TEXT, optional=True, scope=RUN,
            default_text="`auto`: the best plan of list planners and searches within `plan_time`",
            help="planner of the first plan"),
    Setting(key="objective", attribute="objective", type=TEXT, scope=RUN,
            help="what plans optimise, as for `weft plan --objective`; later plans keep it"),
    Setting(key="alpha", attribute="alpha", type=_SHARE, optional=True, scope=RUN, default_text="0.5",
            help="weight of time (1) against cost (0) in on-demand and static objectives"),
    Setting(key="deadline", attribute="deadline_s", type=_INTERVAL, optional=True, scope=RUN,
            help="latest end of a run, from its arrival; a run that cannot keep it is not started"),
    Setting(key="max_cost", attribute="max_cost", type=_number(), optional=True, scope=RUN,
            help="largest price of all node-hours; a run that cannot keep it is not started"),
    Setting(key="plan_time", attribute="plan_time_s", type=_INTERVAL, optional=True, scope=EXECUTION,
            default_text="2 s for the first plan, a few steps for later ones",
            help="time budget of search planners for each plan"),
    Setting(key="plan_steps", attribute="plan_steps", type=integer(1), optional=True, scope=EXECUTION,
            default_text="no limit", help="step budget of search planners instead of a time"),
)
# fmt: on

_BY_ATTRIBUTE = {setting.attribute: setting for setting in SETTINGS}


def _read_group(
    reader: Reader, node: DocumentNode, *, record: Record, first: Setting | None
) -> SettingsLayer:
    """Return the settings of a group; a value that is not a mapping is the value of the setting ``first``."""
    if isinstance(node.value, dict) or first is None:
        return record.read(reader, node)
    return first.read(reader, node) or {}


def _group_field(group: str, record: Record, first: Setting | None) -> Field:
    shapes = [record.shape()]
    if first is not None:
        shapes.insert(0, first.as_field().type.shape)
    label = f"{first.as_field().type.label}, or mapping" if first is not None else "mapping"
    kind = ValueType(label, any_of(*shapes), partial(_read_group, record=record, first=first))
    return Field(group, kind, _GROUPS[group], attribute="*")


_GROUPS = {
    "contract": "performance that attempts must deliver: the factor, or a mapping",
    "migration": "when and how attempts move to another machine",
    "timeouts": "time limits for waiting, for ending, and for prolog, epilog, evaluator and selector",
    "pauses": "pauses between tries to copy outputs",
    "replan": "when the rest of a run is planned again",
}
_SHORT = {"contract": "contract.factor", "replan": "replan.when"}
"""By group: the key that is set if the group has a single value instead of a mapping."""


def _make_records(scopes: Sequence[str]) -> dict[str, Record]:
    """Return the record of each group, with its keys of these scopes, by group.

    The entry ``settings`` is the record of all keys and groups.
    """
    chosen = [setting for setting in SETTINGS if setting.scope in scopes]
    grouped: dict[str, list[Setting]] = {}
    for setting in chosen:
        grouped.setdefault(setting.key.rpartition(".")[0], []).append(setting)
    records = {
        group: Record(f"`{group}` of the settings", tuple(each.as_field() for each in members))
        for group, members in grouped.items()
        if group
    }
    found: dict[str, Field] = {}
    for setting in chosen:
        group = setting.key.rpartition(".")[0]
        if not group:
            found[setting.key] = setting.as_field()
        elif group not in found:
            first = next((each for each in grouped[group] if each.key == _SHORT.get(group)), None)
            found[group] = _group_field(group, records[group], first)
    return {**records, "settings": Record("settings", tuple(found.values()))}


SETTING_RECORDS = _make_records(_SCOPES)
"""The records of settings by the names of their tables on the reference page."""
_RECORD_OF = {
    TASK: _make_records((TASK,))["settings"],
    RUN: SETTING_RECORDS["settings"],
    EXECUTION: SETTING_RECORDS["settings"],
}


def read_settings(reader: Reader, node: DocumentNode, *, scope: str = RUN) -> SettingsLayer:
    """Return the layer that a mapping states.

    If ``scope`` is TASK, a key that a task must not state is a problem.
    """
    if scope == TASK and isinstance(node.value, dict):
        for key, value in node.value.items():
            if key in _RECORD_OF[RUN].help and key not in _RECORD_OF[TASK].help:
                what = f"setting {key!r} of a task"
                rule = "it concerns the whole run, so a task cannot state it"
                reader.add_problem(
                    value, what, rule=rule, advice="state it under `settings:` of the workflow"
                )
                rest = {name: each for name, each in node.value.items() if name != key}
                node = replace(node, value=rest)
    return _RECORD_OF[scope].read(reader, node)


def make_settings(stated: Mapping[str, Any], origin: str = "settings") -> SettingsLayer:
    """Return the layer that a mapping with the keys of a file states; raise InvalidInput if it is invalid."""
    reader = Reader()
    layer = read_settings(reader, from_python(stated, path=(origin,)), scope=EXECUTION)
    reader.finish()
    return layer


def write_settings(layer: SettingsLayer) -> dict[str, Any]:
    """Return a layer as plain data with the keys of a file."""
    found: dict[str, Any] = {}
    for setting in SETTINGS:
        if setting.attribute in layer:
            group, _, key = setting.key.rpartition(".")
            holder = found.setdefault(group, {}) if group else found
            holder[key] = setting.write(layer[setting.attribute])
    return found


def settings_shape(*, scope: str = RUN) -> Shape:
    """Return the JSON Schema of the settings that may be stated in a scope."""
    return _RECORD_OF[scope].shape()


# Layers of a run


def task_layer(task: Task) -> SettingsLayer:
    """Return the settings that a task states: under ``settings``, or by other keys such as ``contract``."""
    recovery = task.recovery
    layer: dict[str, Any] = dict(task.settings)
    if task.job is not None and task.job.evaluator is not None:
        layer.update(_evaluator_layer(task.job))
    if (terms := recovery.contract) is not None:
        if terms.factor is not None:
            layer["contract"] = None if terms.factor == math.inf else terms.factor
        if terms.grace_s is not None:
            layer["grace_s"] = terms.grace_s
    retries = {} if recovery.retries is None else dict.fromkeys(CAUSES, recovery.retries)
    if stated := {**layer.get("retries", {}), **retries, **recovery.retries_by_cause}:
        layer["retries"] = stated
    if recovery.on_failure is not None:
        layer["on_failure"] = recovery.on_failure
    return layer


def default_layer(task: Task) -> SettingsLayer:
    """Return the defaults that differ for a task: a task that states ``contract`` has a contract factor."""
    terms = task.recovery.contract
    return {} if terms is None or terms.factor is not None else {"contract": DEFAULT_FACTOR}


def _evaluator_layer(job: JobSpec) -> SettingsLayer:
    """Return the contract that an evaluator states: ``none``, a factor, seconds per iteration, a program."""
    text = (job.evaluator or "").strip()
    if text == "none":
        return {"contract": None, "grace_s": None, "iteration_limit_s": None, "evaluated": False}
    if job.evaluator_program:
        return {"evaluated": True}
    try:
        return {"contract": float(text)}
    except ValueError:
        iteration_s = parse_seconds(text)
    return {} if iteration_s is None else {"iteration_limit_s": iteration_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsLayers:
    """The layers of settings of an execution, except those that workflows and tasks state."""

    base: RunSettings = DEFAULTS
    """The defaults, overridden by the preset if there is one."""
    profile: SettingsLayer = field(default_factory=dict)
    overrides: SettingsLayer = field(default_factory=dict)
    """Settings that the user states for this run: ``--set`` and options such as ``--retries``."""

    def of_workflow(self, workflow: Workflow) -> RunSettings:
        """Return the settings of a run of a workflow, for tasks without settings of their own."""
        return self.base.with_layers(workflow.settings, self.profile, self.overrides)

    def of_task(self, workflow: Workflow, task: Task) -> RunSettings:
        """Return the settings of a task."""
        default = default_layer(task) if self.base.contract is None else {}
        return self.base.with_layers(
            default, workflow.settings, self.profile, task_layer(task), self.overrides
        )

    def of_execution(self, workflows: Iterable[Workflow]) -> RunSettings:
        """Return the settings of machines and policy, which all workflows of an execution share.

        Raises InvalidInput if workflows state different values of a setting of scope ``execution``.
        """
        stated = list(workflows)
        if len(stated) == 1:
            return self.of_workflow(stated[0])
        shared = self._shared_layer(stated)
        return self.base.with_layers(shared, self.profile, self.overrides)

    def _shared_layer(self, workflows: Sequence[Workflow]) -> SettingsLayer:
        shared: dict[str, Any] = {}
        for setting in SETTINGS:
            name = setting.attribute
            if setting.scope != EXECUTION or name in self.profile or name in self.overrides:
                continue
            values = [flow.settings[name] for flow in workflows if name in flow.settings]
            if any(value != values[0] for value in values):
                shown = " and ".join(dict.fromkeys(str(setting.write(value)) for value in values))
                raise InvalidInput(
                    f"the workflows state different values of {setting.key}: {shown}",
                    rule="all workflows of an execution share this setting",
                    advice=f"choose one: --set {setting.key}=VALUE",
                )
            if values:
                shared[name] = values[0]
        return shared


class WorkflowSettings:
    """The settings of one workflow and of its tasks, resolved on first use."""

    __slots__ = ("_layers", "_of_task", "_workflow", "common", "search_interval_s")

    def __init__(self, layers: SettingsLayers, workflow: Workflow) -> None:
        self._layers = layers
        self._workflow = workflow
        self.common = layers.of_workflow(workflow)
        """The settings of the run, and of tasks without settings of their own."""
        self._of_task: dict[str, RunSettings] = {}
        own = [self.of(task).better_every_s for task in workflow.tasks if "better_every_s" in task.settings]
        every_s = [each_s for each_s in (self.common.better_every_s, *own) if each_s is not None]
        self.search_interval_s = min(every_s, default=None)
        """Shortest interval between searches for a better machine for a task; None: no task has one."""

    def of(self, task: Task) -> RunSettings:
        """Return the settings of a task."""
        if (found := self._of_task.get(task.name)) is None:
            found = self.common
            if task_layer(task) or default_layer(task):
                found = self._layers.of_task(self._workflow, task)
            self._of_task[task.name] = found
        return found


def explain_settings(
    layers: Sequence[tuple[str, SettingsLayer]],
) -> Iterator[tuple[Setting, Any, str]]:
    """Yield every setting with its value and the name of the last layer that states it.

    ``layers`` are pairs of name and layer; the first layer must state every setting.
    """
    for setting in SETTINGS:
        found = [(name, layer[setting.attribute]) for name, layer in layers if setting.attribute in layer]
        name, value = found[-1]
        if setting.attribute == "retries":
            value = {cause: count for _, stated in found for cause, count in stated.items()}
        yield setting, value, name


def complete_layer(settings: RunSettings) -> SettingsLayer:
    """Return all values of settings as a layer."""
    return {each.name: getattr(settings, each.name) for each in fields(settings)}
