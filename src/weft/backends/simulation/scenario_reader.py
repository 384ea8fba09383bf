"""Values of a scenario: times, shares, ranges to draw from, names of machines, entries with required keys.

Arrivals from a trace: a CSV file with the columns ``workflow``, ``at`` and ``owner``.

Entries under ``arrivals``: one workflow, a series, a mix whose order is drawn, a stated order, a trace.

What tasks and loops really do: durations, ends, results, iterations, lines, changes of mind.

Entries about machines: perturbations, failures, loads and silences.

Scenario files: what their keys mean. Every problem is found before any is reported.

Scenario files and the workflows they name.
"""

from __future__ import annotations

import csv
import functools
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeVar

from weft.backends.simulation.scenario import (
    FAILURE_WORDS,
    NETWORKS,
    SILENT_PARTS,
    Arrival,
    ArrivalTrace,
    Cancellation,
    CompetingLoad,
    Durations,
    End,
    Failure,
    Perturbation,
    RequirementChange,
    Result,
    Scenario,
    Series,
    Silence,
    Span,
    Suspension,
)
from weft.backends.simulation.scenario_checks import workflow_keys
from weft.backends.simulation.scenario_schema import (
    ARRIVAL_KEYS,
    CANCELLATION_KEYS,
    DURATION_KEYS,
    FAILURE_KEYS,
    LOAD_KEYS,
    PERTURBATION_KEYS,
    REPLANNING_KEYS,
    REQUIREMENT_KEYS,
    SCENARIO_KEYS,
    SILENCE_KEYS,
    SUSPENSION_KEYS,
    TASK_DURATION_KEYS,
    VERSION,
)
from weft.documents import Document, DocumentNode, Reader, expand_braces, locate_problems
from weft.errors import InvalidInput, Problem, SourceLocation, nearest, shorten
from weft.units import parse_seconds
from weft.workflow.reader import read_expression, split_range
from weft.workflow.workflow import Workflow

__all__ = [
    "MAX_ARRIVALS",
    "TRACE_COLUMNS",
    "is_scenario",
    "load_arrival_workflows",
    "load_scenario",
    "read_arrival",
    "read_cancellation",
    "read_counts",
    "read_durations",
    "read_ends",
    "read_entry",
    "read_failure",
    "read_load",
    "read_machines",
    "read_number",
    "read_patterns",
    "read_perturbation",
    "read_replanning",
    "read_requirement",
    "read_results",
    "read_scenario",
    "read_seconds",
    "read_seconds_span",
    "read_silence",
    "read_span",
    "read_suspension",
    "read_trace",
    "refuse_combination",
]


_Parse = Callable[[str], float | None]


def read_entry(
    reader: Reader, node: DocumentNode, keys: Mapping[str, str], needed: Sequence[str] = ()
) -> dict[str, DocumentNode]:
    """Read the keys of an entry; one without a value counts as not written, a needed one is missed."""
    written = reader.mapping(node, keys)
    entries = {key: value for key, value in written.items() if value.value is not None}
    for key in needed:
        if key not in entries and isinstance(node.value, dict):
            reader.add_problem(node, f"an entry without the key {key!r}", rule=f"it needs {keys[key]!r}")
    return entries


def refuse_combination(
    reader: Reader, node: DocumentNode, entries: Mapping[str, DocumentNode], keys: Sequence[str], rule: str
) -> None:
    """Complain if more than one of some keys is written."""
    found = [key for key in keys if key in entries]
    if len(found) > 1:
        reader.add_problem(
            node, f"{' and '.join(map(repr, found))} in one entry", rule=rule, advice="keep one"
        )


def read_seconds(
    reader: Reader, node: DocumentNode | None, default_s: float, *, above_0: bool = False
) -> float:
    """Read a time: ``90``, ``1h30m``."""
    if node is None:
        return default_s
    wanted = f"a time such as 90, 90s or 1h30m, {'above 0' if above_0 else 'at least 0'}"
    found = _read_quantity(reader, node, parse_seconds, wanted, 0.0, above_0)
    return default_s if found is None else found


def read_number(
    reader: Reader,
    node: DocumentNode | None,
    default: float,
    *,
    least: float,
    most: float = math.inf,
    above: bool = False,
) -> float:
    """Read a plain number within bounds."""
    if node is None:
        return default
    wanted = f"a number {'above' if above else 'at least'} {least:g}"
    wanted += f" and at most {most:g}" if math.isfinite(most) else ""
    found = _read_quantity(reader, node, None, wanted, least, above)
    if found is not None and found > most:
        reader.add_problem(node, f"{node.display()} is not allowed", rule=f"must be {wanted}")
        return default
    return default if found is None else found


def _read_quantity(
    reader: Reader, node: DocumentNode, parse: _Parse | None, wanted: str, least: float, above: bool
) -> float | None:
    found: float | None = None
    if isinstance(node.value, str) and parse is not None:
        found = parse(node.value)
    elif isinstance(node.value, int | float) and not isinstance(node.value, bool):
        found = float(node.value) if abs(node.value) < _LARGEST_NUMBER else None
    else:
        reader.add_type_problem(node, wanted)
        return None
    if found is None or not found >= least or (above and found == least):
        reader.add_problem(node, f"{node.display()} is not allowed", rule=f"must be {wanted}")
        return None
    return found


_LARGEST_NUMBER = 1e300
"""Numbers beyond are slips."""


def read_seconds_span(reader: Reader, node: DocumentNode | None, default_s: float) -> Span:
    """Read a time or a range of times: ``100s..600s``."""
    wanted = "a time, or a range such as 100s..600s, at least 0"
    return _read_range(reader, node, parse_seconds, wanted, 0.0, default_s)


def read_span(reader: Reader, node: DocumentNode | None, *, least: float, default: float) -> Span:
    """Read a number or a range of numbers: ``3..10``."""
    wanted = f"a number, or a range such as 3..10, at least {least:g}"
    return _read_range(reader, node, _parse_number, wanted, least, default)


def _parse_number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _read_range(
    reader: Reader, node: DocumentNode | None, parse: _Parse, wanted: str, least: float, default: float
) -> Span:
    if node is None:
        return Span(low=default, high=default)
    halves = split_range(node.value) if isinstance(node.value, str) else None
    if halves is None:
        single = _read_quantity(reader, node, parse, wanted, least, above=False)
        return Span(low=single, high=single) if single is not None else Span(low=default, high=default)
    low, high = (parse(half.strip()) for half in halves)
    if low is None or high is None or not least <= low <= high:
        advice = (
            "the smaller bound comes first" if low is not None and high is not None and low > high else ""
        )
        reader.add_problem(
            node, f"range {node.display()} is not allowed", rule=f"must be {wanted}", advice=advice
        )
        return Span(low=default, high=default)
    return Span(low=low, high=high)


def read_machines(
    reader: Reader, node: DocumentNode, entries: Mapping[str, DocumentNode], default: str | None = None
) -> tuple[str, ...]:
    """Read which machines an entry is about: ``machine``, or ``machines`` with ranges written out."""
    refuse_combination(reader, node, entries, ("machine", "machines"), "an entry names its machines once")
    at = entries.get("machines", entries.get("machine"))
    if at is None:
        if default is not None:
            return (default,)
        if isinstance(node.value, dict):
            advice = "add `machine: NAME`, or `machines:` with names or wildcards"
            reader.add_problem(node, "an entry without machines", advice=advice)
        return ()
    if isinstance(at.value, list) and not at.value:
        reader.add_problem(at, "no machine is named", advice='name one, or write "*" for all')
    return read_patterns(reader, at)


def read_patterns(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    """Read names and wildcards of machines, ranges written out."""
    names: list[str] = []
    for item in reader.listing(node):
        text = reader.text(item)
        expanded = (
            None if text is None else reader.collect_problems(item, functools.partial(expand_braces, text))
        )
        names += expanded or []
    return tuple(names)


TRACE_COLUMNS = ("workflow", "at", "owner")
"""The columns of a trace; the owner may be left out."""


def read_trace(
    reader: Reader, node: DocumentNode, folder: PurePath, owner: str | None
) -> ArrivalTrace | None:
    """Read the file that an entry names; ``owner`` is that of rows without one."""
    from weft.formats.files import open_source

    name = reader.text(node)
    if name is None:
        return None
    source = reader.collect_problems(node, lambda: open_source(str(folder / name)))
    text = None if source is None else reader.collect_problems(node, source.text)
    if text is None:
        return None
    lines = csv.DictReader(io.StringIO(text), skipinitialspace=True, restkey="")
    found = _TraceRows(reader, source.name, owner)
    try:
        if found.knows(lines.fieldnames or ()):
            arrivals = [found.arrival(row, lines.line_num) for row in lines]
            return ArrivalTrace(file=name, arrivals=tuple(each for each in arrivals if each is not None))
    except csv.Error as error:
        found.add_problem(lines.line_num, f"no CSV: {error}")
    return None


class _TraceRows:
    """Reads the rows of one file; what is wrong with them is noted with their line."""

    def __init__(self, reader: Reader, file: str, owner: str | None) -> None:
        self._reader, self._file, self._owner = reader, file, owner

    def add_problem(self, line: int, what: str, rule: str = "", advice: str = "") -> None:
        """Note a problem of a line."""
        place = SourceLocation(file=self._file, line=max(line, 1))
        self._reader.problems.append(Problem(what=what, rule=rule, advice=advice, place=place))

    def knows(self, names: object) -> bool:
        """Say whether the header names the columns that are needed, and no others."""
        header = [str(name).strip() for name in names] if isinstance(names, list) else []
        for name in header:
            if name not in TRACE_COLUMNS:
                close = nearest(name, TRACE_COLUMNS)
                advice = f"did you mean {close!r}?" if close else f"known: {', '.join(TRACE_COLUMNS)}"
                self.add_problem(1, f"unknown column {shorten(repr(name))}", advice=advice)
        missing = [name for name in TRACE_COLUMNS[:2] if name not in header]
        if missing:
            advice = "begin the file with the line workflow,at,owner"
            self.add_problem(1, f"no column {' and no column '.join(map(repr, missing))}", advice=advice)
        return not missing

    def arrival(self, row: Mapping[str, str | None], line: int) -> Arrival | None:
        """Read one row."""
        values = {key.strip(): (value or "").strip() for key, value in row.items() if key}
        if "" in row:
            self.add_problem(line, "more values than columns")
            return None
        at_s = parse_seconds(values["at"])
        if at_s is None or not math.isfinite(at_s):
            what = f"{shorten(repr(values['at']))} is not allowed"
            self.add_problem(line, what, rule="`at` must be a time such as 90 or 1h30m, at least 0")
        if not values["workflow"]:
            self.add_problem(line, "a row without a workflow", rule="`workflow` names its file")
        if at_s is None or not values["workflow"]:
            return None
        return Arrival(workflow=values["workflow"], at_s=at_s, owner=values.get("owner") or self._owner)


MAX_ARRIVALS = 1_000_000
"""One entry stands for at most so many."""

_SOURCE_KEYS = ("workflow", "mix", "order", "trace")
_TIME_KEYS = ("at", "every", "poisson")


def read_arrival(
    reader: Reader, node: DocumentNode, folder: PurePath
) -> Arrival | Series | ArrivalTrace | None:
    """Read one entry; None if it says nothing that could arrive."""
    entries = read_entry(reader, node, ARRIVAL_KEYS)
    if not isinstance(node.value, dict):
        return None
    refuse_combination(reader, node, entries, _SOURCE_KEYS, "an entry says once what arrives")
    refuse_combination(reader, node, entries, _TIME_KEYS, "an entry says once when workflows arrive")
    refuse_combination(reader, node, entries, ("at", "from"), "`from` begins a series, `at` is one time")
    owner = reader.text(entries["owner"]) if "owner" in entries else None
    if "trace" in entries:
        _refuse_beside(reader, entries, "trace", ("count", *_TIME_KEYS, "from"))
        return read_trace(reader, entries["trace"], folder, owner)
    workflows = _read_workflows(reader, node, entries)
    if not workflows:
        return None
    if len(workflows) == 1 and not {"every", "poisson", "from"} & entries.keys():
        return Arrival(workflow=workflows[0], at_s=read_seconds(reader, entries.get("at"), 0.0), owner=owner)
    return Series(
        workflows=workflows,
        shuffled="mix" in entries,
        from_s=read_seconds(reader, entries.get("from", entries.get("at")), 0.0),
        every_s=read_seconds(reader, entries.get("every", entries.get("poisson")), 0.0),
        poisson="poisson" in entries,
        owner=owner,
    )


def _refuse_beside(
    reader: Reader, entries: Mapping[str, DocumentNode], one: str, others: tuple[str, ...]
) -> None:
    for key in others:
        if key in entries:
            reader.add_problem(entries[key], f"{key!r} beside {one!r}", advice=f"remove {key!r}")


def _read_workflows(
    reader: Reader, node: DocumentNode, entries: Mapping[str, DocumentNode]
) -> tuple[str, ...]:
    """List what arrives, each as often as it does."""
    if "workflow" in entries:
        name = reader.text(entries["workflow"])
        count = reader.integer(entries["count"], least=1) if "count" in entries else 1
        parts = [(name, count, entries.get("count", node))]
    elif "mix" in entries or "order" in entries:
        _refuse_beside(reader, entries, "mix" if "mix" in entries else "order", ("count",))
        parts = (
            _read_mix(reader, entries["mix"]) if "mix" in entries else _read_order(reader, entries["order"])
        )
    else:
        advice = "add `workflow: FILE`, `mix:`, `order:` or `trace:`"
        reader.add_problem(node, "an entry that names no workflow", advice=advice)
        return ()
    names: list[str] = []
    for name, count, at in parts:
        if name is None or count is None:
            return ()
        if len(names) + count > MAX_ARRIVALS:
            reader.add_problem(
                at, f"more than {MAX_ARRIVALS:,} arrivals", rule="so many at most in one entry"
            )
            return ()
        names += [name] * count
    return tuple(names)


def _read_mix(reader: Reader, node: DocumentNode) -> list[tuple[str | None, int | None, DocumentNode]]:
    entries = reader.mapping(node)
    if not entries and isinstance(node.value, dict):
        reader.add_problem(node, "a mix of no workflows", advice="write {FILE: how many}")
    return [(name, reader.integer(count, least=1), count) for name, count in entries.items()]


def _read_order(reader: Reader, node: DocumentNode) -> list[tuple[str | None, int | None, DocumentNode]]:
    items = reader.listing(node)
    if not items:
        reader.add_problem(node, "an order of no workflows", advice="list the files as they arrive")
    return [(reader.text(item), 1, item) for item in items]


_Listed = TypeVar("_Listed")

_MAX_EXIT_CODE = 255


def read_durations(reader: Reader, node: DocumentNode) -> Durations:
    """Read noise and bias, and those of single tasks; what a task does not say is that of all."""
    entries = read_entry(reader, node, DURATION_KEYS)
    noise = read_number(reader, entries.get("noise"), 0.0, least=0.0)
    bias = read_number(reader, entries.get("bias"), 1.0, least=0.0, above=True)
    tasks: dict[str, Durations] = {}
    for name, own in (reader.mapping(entries["tasks"]) if "tasks" in entries else {}).items():
        written = read_entry(reader, own, TASK_DURATION_KEYS)
        tasks[name] = Durations(
            noise=read_number(reader, written.get("noise"), noise, least=0.0),
            bias=read_number(reader, written.get("bias"), bias, least=0.0, above=True),
        )
    return Durations(noise=noise, bias=bias, tasks=tasks)


def read_suspension(reader: Reader, node: DocumentNode) -> Suspension:
    """Read one suspension."""
    entries = read_entry(reader, node, SUSPENSION_KEYS, ("task", "at"))
    return Suspension(
        task=_read_task_name(reader, entries.get("task")),
        at_s=read_seconds(reader, entries.get("at"), 0.0),
        lasting_s=read_seconds(reader, entries.get("lasting"), math.inf),
    )


def read_cancellation(reader: Reader, node: DocumentNode) -> Cancellation:
    """Read one cancellation."""
    entries = read_entry(reader, node, CANCELLATION_KEYS, ("task", "at"))
    return Cancellation(
        task=_read_task_name(reader, entries.get("task")), at_s=read_seconds(reader, entries.get("at"), 0.0)
    )


def read_requirement(reader: Reader, node: DocumentNode) -> RequirementChange:
    """Read one change of requirements or rank."""
    entries = read_entry(reader, node, REQUIREMENT_KEYS, ("task", "after"))
    if isinstance(node.value, dict) and not {"expression", "rank"} & entries.keys():
        reader.add_problem(node, "a change of nothing", advice="add `expression:` (requirements) or `rank:`")
    return RequirementChange(
        task=_read_task_name(reader, entries.get("task")),
        after=read_number(reader, entries.get("after"), 0.0, least=0.0, most=1.0),
        requirements=read_expression(reader, entries["expression"]) if "expression" in entries else None,
        rank=read_expression(reader, entries["rank"]) if "rank" in entries else None,
    )


def _read_task_name(reader: Reader, node: DocumentNode | None) -> str:
    return (reader.text(node) if node is not None else None) or ""


def read_ends(reader: Reader, node: DocumentNode) -> dict[str, tuple[End, ...]]:
    """Read by task how its attempts end."""
    return _read_lists(reader, node, _read_end, "a list of exit codes")


def _read_end(reader: Reader, node: DocumentNode) -> End | None:
    if isinstance(node.value, str):
        if node.value in FAILURE_WORDS:
            return node.value
        close = nearest(node.value, FAILURE_WORDS)
        advice = f"did you mean {close!r}?" if close else f"known: {', '.join(FAILURE_WORDS)}"
        reader.add_problem(node, f"{node.display()} is no way to end", rule="a code or a word", advice=advice)
        return None
    code = reader.integer(node, least=0)
    if code is not None and code > _MAX_EXIT_CODE:
        reader.add_problem(node, f"exit code {code}", rule=f"must be at most {_MAX_EXIT_CODE}")
    return code


def read_results(reader: Reader, node: DocumentNode) -> dict[str, tuple[Result, ...]]:
    """Read by task what its attempts write."""
    return _read_lists(reader, node, _read_result, "a list of results, each {name: value}")


def _read_result(reader: Reader, node: DocumentNode) -> Result | None:
    found: dict[str, str | float | bool | None] = {}
    if not isinstance(node.value, dict):
        reader.add_type_problem(node, "a mapping")
        return None
    for name, entry in node.value.items():
        if isinstance(entry.value, list | dict):
            reader.add_type_problem(entry, "a plain value, since results are flat")
        else:
            found[name] = entry.value
    return found


def _read_lists(
    reader: Reader, node: DocumentNode, read: Callable[[Reader, DocumentNode], _Listed | None], wanted: str
) -> dict[str, tuple[_Listed, ...]]:
    found: dict[str, tuple[_Listed, ...]] = {}
    for name, entry in reader.mapping(node).items():
        items = reader.listing(entry)
        if not items:
            reader.add_problem(entry, f"nothing for {name!r}", rule=f"must be {wanted}")
        each = [read(reader, item) for item in items]
        found[name] = tuple(item for item in each if item is not None)
    return found


def read_counts(reader: Reader, node: DocumentNode, *, least: int) -> dict[str, int]:
    """Read whole numbers by name."""
    found = {name: reader.integer(entry, least=least) for name, entry in reader.mapping(node).items()}
    return {name: count for name, count in found.items() if count is not None}


def read_replanning(reader: Reader, node: DocumentNode) -> float:
    """Read the seconds that a re-plan costs per point."""
    entries = read_entry(reader, node, REPLANNING_KEYS)
    return read_seconds(reader, entries.get("seconds_per_point"), 0.0)


def read_perturbation(reader: Reader, node: DocumentNode) -> Perturbation:
    """Read machines that become slower, once or again and again."""
    entries = read_entry(reader, node, PERTURBATION_KEYS, ("slowdown",))
    refuse_combination(reader, node, entries, ("at", "every"), "it happens once, or again and again")
    again = "every" in entries
    if again and "lasting" not in entries:
        rule = "with `every` the machines would become slower for ever"
        reader.add_problem(
            node, "an entry without the key 'lasting'", rule=rule, advice="add `lasting: TIME`"
        )
    for key in ("from", "until"):
        if key in entries and not again:
            advice = "add `every: TIME`, or write `at` and `lasting`"
            reader.add_problem(entries[key], f"{key!r} without 'every'", advice=advice)
    return Perturbation(
        # Over the whole Grid unless said otherwise (S1 section 13).
        machines=read_machines(reader, node, entries, default="*" if again else None),
        slowdown=read_span(reader, entries.get("slowdown"), least=1.0, default=1.0),
        lasting_s=read_seconds_span(reader, entries.get("lasting"), math.inf),
        at_s=read_seconds(reader, entries.get("from" if again else "at"), 0.0),
        every_s=read_seconds(reader, entries["every"], 1.0, above_0=True) if again else None,
        until_s=read_seconds(reader, entries.get("until"), math.inf),
    )


def read_failure(reader: Reader, node: DocumentNode) -> Failure:
    """Read machines that fail, once or again and again."""
    entries = read_entry(reader, node, FAILURE_KEYS)
    refuse_combination(reader, node, entries, ("at", "mtbf"), "machines fail once, or again and again")
    again = "mtbf" in entries
    return Failure(
        machines=read_machines(reader, node, entries),
        repair_s=read_seconds(reader, entries.get("repair"), math.inf),
        at_s=read_seconds(reader, entries.get("at"), 0.0),
        mtbf_s=read_seconds(reader, entries["mtbf"], 1.0, above_0=True) if again else None,
    )


def read_load(reader: Reader, node: DocumentNode) -> CompetingLoad:
    """Read competing processes."""
    entries = read_entry(reader, node, LOAD_KEYS)
    processes = reader.integer(entries["processes"], least=1) if "processes" in entries else 1
    at_s = read_seconds(reader, entries.get("at"), 0.0)
    until_s = read_seconds(reader, entries.get("until"), math.inf)
    if until_s < at_s:
        _refuse_backwards(reader, entries, at_s)
    machines = read_machines(reader, node, entries)
    return CompetingLoad(machines=machines, processes=processes or 1, at_s=at_s, until_s=until_s)


def _refuse_backwards(reader: Reader, entries: Mapping[str, DocumentNode], at_s: float) -> None:
    what = f"until {entries['until'].display()} ends before it begins"
    reader.add_problem(entries["until"], what, rule=f"must be at least {at_s:g} s, the time `at`")


def read_silence(reader: Reader, node: DocumentNode) -> Silence:
    """Read machines that do not answer."""
    entries = read_entry(reader, node, SILENCE_KEYS)
    what = reader.choice(entries["what"], SILENT_PARTS) if "what" in entries else None
    return Silence(
        machines=read_machines(reader, node, entries),
        at_s=read_seconds(reader, entries.get("at"), 0.0),
        lasting_s=read_seconds(reader, entries.get("lasting"), math.inf),
        what=what or SILENT_PARTS[0],
    )


_Item = TypeVar("_Item")


def is_scenario(document: Document) -> bool:
    """Say whether a document is a scenario: it has a key of one, and neither tasks nor machines."""
    root = document.root.value if document.root is not None else None
    if not isinstance(root, dict) or "tasks" in root or "machines" in root:
        return False
    return bool(root.keys() & (SCENARIO_KEYS.keys() - {"weft", "name", "description"}))


def read_scenario(document: Document) -> Scenario:
    """Read a scenario, with the traces it names, or raise every problem found."""
    root = document.root
    assert root is not None, "a document that is read as a scenario has a root"
    reader = Reader()
    entries = read_entry(reader, root, SCENARIO_KEYS)
    _read_version(reader, root, entries.get("weft"))
    absent = DocumentNode(value=None, place=root.place, path=root.path)

    def at(key: str) -> DocumentNode:
        return entries.get(key, absent)

    def each(key: str, read: Callable[[Reader, DocumentNode], _Item]) -> tuple[_Item, ...]:
        return tuple(read(reader, item) for item in reader.listing(at(key)))

    def given(key: str, read: Callable[[Reader, DocumentNode], _Item], default: _Item) -> _Item:
        return read(reader, entries[key]) if key in entries else default

    if "description" in entries:
        reader.text(entries["description"])
    file = PurePath(document.file) if document.file else PurePath("scenario")
    scenario = Scenario(
        name=given("name", Reader.text, None) or file.stem,
        arrivals=_read_arrivals(reader, at("arrivals"), file.parent),
        durations=given("durations", read_durations, Durations()),
        perturbations=each("perturbations", read_perturbation),
        failures=each("failures", read_failure),
        loads=each("loads", read_load),
        silences=each("silences", read_silence),
        suspensions=each("suspensions", read_suspension),
        cancellations=each("cancellations", read_cancellation),
        requirements=each("requirements", read_requirement),
        exit_codes=given("exit_codes", read_ends, {}),
        results=given("results", read_results, {}),
        iterations=read_counts(reader, entries["iterations"], least=1) if "iterations" in entries else {},
        lines=read_counts(reader, entries["lines"], least=0) if "lines" in entries else {},
        network=given("network", _read_network, NETWORKS[0]),
        overhead_per_task_s=read_seconds(reader, entries.get("overhead_per_task"), 0.0),
        stage_latency_s=read_seconds(reader, entries.get("stage_latency"), 0.0),
        profiles=read_counts(reader, entries["profiles"], least=1) if "profiles" in entries else {},
        denied=given("denied", read_patterns, ()),
        replanning_s_per_point=given("replanning", read_replanning, 0.0),
        document=document,
    )
    reader.finish(document)
    return scenario


def _read_version(reader: Reader, root: DocumentNode, node: DocumentNode | None) -> None:
    if not isinstance(root.value, dict):
        return
    if node is None:
        rule = "the file says which format it follows"
        reader.add_problem(root, "no version", rule=rule, advice="add `weft: 1`")
    elif isinstance(node.value, bool) or node.value != VERSION:
        advice = f"this weft reads version {VERSION}"
        reader.add_problem(node, f"version {node.display()} of the format", advice=advice)


def _read_network(reader: Reader, node: DocumentNode) -> str:
    return reader.choice(node, NETWORKS) or NETWORKS[0]


def _read_arrivals(
    reader: Reader, node: DocumentNode, folder: PurePath
) -> tuple[Arrival | Series | ArrivalTrace, ...]:
    found = [read_arrival(reader, item, folder) for item in reader.listing(node)]
    return tuple(each for each in found if each is not None)


def load_scenario(name: str | Path) -> Scenario:
    """Read a scenario file. The workflows it names are not opened yet."""
    from weft.formats.files import open_source
    from weft.formats.yaml_document import parse_document

    source = open_source(name)
    if not source.data.strip():
        place = SourceLocation(file=source.name)
        raise InvalidInput(Problem(what="the file is empty", advice="write a scenario into it", place=place))
    return read_scenario(parse_document(source.text(), source.name))


def load_arrival_workflows(scenario: Scenario) -> dict[str, Workflow]:
    """Read and check the workflows that arrive, each file once, under the names the scenario has for them."""
    from weft.formats.files import load_workflow

    found: dict[str, Workflow] = {}
    problems: list[Problem] = []
    tried: set[str] = set()
    for index, entry in enumerate(scenario.arrivals):
        for key in dict.fromkeys(workflow_keys(entry)):
            if key in tried:
                continue
            tried.add(key)
            try:
                found[key] = load_workflow(Path(scenario.folder, key))
            except InvalidInput as error:
                # A problem inside the file knows its place there; that there is none is one of the scenario.
                here = [replace(each, path=each.path or ("arrivals", index)) for each in error.problems]
                problems += locate_problems(here, scenario.document)
    if problems:
        raise InvalidInput(problems)
    return found
