"""Scenario files: the fields of every record, and functions that read and write scenarios.

All problems of a file are reported together.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

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
    SubmissionTerms,
    Suspension,
    override_params,
)
from weft.backends.simulation.scenario_checks import list_submissions, workflow_keys
from weft.documents import Document, DocumentNode, Reader, locate_problems
from weft.errors import DocumentPath, InvalidInput, Problem, SourceLocation, nearest, shorten
from weft.fields import (
    QUANTITY_SHAPE,
    TEXT,
    TEXT_SHAPE,
    Field,
    Record,
    Shape,
    ValueType,
    any_of,
    choice,
    integer,
    keep_node,
    list_shape,
    mapping_shape,
    never_written,
    version_field,
)
from weft.units import parse_seconds
from weft.urls import is_url, names_state
from weft.workflow.checks import check
from weft.workflow.file_format import EXPRESSION, PARAMS, split_range
from weft.workflow.workflow import Parameter, Workflow, set_params

MAX_ARRIVALS = 1_000_000
"""Maximal number of arrivals of one entry."""

_LARGEST_NUMBER = 1e300
"""Maximum of all numbers in a scenario; a larger number is refused as a mistake."""
_MAX_EXIT_CODE = 255

_Parse = Callable[[str], float | None]


# Numbers, times and ranges


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


def _time_type(*, above_0: bool = False) -> ValueType:
    """Return the value type of a time, such as ``90`` or ``1h30m``."""
    wanted = f"a time such as 90, 90s or 1h30m, {'above 0' if above_0 else 'at least 0'}"

    def read(reader: Reader, node: DocumentNode) -> float | None:
        return _read_quantity(reader, node, parse_seconds, wanted, 0.0, above_0)

    shape = {"type": ["number", "string"], "exclusiveMinimum": 0} if above_0 else QUANTITY_SHAPE
    return ValueType("time", shape, read, unit="s")


def _number_type(*, most: float = math.inf, above_0: bool = False) -> ValueType:
    """Return the value type of a plain number from 0 to ``most``; 0 is excluded if ``above_0`` is True."""
    wanted = f"a number {'above' if above_0 else 'at least'} 0"
    wanted += f" and at most {most:g}" if math.isfinite(most) else ""

    def read(reader: Reader, node: DocumentNode) -> float | None:
        found = _read_quantity(reader, node, None, wanted, 0.0, above_0)
        if found is not None and found > most:
            reader.add_problem(node, f"{node.display()} is not allowed", rule=f"must be {wanted}")
            return None
        return found

    shape: Shape = {"type": "number", "exclusiveMinimum" if above_0 else "minimum": 0}
    return ValueType("number", {**shape, "maximum": most} if math.isfinite(most) else shape, read)


def _span_type(label: str, parse: _Parse, wanted: str, least: float, unit: str) -> ValueType:
    """Return the value type of a single value, or of a range from which values are drawn (``3..10``)."""

    def read(reader: Reader, node: DocumentNode) -> Span | None:
        halves = split_range(node.value) if isinstance(node.value, str) else None
        if halves is None:
            single = _read_quantity(reader, node, parse, wanted, least, above=False)
            return None if single is None else Span(low=single, high=single)
        low, high = (parse(half.strip()) for half in halves)
        if low is None or high is None or not least <= low <= high:
            swapped = low is not None and high is not None and low > high
            advice = "the smaller bound comes first" if swapped else ""
            what = f"range {node.display()} is not allowed"
            reader.add_problem(node, what, rule=f"must be {wanted}", advice=advice)
            return None
        return Span(low=low, high=high)

    def write(span: Span) -> object:
        return span.low if span.low == span.high else f"{span.low!r}..{span.high!r}"

    shape = {"type": ["number", "string"], "minimum": least}
    return ValueType(label, shape, read, write, unit=unit)


def _parse_number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


_TIME = _time_type()
_TIME_ABOVE_0 = _time_type(above_0=True)
_SLOWDOWN = _span_type(
    "number or range", _parse_number, "a number, or a range such as 3..10, at least 1", 1.0, ""
)
_TIME_SPAN = _span_type(
    "time or range", parse_seconds, "a time, or a range such as 100s..600s, at least 0", 0.0, "s"
)


def _refuse_combination(
    reader: Reader, node: DocumentNode, entries: Mapping[str, DocumentNode], keys: Sequence[str], rule: str
) -> None:
    """Add a problem if an entry has more than one of ``keys``."""
    found = [key for key in keys if key in entries]
    if len(found) > 1:
        what = f"{' and '.join(map(repr, found))} are stated in one entry"
        reader.add_problem(node, what, rule=rule, advice="keep one")


# Machines


def _read_patterns(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    """Return the names and wildcards of machines in a node, with ranges (``m{1..4}``) expanded."""
    names: list[str] = []
    for item in reader.listing(node):
        if (text := reader.text(item)) is not None:
            names += reader.expand_names(item, text)
    return tuple(names)


def _read_machines(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    if isinstance(node.value, list) and not node.value:
        reader.add_problem(node, "no machine is named", advice='name one, or write "*" for all')
    return _read_patterns(reader, node)


_PATTERNS = ValueType("names of machines", list_shape(TEXT_SHAPE), _read_patterns, list)
_MACHINES = ValueType("names of machines", list_shape(TEXT_SHAPE), _read_machines, list)
_ONE_KEY_OF_MACHINES: Shape = {"oneOf": [{"required": ["machine"]}, {"required": ["machines"]}]}

# fmt: off
_MACHINE_FIELDS = (
    Field("machine", _MACHINES, "name of a machine", attribute="machines", write_record=never_written),
    Field("machines", _MACHINES, 'name, wildcard (`"altix*"`), range (`"altix{1..4}"`), or a list of them'),
)

PERTURBATION = Record("a perturbation", (
    *_MACHINE_FIELDS,
    Field("slowdown", _SLOWDOWN, "factor by which the machines become slower; a range to draw from: `3..10`",
          required=True),
    Field("lasting", _TIME_SPAN, "duration; a range to draw from: `100s..600s`", attribute="lasting_s",
          default=Span(low=math.inf, high=math.inf), default_text="permanently"),
    Field("at", _TIME, "time at which all these machines become slower, once", attribute="at_s",
          default_text="0", write_record=lambda entry: entry.at_s if entry.every_s is None else None),
    Field("every", _TIME_ABOVE_0,
          "mean interval after which one machine, drawn at random, becomes slower; needs `lasting`",
          attribute="every_s"),
    Field("from", _TIME, "start of the series, with `every`", attribute="at_s", default_text="0",
          write_record=lambda entry: None if entry.every_s is None else entry.at_s),
    Field("until", _TIME, "end of the series, with `every`", attribute="until_s", default=math.inf,
          default_text="never"),
), null_is_absent=True)

FAILURE = Record("a failure", (
    *_MACHINE_FIELDS,
    Field("at", _TIME, "time at which the machines fail, once", attribute="at_s", default=0.0),
    Field("mtbf", _TIME_ABOVE_0, "mean time from the start or a repair to the next failure of each machine",
          attribute="mtbf_s"),
    Field("repair", _TIME, "duration of the repair; its mean with `mtbf`", attribute="repair_s",
          default=math.inf, default_text="permanently"),
), null_is_absent=True, constraints=_ONE_KEY_OF_MACHINES)

LOAD = Record("a load", (
    *_MACHINE_FIELDS,
    Field("processes", integer(1), "competing processes n; they leave 1/(n + 1) of the speed",
          default_text="1"),
    Field("at", _TIME, "start of the load", attribute="at_s", default=0.0),
    Field("until", _TIME, "end of the load", attribute="until_s", default=math.inf, default_text="never"),
), null_is_absent=True, constraints=_ONE_KEY_OF_MACHINES)

SILENCE = Record("a silence", (
    *_MACHINE_FIELDS,
    Field("at", _TIME, "start of the silence", attribute="at_s", default=0.0),
    Field("lasting", _TIME, "duration", attribute="lasting_s", default=math.inf, default_text="permanently"),
    Field("what", choice(SILENT_PARTS), "part of the machine that does not answer", default="both"),
), null_is_absent=True, constraints=_ONE_KEY_OF_MACHINES)
# fmt: on


def _read_machine_entry(
    reader: Reader, node: DocumentNode, record: Record, entries: Mapping[str, DocumentNode], default: str = ""
) -> dict[str, Any]:
    """Return the values of an entry about machines.

    If the entry names no machines, it applies to ``default``; if that is "", a problem is added.
    """
    rule = "an entry names its machines once"
    _refuse_combination(reader, node, entries, ("machine", "machines"), rule)
    values = record.read_values(reader, entries)
    if "machines" not in values:
        values["machines"] = (default,) if default else ()
        if not default and isinstance(node.value, dict):
            advice = "add `machine: NAME`, or `machines:` with names or wildcards"
            reader.add_problem(node, "the entry names no machines", advice=advice)
    return values


def _read_perturbation(reader: Reader, node: DocumentNode) -> Perturbation:
    entries = PERTURBATION.read_entries(reader, node)
    _refuse_combination(
        reader, node, entries, ("at", "every"), "a slowdown happens once (`at`) or repeatedly (`every`)"
    )
    repeated = "every" in entries
    if repeated and "lasting" not in entries:
        rule = "with `every` and without `lasting` the machines would become slower for ever"
        reader.add_problem(node, "the entry lacks the key 'lasting'", rule=rule, advice="add `lasting: TIME`")
    for key in ("from", "until"):
        if key in entries and not repeated:
            advice = "add `every: TIME`, or write `at` and `lasting`"
            reader.add_problem(entries[key], f"{key!r} is stated without 'every'", advice=advice)
    # A repeated perturbation concerns the whole grid by default: docs/papers/dynamic-grid.md, section 13.
    values = _read_machine_entry(reader, node, PERTURBATION, entries, "*" if repeated else "")
    unknown = {"slowdown": Span(low=1.0, high=1.0), "lasting_s": Span(low=math.inf, high=math.inf)}
    return Perturbation(**{**unknown, **values})


def _read_failure(reader: Reader, node: DocumentNode) -> Failure:
    entries = FAILURE.read_entries(reader, node)
    _refuse_combination(
        reader, node, entries, ("at", "mtbf"), "machines fail once (`at`) or repeatedly (`mtbf`)"
    )
    return Failure(**_read_machine_entry(reader, node, FAILURE, entries))


def _read_load(reader: Reader, node: DocumentNode) -> CompetingLoad:
    entries = LOAD.read_entries(reader, node)
    load = CompetingLoad(**{"processes": 1, **_read_machine_entry(reader, node, LOAD, entries)})
    if load.until_s < load.at_s:
        what = f"the load ends before it begins (until {entries['until'].display()})"
        rule = f"must be at least {load.at_s:g} s, the time `at`"
        reader.add_problem(entries["until"], what, rule=rule)
    return load


def _read_silence(reader: Reader, node: DocumentNode) -> Silence:
    return Silence(**_read_machine_entry(reader, node, SILENCE, SILENCE.read_entries(reader, node)))


# Tasks and loops


def _lists_type(item: Shape, read_item: Callable[[Reader, DocumentNode], object], wanted: str) -> ValueType:
    """Return the value type of a mapping from names to lists with at least one item."""

    def read(reader: Reader, node: DocumentNode) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        for name, entry in reader.mapping(node).items():
            if not (items := reader.listing(entry)):
                reader.add_problem(entry, f"the list for {name!r} is empty", rule=f"must be {wanted}")
            each = [read_item(reader, item) for item in items]
            found[name] = tuple(item for item in each if item is not None)
        return found

    shape = any_of(item, {"type": "array", "items": item, "minItems": 1})
    return ValueType("mapping of lists", mapping_shape(shape), read, _write_lists)


def _read_end(reader: Reader, node: DocumentNode) -> End | None:
    if isinstance(node.value, str):
        if node.value in FAILURE_WORDS:
            return node.value
        close = nearest(node.value, FAILURE_WORDS)
        advice = f"did you mean {close!r}?" if close else ""
        what = f"{node.display()} is neither an exit code nor a kind of failure"
        rule = f"must be an exit code or one of {', '.join(FAILURE_WORDS)}"
        reader.add_problem(node, what, rule=rule, advice=advice)
        return None
    if (code := reader.integer(node, least=0)) is not None and code > _MAX_EXIT_CODE:
        reader.add_problem(node, f"exit code {code} is not allowed", rule=f"must be at most {_MAX_EXIT_CODE}")
    return code


def _read_result(reader: Reader, node: DocumentNode) -> Result | None:
    found: dict[str, str | float | bool | None] = {}
    if not isinstance(node.value, dict):
        reader.add_type_problem(node, "a mapping")
        return None
    for name, entry in node.value.items():
        if isinstance(entry.value, list | dict):
            reader.add_type_problem(entry, "a single value, because a result contains no lists or mappings")
        else:
            found[name] = entry.value
    return found


def _write_lists(lists: Mapping[str, Sequence[object]]) -> dict[str, list[object]]:
    return {name: list(items) for name, items in lists.items()}


def _counts_type(least: int) -> ValueType:
    """Return the value type of a mapping from names to whole numbers of at least ``least``."""

    def read(reader: Reader, node: DocumentNode) -> dict[str, int]:
        found = {name: reader.integer(entry, least=least) for name, entry in reader.mapping(node).items()}
        return {name: count for name, count in found.items() if count is not None}

    return ValueType("mapping of counts", mapping_shape({"type": "integer", "minimum": least}), read, dict)


def _read_durations(reader: Reader, node: DocumentNode) -> Durations:
    """Return the noise and bias of all tasks; a task that does not state a value has the common value."""
    values = DURATIONS.read(reader, node)
    tasks = values.pop("tasks", None)
    entries = reader.mapping(tasks) if tasks is not None else {}
    own = {
        name: Durations(**{**values, **TASK_DURATIONS.read(reader, entry)}) for name, entry in entries.items()
    }
    return Durations(**values, tasks=own)


def _write_task_durations(durations: Durations) -> object:
    return {n: {"noise": own.noise, "bias": own.bias} for n, own in durations.tasks.items()} or None


_NOISE = _number_type()
_BIAS = _number_type(above_0=True)

# fmt: off
TASK_DURATIONS = Record("the durations of a task", (
    Field("noise", _NOISE, "standard deviation of the true time as a share of its mean", default=0.0),
    Field("bias", _BIAS, "mean of the true time relative to the estimate", default=1.0),
), null_is_absent=True)

DURATIONS = Record("the durations", (
    *TASK_DURATIONS.fields,
    Field("tasks", ValueType("mapping by task", mapping_shape(TASK_DURATIONS.shape()), keep_node),
          "noise and bias of single tasks: `{lapw1: {bias: 2}}`", write_record=_write_task_durations),
), null_is_absent=True)

SUSPENSION = Record("a suspension", (
    Field("task", TEXT, "task whose running attempts the batch system suspends", required=True),
    Field("at", _TIME, "time of the suspension", attribute="at_s", required=True),
    Field("lasting", _TIME, "duration", attribute="lasting_s", default=math.inf, default_text="permanently"),
), null_is_absent=True)

CANCELLATION = Record("a cancellation", (
    Field("task", TEXT, "task whose running attempts the batch system cancels", required=True),
    Field("at", _TIME, "time of the cancellation", attribute="at_s", required=True),
), null_is_absent=True)

REQUIREMENT = Record("a change of requirements", (
    Field("task", TEXT, "task that requests other machines", required=True),
    Field("after", _number_type(most=1.0), "share of the work, 0 to 1, after which it requests them",
          required=True),
    Field("expression", EXPRESSION, "requirements from then on", attribute="requirements"),
    Field("rank", EXPRESSION, "rank from then on"),
), null_is_absent=True, constraints={"anyOf": [{"required": ["expression"]}, {"required": ["rank"]}]})

REPLANNING = Record("the cost of re-planning", (
    Field("seconds_per_point", _TIME, "time per schedule that the planner evaluates",
          attribute="replanning_s_per_point", default=0.0),
), null_is_absent=True)
# fmt: on


def _read_requirement(reader: Reader, node: DocumentNode) -> RequirementChange:
    entries = REQUIREMENT.read_entries(reader, node)
    if isinstance(node.value, dict) and not {"expression", "rank"} & entries.keys():
        advice = "add `expression:` (requirements) or `rank:`"
        reader.add_problem(node, "the change states neither requirements nor a rank", advice=advice)
    return RequirementChange(**{"task": "", "after": 0.0, **REQUIREMENT.read_values(reader, entries)})


# Arrivals

_SOURCE_KEYS = ("workflow", "mix", "order", "trace")
_TIME_KEYS = ("at", "every", "poisson")
_MIX = ValueType("mapping of counts", mapping_shape({"type": "integer", "minimum": 1}, least=1), keep_node)
_ORDER = ValueType(
    "list of files", any_of(TEXT_SHAPE, {"type": "array", "items": TEXT_SHAPE, "minItems": 1}), keep_node
)


def _read_results(reader: Reader, node: DocumentNode) -> str | None:
    if (text := reader.text(node)) is None:
        return None
    if (fault := find_folder_fault(text)) is None:
        return text
    reader.add_problem(node, f"{shorten(repr(text))} {fault}", rule=_RESULTS_RULE)
    return None


_RESULTS_RULE = "`results` is a folder of the project, such as results/ann"


def find_folder_fault(text: str) -> str | None:
    """Return why a text does not name a folder below the project; None if it does."""
    if not text.strip() or not text.isprintable() or names_state(text):
        return "is not a folder for results"
    if is_url(text) or text.startswith("/") or ".." in text.split("/"):
        return "leads out of the project"
    return None


# fmt: off
ARRIVAL = Record("an arrival", (
    Field("workflow", TEXT, "file of a workflow"),
    Field("mix", _MIX, "files and how many of each, in an order drawn without replacement: `{gee.yaml: 10}`"),
    Field("order", _ORDER, "files in the order of their arrival"),
    Field("trace", ValueType("file", TEXT_SHAPE, keep_node),
          "CSV file with a header and the columns `workflow`, `at` and, optionally, `owner`, `priority` "
          "and `results`"),
    Field("count", integer(1), "arrivals of `workflow`", default_text="1"),
    Field("at", _TIME, "time of submission; several workflows are submitted together", default_text="0"),
    Field("every", _TIME, "interval of a series"),
    Field("poisson", _TIME, "mean interval of a series with exponentially distributed intervals"),
    Field("from", _TIME, "start of a series", default_text="0"),
    Field("owner", TEXT, "owner of the workflows; in a trace: of rows without an owner"),
    Field("priority", _number_type(above_0=True),
          "weight of the runs against other runs: 2 counts double; used by policies that order workflows",
          default_text="1"),
    Field("params", PARAMS,
          "parameters of the workflows, as with `-p name=value`, which overrides them"),
    Field("results", ValueType("folder", TEXT_SHAPE, _read_results),
          "folder of the project below which the outputs of the runs are placed",
          default_text="the folder of the workflow; one folder per run if a workflow arrives several times"),
), null_is_absent=True, constraints={"oneOf": [{"required": [key]} for key in _SOURCE_KEYS]})
# fmt: on


def _read_arrival(
    reader: Reader, node: DocumentNode, folder: PurePath
) -> Arrival | Series | ArrivalTrace | None:
    """Return one entry of ``arrivals``; None if it has a problem, for example if it names no workflow."""
    entries = ARRIVAL.read_entries(reader, node)
    if not isinstance(node.value, dict):
        return None
    _refuse_combination(reader, node, entries, _SOURCE_KEYS, "an entry names its workflows by one key only")
    _refuse_combination(
        reader, node, entries, _TIME_KEYS, "an entry states its times of arrival by one key only"
    )
    _refuse_combination(
        reader, node, entries, ("at", "from"), "`from` is the start of a series, `at` is a single time"
    )
    values = ARRIVAL.read_values(reader, entries)
    terms: dict[str, Any] = {
        key: values[key] for key in ("owner", "priority", "params", "results") if key in values
    }
    if "trace" in entries:
        _refuse_beside(reader, entries, "trace", ("count", *_TIME_KEYS, "from"))
        return _read_trace(reader, entries["trace"], folder, terms)
    if not (workflows := _read_workflows(reader, node, entries, values)):
        return None
    if len(workflows) == 1 and not {"every", "poisson", "from"} & entries.keys():
        return Arrival(workflow=workflows[0], at_s=values.get("at", 0.0), **terms)
    return Series(
        workflows=workflows,
        shuffled="mix" in entries,
        from_s=values.get("from", values.get("at", 0.0)),
        every_s=values.get("every", values.get("poisson", 0.0)),
        poisson="poisson" in entries,
        **terms,
    )


def _refuse_beside(
    reader: Reader, entries: Mapping[str, DocumentNode], one: str, others: tuple[str, ...]
) -> None:
    for key in others:
        if key in entries:
            reader.add_problem(
                entries[key], f"{key!r} is stated together with {one!r}", advice=f"remove {key!r}"
            )


def _read_workflows(
    reader: Reader, node: DocumentNode, entries: Mapping[str, DocumentNode], values: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the files of the arriving workflows, one per arrival."""
    parts: list[tuple[str | None, int | None, DocumentNode]]
    if "workflow" in entries:
        count = values.get("count") if "count" in entries else 1
        parts = [(values.get("workflow"), count, entries.get("count", node))]
    elif "mix" in entries or "order" in entries:
        _refuse_beside(reader, entries, "mix" if "mix" in entries else "order", ("count",))
        parts = (
            _read_mix(reader, entries["mix"]) if "mix" in entries else _read_order(reader, entries["order"])
        )
    else:
        advice = "add `workflow: FILE`, `mix:`, `order:` or `trace:`"
        reader.add_problem(node, "the entry names no workflow", advice=advice)
        return ()
    names: list[str] = []
    for name, count, place in parts:
        if name is None or count is None:
            return ()
        if len(names) + count > MAX_ARRIVALS:
            rule = f"an entry has at most {MAX_ARRIVALS:,} arrivals"
            reader.add_problem(place, f"the entry has more than {MAX_ARRIVALS:,} arrivals", rule=rule)
            return ()
        names += [name] * count
    return tuple(names)


def _read_mix(reader: Reader, node: DocumentNode) -> list[tuple[str | None, int | None, DocumentNode]]:
    if not (entries := reader.mapping(node)) and isinstance(node.value, dict):
        reader.add_problem(node, "the mix contains no workflows", advice="write `mix: {FILE: NUMBER}`")
    return [(name, reader.integer(count, least=1), count) for name, count in entries.items()]


def _read_order(reader: Reader, node: DocumentNode) -> list[tuple[str | None, int | None, DocumentNode]]:
    if not (items := reader.listing(node)):
        reader.add_problem(
            node, "the order contains no workflows", advice="list the workflow files in the order of arrival"
        )
    return [(reader.text(item), 1, item) for item in items]


def _write_arrivals(arrivals: Sequence[Arrival | Series | ArrivalTrace]) -> list[dict[str, object]]:
    """Return ``arrivals`` as plain data; a trace is written as one entry per arrival."""
    found: list[dict[str, object]] = []
    for entry in arrivals:
        if isinstance(entry, ArrivalTrace):
            found += _write_arrivals(entry.arrivals)
        elif isinstance(entry, Arrival):
            found.append({"workflow": entry.workflow, "at": entry.at_s, **_write_terms(entry)})
        else:
            counts = {name: entry.workflows.count(name) for name in dict.fromkeys(entry.workflows)}
            what = {"mix": counts} if entry.shuffled else {"order": list(entry.workflows)}
            interval = {"poisson" if entry.poisson else "every": entry.every_s}
            found.append({**what, "from": entry.from_s, **interval, **_write_terms(entry)})
    return found


def _write_terms(terms: SubmissionTerms) -> dict[str, object]:
    params = PARAMS.write(terms.params) if terms.params else None
    values: dict[str, object] = {"owner": terms.owner, "params": params, "results": terms.results}
    if terms.priority != 1.0:
        values["priority"] = terms.priority
    return {key: value for key, value in values.items() if value is not None}


_TRACE_COLUMNS = ("workflow", "at", "owner", "priority", "results")


def _read_trace(
    reader: Reader, node: DocumentNode, folder: PurePath, terms: Mapping[str, Any]
) -> ArrivalTrace | None:
    """Return the arrivals in a CSV file; None if there is a problem.

    Empty cells get the value in ``terms``.
    """
    from weft.formats.files import open_source

    if (name := reader.text(node)) is None:
        return None
    source = reader.collect_problems(node, lambda: open_source(str(folder / name)))
    text = None if source is None else reader.collect_problems(node, source.text)
    if text is None:
        return None
    lines = csv.DictReader(io.StringIO(text), skipinitialspace=True, restkey="")
    rows = _TraceRows(reader, source.name, terms)
    try:
        if rows.check_header(lines.fieldnames or ()):
            arrivals = [rows.arrival(row, lines.line_num) for row in lines]
            return ArrivalTrace(file=name, arrivals=tuple(each for each in arrivals if each is not None))
    except csv.Error as error:
        rows.add_problem(lines.line_num, f"not CSV: {error}")
    return None


class _TraceRows:
    """Reads the rows of one trace file; each problem states the line of its row."""

    def __init__(self, reader: Reader, file: str, terms: Mapping[str, Any]) -> None:
        self._reader, self._file, self._terms = reader, file, terms

    def add_problem(self, line: int, what: str, rule: str = "", advice: str = "") -> None:
        """Add a problem about one line of the trace file."""
        place = SourceLocation(file=self._file, line=max(line, 1))
        self._reader.problems.append(Problem(what=what, rule=rule, advice=advice, location=place))

    def check_header(self, names: object) -> bool:
        """Return whether the header has all required columns.

        A problem is added for each unknown or missing column.
        """
        header = [str(name).strip() for name in names] if isinstance(names, list) else []
        for name in header:
            if name not in _TRACE_COLUMNS:
                close = nearest(name, _TRACE_COLUMNS)
                advice = f"did you mean {close!r}?" if close else f"known: {', '.join(_TRACE_COLUMNS)}"
                self.add_problem(1, f"unknown column {shorten(repr(name))}", advice=advice)
        missing = [name for name in _TRACE_COLUMNS[:2] if name not in header]
        if missing:
            advice = "begin the file with the line workflow,at,owner"
            self.add_problem(
                1, f"there is no column {' and no column '.join(map(repr, missing))}", advice=advice
            )
        return not missing

    def arrival(self, row: Mapping[str, str | None], line: int) -> Arrival | None:
        """Return the arrival that one row describes; None if the row has a problem."""
        values = {key.strip(): (value or "").strip() for key, value in row.items() if key}
        if "" in row:
            self.add_problem(line, "the row has more values than the header has columns")
            return None
        if (at_s := parse_seconds(values["at"])) is None or not math.isfinite(at_s):
            what = f"{shorten(repr(values['at']))} is not allowed"
            self.add_problem(line, what, rule="`at` must be a time such as 90 or 1h30m, at least 0")
        if not values["workflow"]:
            self.add_problem(
                line, "the row names no workflow", rule="the column `workflow` must name a workflow file"
            )
        own = self._own_terms(values, line)
        if at_s is None or own is None or not values["workflow"]:
            return None
        return Arrival(workflow=values["workflow"], at_s=at_s, **{**self._terms, **own})

    def _own_terms(self, values: Mapping[str, str], line: int) -> dict[str, Any] | None:
        """Return the terms that a row states; None if one of them has a problem."""
        found: dict[str, Any] = {"owner": values["owner"]} if values.get("owner") else {}
        if text := values.get("priority"):
            try:
                priority = float(text)
            except ValueError:
                priority = math.nan
            if not 0 < priority < math.inf:
                what = f"priority {shorten(repr(text))} is not allowed"
                self.add_problem(line, what, rule="`priority` must be a number above 0")
                return None
            found["priority"] = priority
        if folder := values.get("results"):
            if (fault := find_folder_fault(folder)) is not None:
                self.add_problem(line, f"{shorten(repr(folder))} {fault}", rule=_RESULTS_RULE)
                return None
            found["results"] = folder
        return found


# The scenario


def _entries_type(record: Record, read: Callable[[Reader, DocumentNode], object]) -> ValueType:
    return ValueType(
        "list",
        list_shape(record.shape()),
        lambda reader, node: tuple(read(reader, item) for item in reader.listing(node)),
        lambda items: [record.write(item) for item in items],
    )


def _task_entries_type(record: Record, kind: Callable[..., object]) -> ValueType:
    return _entries_type(
        record, lambda reader, node: kind(**{"task": "", "at_s": 0.0, **record.read(reader, node)})
    )


_END_SHAPE = any_of(
    {"type": "integer", "minimum": 0, "maximum": _MAX_EXIT_CODE}, {"enum": list(FAILURE_WORDS)}
)
_RESULT_SHAPE = mapping_shape({"type": ["string", "number", "boolean", "null"]})
_ARRIVALS = ValueType("list", list_shape(ARRIVAL.shape()), keep_node, _write_arrivals)
_DURATIONS = ValueType("mapping", DURATIONS.shape(), _read_durations, DURATIONS.write)
_EXIT_CODES = _lists_type(_END_SHAPE, _read_end, "a list of exit codes")
_RESULTS = _lists_type(_RESULT_SHAPE, _read_result, "a list of results, each {name: value}")

# fmt: off
SCENARIO = Record("a scenario", (
    version_field(required=True),
    Field("name", TEXT, "name of the scenario", default_text="the file's name"),
    Field("description", TEXT, "free text", write_record=never_written),
    Field("arrivals", _ARRIVALS, "workflows that are submitted, with times and owners", default=(),
          default_text="those of the command, at 0"),
    Field("durations", _DURATIONS, "true times of tasks relative to their estimates", default=Durations(),
          default_text="as estimated"),
    Field("perturbations", _entries_type(PERTURBATION, _read_perturbation),
          "machines that become slower for a time", default=()),
    Field("failures", _entries_type(FAILURE, _read_failure), "machines that fail, and their repair",
          default=()),
    Field("loads", _entries_type(LOAD, _read_load), "competing processes on machines", default=()),
    Field("silences", _entries_type(SILENCE, _read_silence), "machines that compute but do not answer",
          default=()),
    Field("suspensions", _task_entries_type(SUSPENSION, Suspension),
          "tasks that the batch system suspends", default=()),
    Field("cancellations", _task_entries_type(CANCELLATION, Cancellation),
          "tasks that the batch system cancels", default=()),
    Field("requirements", _entries_type(REQUIREMENT, _read_requirement),
          "tasks that request other machines after a part of their work", default=()),
    Field("exit_codes", _EXIT_CODES,
          f"by task: exit codes of its attempts in turn, or {', '.join(f'`{w}`' for w in FAILURE_WORDS)}; "
          "later attempts end like the last one", default={}, default_text="0"),
    Field("results", _RESULTS, "by task: results of its attempts in turn; later attempts repeat the last",
          default={}),
    Field("iterations", _counts_type(1), "by loop: number of iterations", default={},
          default_text="by the exit codes"),
    Field("lines", _counts_type(0), "by file: number of lines that a growing sweep reads", default={},
          default_text="1"),
    Field("network", choice(NETWORKS), "whether transfers share the bandwidth of links", default=NETWORKS[0]),
    Field("overhead_per_task", _TIME, "time that every attempt takes besides its work",
          attribute="overhead_per_task_s", default=0.0),
    Field("stage_latency", _TIME,
          "time of every stage besides moving data; cancelling and cleaning up take half of it",
          attribute="stage_latency_s", default=0.0),
    Field("profiles", _counts_type(1), "by task: iterations that its application reports", default={}),
    Field("denied", _PATTERNS, "machines to which access is denied: names, wildcards, ranges", default=()),
    Field("replanning", ValueType("mapping", REPLANNING.shape(), REPLANNING.read), "cost of a re-plan",
          attribute="*", default_text="0", write_record=lambda scenario: REPLANNING.write(scenario) or None),
), null_is_absent=True)
# fmt: on

SCENARIO_RECORDS = {
    "scenario": SCENARIO,
    "arrival": ARRIVAL,
    "durations": DURATIONS,
    "perturbation": PERTURBATION,
    "failure": FAILURE,
    "load": LOAD,
    "silence": SILENCE,
    "suspension": SUSPENSION,
    "cancellation": CANCELLATION,
    "requirement": REQUIREMENT,
    "replanning": REPLANNING,
}
"""By name of its table on the reference page: a record of a scenario file."""


def is_scenario(document: Document) -> bool:
    """Return whether a document has a key of scenarios, and neither tasks nor machines."""
    root = document.root.value if document.root is not None else None
    if not isinstance(root, dict) or "tasks" in root or "machines" in root:
        return False
    return bool(root.keys() & (SCENARIO.help.keys() - {"weft", "name", "description"}))


def read_scenario(document: Document) -> Scenario:
    """Return the scenario in a document, including the traces that it names.

    Raises InvalidInput with all problems.
    """
    root = document.root
    assert root is not None, "a document that is read as a scenario has a root"
    reader = Reader()
    values = SCENARIO.read(reader, root)
    values.pop("description", None)
    file = PurePath(document.file) if document.file else PurePath("scenario")
    values["name"] = values.get("name") or file.stem
    if "arrivals" in values:
        found = [_read_arrival(reader, item, file.parent) for item in reader.listing(values["arrivals"])]
        values["arrivals"] = tuple(each for each in found if each is not None)
    reader.finish(document)
    return Scenario(**values, document=document)


def scenario_schema() -> Shape:
    """Return the JSON Schema of a scenario file."""
    from weft.formats.schema import add_schema_header

    return add_schema_header("scenario", SCENARIO.shape())


def load_scenario(name: str | Path) -> Scenario:
    """Return the scenario in a file; the workflows that it names are not opened."""
    from weft.formats.files import open_source
    from weft.formats.yaml_document import parse_document

    source = open_source(name)
    if not source.data.strip():
        place = SourceLocation(file=source.name)
        raise InvalidInput("the file is empty", advice="write a scenario into it", location=place)
    return read_scenario(parse_document(source.text(), source.name))


def load_arrival_workflows(scenario: Scenario, *, checked: bool = True) -> dict[str, Workflow]:
    """Return the workflows that arrive, by file and parameters (see ``SubmissionTerms.name_key``).

    Each file is read once. Raises InvalidInput with the problems of all files. With ``checked=False`` the
    workflows are read but not checked; the compilation checks them.
    """
    from weft.formats.files import load_workflow, read_workflow_file

    found: dict[str, Workflow] = {}
    problems: list[Problem] = []
    files: dict[str, Workflow | None] = {}
    for index, entry in enumerate(scenario.arrivals):
        submitted = {terms.name_key(file): (file, terms) for file, terms in list_submissions(entry)}
        for key, (file, terms) in submitted.items():
            place: DocumentPath = ("arrivals", index)
            try:
                if file not in files:
                    files[file] = None
                    load = load_workflow if checked else read_workflow_file
                    files[file] = load(Path(scenario.folder, file))
                loaded = files[file]
                if loaded is not None and key not in found:
                    place = (*place, "params")
                    found[key] = set_params(loaded, terms.params)
                    if terms.params and checked:
                        check(found[key])
            except InvalidInput as error:
                # A problem inside the file has its place there; a missing file is a problem of the scenario.
                here = [replace(each, path=each.path or place) for each in error.problems]
                problems += locate_problems(here, scenario.document)
    if problems:
        raise InvalidInput(problems)
    return found


def load_overridden_arrivals(
    scenario: Scenario, params: Mapping[str, Parameter]
) -> tuple[Scenario, dict[str, Workflow]]:
    """Return a scenario and the workflows that arrive, both with the parameters of a command.

    ``params`` replace the values that the arrivals state, so the keys of the workflows name the values that
    are used. Names and types of the values that the scenario states are checked too, with their place in
    the file. The workflows are not checked; the compilation checks them.
    """
    loaded, changed = load_arrival_workflows(scenario, checked=False), override_params(scenario, params)
    found: dict[str, Workflow] = {}
    for stated, used in zip(scenario.arrivals, changed.arrivals, strict=True):
        for old, (file, terms) in zip(workflow_keys(stated), list_submissions(used), strict=True):
            found[terms.name_key(file)] = set_params(loaded[old], terms.params)
    return changed, found
