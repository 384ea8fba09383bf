"""Reports of an executed run: tables, the summary for the terminal, and the HTML page.

The page shows the Gantt chart of the attempts, failures with their logs, prediction and outcome, the critical
path, kinds of tasks, migrations, transfers, utilisation, runs and machines. Text written by tasks is escaped
in the page; in the terminal control characters become question marks.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from weft.engine.history import AttemptRecord, HostOutage
from weft.errors import shorten
from weft.papers.statistics import Summary, summarise
from weft.predictions import note_unused
from weft.redaction import redact
from weft.reports.charts import box_plots, estimate_chart, promise_chart, steps_chart
from weft.reports.critical_path import PathStep
from weft.reports.execution import ExecutedRun, FailureReport, PromiseOutcome
from weft.reports.gantt_html import HtmlGantt
from weft.reports.report import GanttView
from weft.reports.simulation import (
    attempts_chart,
    fairness_facts,
    migration_table,
    run_table,
    slowdown_table,
    transfer_table,
    transfers_text,
    use_table,
)
from weft.reports.text import TextTable, printable, promise_text, strays_text, time_text
from weft.units import format_bytes, format_count, format_seconds

_NOTHING = "-"
_NOTABLE = 0.01
"""Relative deviation from the planned time above which a task is listed."""
_LINKS = {
    "data": "data of",
    "iteration": "next iteration after",
    "retry": "retry after",
    "nodes": "nodes of",
    "arrival": "arrival of the run",
}


def promise_table(executed: ExecutedRun) -> TextTable:
    """Return a table with a row per run that has a promise: promise and measured time."""
    rows = [
        (
            str(executed.number(each.run)),
            each.workflow,
            each.word,
            time_text(each.promise) if each.promise.p50_s is None else format_seconds(each.promise.p50_s),
            "unknown" if each.at_most_s is None else format_seconds(each.at_most_s),
            format_seconds(each.took_s),
            each.change_text or _NOTHING,
        )
        for each in executed.verdicts
    ]
    heading = ("run", "workflow", "promise", "P50", "P90", "took", "change")
    return TextTable(heading=heading, rows=tuple(rows), texts=3)


def deviation_table(executed: ExecutedRun) -> TextTable:
    """Return a table of tasks that ran elsewhere than planned, or over 1 % longer or shorter than planned."""
    names = executed.machine_names
    rows = [
        (
            each.label,
            names[each.planned_machine],
            names[each.machine] if each.machine != each.planned_machine else "as planned",
            format_seconds(each.planned_s),
            format_seconds(each.took_s),
            _signed(each.longer_s),
            _signed(each.late_s),
        )
        for each in executed.deviations
        if each.machine != each.planned_machine or abs(each.longer_s) > _NOTABLE * each.planned_s
    ]
    heading = ("task", "planned on", "ran on", "planned", "ran", "longer", "ended later")
    return TextTable(heading=heading, rows=tuple(rows), texts=3)


def _signed(seconds: float) -> str:
    return ("" if seconds < 0 else "+") + format_seconds(seconds)


def path_table(executed: ExecutedRun) -> TextTable:
    """Return a table with a row per attempt on the critical path, by time."""
    rows = [
        (
            attempt_label(step.attempt, executed),
            executed.machine_names[step.attempt.machine],
            _why(step, executed),
            _span(step.staged_s),
            _span(step.waited_s),
            _span(step.ran_s),
            format_seconds(step.end_s - executed.origin_s),
        )
        for step in executed.path.steps
    ]
    heading = ("task", "machine", "started after", "staging", "waiting", "running", "ended at")
    return TextTable(heading=heading, rows=tuple(rows), texts=3)


def _why(step: PathStep, executed: ExecutedRun) -> str:
    if step.after is None:
        return _LINKS[step.link]
    return f"{_LINKS[step.link]} {attempt_label(step.after, executed)}"


def _span(seconds: float) -> str:
    return format_seconds(seconds) if seconds > 0 else _NOTHING


def attempt_label(attempt: AttemptRecord, executed: ExecutedRun) -> str:
    """Return the label of an attempt; the run number comes first unless the report covers only that run."""
    label = attempt.label
    own = not executed.several and attempt.run == executed.run_summaries[0].index
    return label if own else f"{executed.number(attempt.run)}:{label}"


def kind_table(executed: ExecutedRun) -> TextTable:
    """Return a table with a row per kind of task: numbers of tasks, times, CPU and memory."""
    rows = [
        (
            f"{kind.workflow}: {kind.kind}" if executed.several else kind.kind,
            f"{kind.completed}/{kind.tasks}",
            str(kind.taken_over or _NOTHING),
            str(kind.failed or _NOTHING),
            str(kind.moved or _NOTHING),
            str(kind.cancelled or _NOTHING),
            str(kind.skipped or _NOTHING),
            *(_known_s(value) for value in (kind.mean_s, kind.p50_s, kind.p90_s, kind.most_s)),
            _known_s(kind.estimate_s),
            _NOTHING if kind.ratio is None else f"{kind.ratio:.2f}",
            _NOTHING if kind.cpu_share is None else f"{kind.cpu_share:.0%}",
            _NOTHING if kind.max_rss_bytes is None else format_bytes(kind.max_rss_bytes),
        )
        for kind in executed.kinds
    ]
    heading = (
        "kind", "done", "reused", "failed attempts", "moved", "cancelled", "skipped", "mean", "P50", "P90",
        "most", "estimate", "ratio", "CPU", "memory",
    )  # fmt: skip
    return TextTable(heading=heading, rows=tuple(rows), texts=1)


def _known_s(seconds: float | None) -> str:
    return _NOTHING if seconds is None else format_seconds(seconds)


def moved_table(executed: ExecutedRun) -> TextTable:
    """Return a table with a row per migration; times are relative to the first arrival."""
    moves = [
        replace(move, run=executed.number(move.run), at_s=move.at_s - executed.origin_s)
        for move in executed.moves
    ]
    return migration_table(moves, executed.machine_names)


def execution_runs(executed: ExecutedRun) -> TextTable:
    """Return a table with a row per run; times are relative to the first arrival."""
    origin_s = executed.origin_s
    return run_table(
        replace(
            story,
            index=executed.number(story.index),
            arrival_s=story.arrival_s - origin_s,
            ended_s=None if story.ended_s is None else story.ended_s - origin_s,
        )
        for story in executed.run_summaries
    )


def execution_facts(executed: ExecutedRun, *, verbose: bool = False) -> list[tuple[str, str]]:
    """Return (label, text) pairs that summarise an executed run, the most important first.

    ``verbose``: lists of kinds in the texts are complete.
    """
    facts = [("outcome", executed.outcome), ("took", format_seconds(executed.took_s))]
    if len(executed.verdicts) == 1:
        facts.append(("promise", promise_outcome_text(executed.verdicts[0], verbose=verbose)))
    elif executed.verdicts:
        facts.append(("promises", _promises(executed.verdicts)))
    facts.append(("tasks", _tasks(executed)))
    facts += _slowdown_facts(executed)
    failed, moved = executed.failures, [move for move in executed.moves if move.happened]
    if failed:
        facts.append(("failures", _counts(each.failed.cause for each in failed)))
    if executed.stage_retries:
        facts.append(("retried stages", _counts(shorten(each.problem) for each in executed.stage_retries)))
    if moved:
        facts.append(("migrations", _counts(move.reason for move in moved)))
    if moves := transfers_text(executed.attempts):
        facts.append(("transfers", moves))
    facts.append(("critical path", _path(executed)))
    return facts


def _slowdown_facts(executed: ExecutedRun) -> list[tuple[str, str]]:
    """Return (label, text) pairs about slowdowns if the execution has several runs; else an empty list."""
    runs, every = executed.history.runs, executed.slowdown_of_all_runs
    if len(runs) < 2 or every is None or not executed.run_summaries:
        return []
    if executed.several:
        return [] if executed.slowdown is None else fairness_facts(executed.slowdown)
    own, (label, mean), *spread = executed.run_summaries[0].slowdown, *fairness_facts(every)
    text = f"{_NOTHING if own is None else format(own, '.3g')}; {every.number} of {len(runs)} runs: {mean}"
    return [(label, text), *spread]


def promise_outcome_text(verdict: PromiseOutcome, *, verbose: bool = False) -> str:
    """Return a promise and whether it was kept, or why the promised time is unknown."""
    text = promise_text(verdict.promise, verbose=verbose)
    if not verdict.promise.has_estimate:
        return text
    change = f", {verdict.change_text}" if verdict.change_text else ""
    return f"{text}: {verdict.word}{change}"


def _promises(verdicts: Sequence[PromiseOutcome]) -> str:
    judged = [each for each in verdicts if each.promise.has_estimate]
    kept = sum(each.word.startswith("kept") for each in judged)
    unknown = len(verdicts) - len(judged)
    parts = [f"{kept} of {len(judged)} kept"] if judged else []
    return ", ".join([*parts, f"{unknown} unknown"] if unknown else parts)


def _tasks(executed: ExecutedRun) -> str:
    done = sum(kind.completed for kind in executed.kinds)
    text = f"{done} completed"
    if again := executed.taken_over:
        text += f", {again} of them reused from earlier runs"
    skipped = sum(kind.skipped for kind in executed.kinds)
    return f"{text}, {skipped} skipped" if skipped else text


def _counts(reasons: Iterable[str]) -> str:
    found = Counter(reasons)
    parts = ", ".join(f"{count} {reason or 'without a reason'}" for reason, count in found.most_common())
    return f"{found.total()} ({parts})"


def _path(executed: ExecutedRun) -> str:
    path = executed.path
    spans = (("running", path.ran_s), ("staging", path.staged_s), ("waiting", path.waited_s))
    shown = [f"{format_seconds(seconds)} {word}" for word, seconds in spans if seconds > 0]
    return ", ".join(shown) or "nothing ran"


def path_sentence(executed: ExecutedRun) -> str:
    """Return the critical path as text: seconds of running, staging and waiting, and the tasks on it."""
    steps = executed.path.steps
    names = [attempt_label(step.attempt, executed) for step in steps]
    chain = " → ".join(names if len(names) <= 6 else [*names[:3], "…", *names[-2:]])
    after = executed.path.after_s
    end = f"; {format_seconds(after)} between the last end and the end of the run" if after > 0 else ""
    return f"{format_count(len(steps), 'attempt')}: {_path(executed)}{end}. {chain}".rstrip()


def execution_notes(executed: ExecutedRun, *, verbose: bool = False) -> list[str]:
    """Return notes on an executed run: runs that did not complete or end, and caveats.

    ``verbose``: lists in the notes are complete.
    """
    notes = []
    for story in executed.run_summaries:
        if story.outcome not in ("completed", "") and (story.reason or executed.several):
            why = f": {story.reason}" if story.reason else ""
            notes.append(f"run {executed.number(story.index)} ({story.workflow}) {story.outcome}{why}")
        elif not story.outcome:
            notes.append(f"run {executed.number(story.index)} ({story.workflow}) has not ended")
    for each in executed.verdicts if executed.several else ():
        if not each.promise.has_estimate:
            where = f"run {executed.number(each.run)} ({each.workflow})"
            notes.append(f"{where}, promise: {promise_text(each.promise, verbose=verbose)}")
    notes += _prediction_notes(executed)
    notes += _machine_notes(executed, None if verbose else _SHOWN_CHANGES)
    notes += _delay_notes(executed, None if verbose else _SHOWN_CHANGES)
    notes += _module_notes(executed, None if verbose else _SHOWN_CHANGES)
    notes += _results_notes(executed, None if verbose else _MOST_RUNS)
    if strays := strays_text(executed.attempts, verbose=verbose):
        notes.append(strays)
    if executed.several:
        notes.append("the critical path belongs to the run that ended last")
    elif len(executed.history.runs) > 1:
        notes.append("machine utilisation covers all runs of the execution")
    return notes


_SHOWN_CHANGES = 10


def _prediction_notes(executed: ExecutedRun) -> list[str]:
    """Return notes on predictions that match no task or machine of the reported runs."""
    runs = executed.state.runs
    flows = {runs[each.index].compiled.key: runs[each.index].compiled.graph.workflow
             for each in executed.run_summaries if each.index < len(runs)}  # fmt: skip
    kinds = [task.name for flow in flows.values() for task in flow.tasks]
    machines = [name for each in executed.machines for name in (each.name, each.host_name)]
    return note_unused((row for flow in flows.values() for row in flow.predictions), kinds, machines)


def _machine_notes(executed: ExecutedRun, most: int | None) -> list[str]:
    """Return notes on machines that did not answer, were lost, came back, joined or were closed.

    An outage has one note, from its begin. ``most``: number of notes; None: all.
    """
    names, notes, outages = executed.machine_names, list[str](), list[HostOutage]()
    for each in executed.history.machine_changes:
        text, at_s = each.text, each.at_s
        if (outage := each.outage) is not None:
            if any(outage is earlier for earlier in outages):
                continue
            outages.append(outage)
            text, at_s = outage.describe(executed.history.now), outage.since_s
        after = format_seconds(round(max(0.0, at_s - executed.origin_s), 1))
        notes.append(f"machine {names[each.machine]} {text}, after {after}")
    more = 0 if most is None else len(notes) - most
    return [*notes[:most], f"{format_count(more, 'more change')} of machines"] if more > 0 else notes


def _delay_notes(executed: ExecutedRun, most: int | None) -> list[str]:
    """Return notes on jobs that waited to be submitted or started; None: on all."""
    delays, names = executed.history.delays, executed.machine_names
    shown = [each.describe(names[each.machine], executed.history.now) for each in delays[:most]]
    more = len(delays) - len(shown)
    return [*map(redact, shown), *([f"{format_count(more, 'more wait')} of jobs"] if more > 0 else [])]


def _module_notes(executed: ExecutedRun, most: int | None) -> list[str]:
    """Return notes on modules of tasks that failed without consequences for the tasks; None: on all."""
    failed = executed.module_failures
    notes = [redact(each.text) + (f" ({count} times)" if count > 1 else "") for each, count in failed[:most]]
    more = len(failed) - len(notes)
    return [*notes, f"{format_count(more, 'more failure')} of modules of tasks"] if more > 0 else notes


def _results_notes(executed: ExecutedRun, most: int | None) -> list[str]:
    """Return notes on the folders of outputs, for runs that have their own results folder; None: for all."""
    placed = [story for story in executed.run_summaries if story.results]
    notes = [
        f"outputs of run {executed.number(story.index)} ({story.workflow}) are in {story.results}"
        for story in placed[:most]
    ]
    more = len(placed) - len(notes)
    return [*notes, f"{format_count(more, 'more run')} with folders of their own"] if more > 0 else notes


_MOST_FAILURES = 100
"""Maximal number of failures shown with their logs."""
_MOST_RUNS = 20
"""Maximal number of runs in the chart of promises, and of runs whose results folders are listed."""
_MOST_BOXES = 40
"""Maximal number of kinds in the box plots; the kinds with the most seconds in total are shown."""


def execution_chart(executed: ExecutedRun) -> GanttView:
    """Return the data of a Gantt chart of the attempts that ran, with the critical path."""
    machines = [(machine.name, machine.nodes) for machine in executed.machines]
    chart = attempts_chart(
        executed.title,
        executed.ran,
        executed.history,
        machines,
        several=executed.several,
        origin_s=executed.origin_s,
        number=executed.number,
    )
    position = {attempt.number: index for index, attempt in enumerate(executed.ran)}
    return replace(
        chart,
        machine_sites=tuple(machine.site or "" for machine in executed.machines),
        facts=tuple(execution_facts(executed)),
        critical=tuple(
            position[step.attempt.number]
            for step in executed.path.steps
            if step.attempt.number in position  # attempts of runs that are not reported have no bar
        ),
    )


def execution_html(executed: ExecutedRun) -> str:
    """Return the report as a self-contained HTML page."""
    promises = dict.fromkeys(
        promise_text(each.promise) for each in executed.verdicts if not each.promise.has_estimate
    )
    return HtmlGantt().render(
        execution_chart(executed),
        "execution.html",
        failures=[_failure_record(each, executed) for each in executed.listed_failures[:_MOST_FAILURES]],
        more_failures=max(0, len(executed.failures) - _MOST_FAILURES),
        promise_chart=promise_chart(executed.verdicts[:_MOST_RUNS]),
        promises=promise_table(executed),
        unknown_promises=list(promises)[:_MOST_RUNS],
        deviations=deviation_table(executed),
        path_sentence=path_sentence(executed),
        path=path_table(executed),
        kinds=kind_table(executed),
        seconds_chart=box_plots("Seconds of completed attempts", _seconds_by_kind(executed)),
        estimate_chart=estimate_chart(executed.timed),
        migrations=moved_table(executed),
        transfers=transfer_table(
            executed.attempts, executed.machine_names, partial(attempt_label, executed=executed)
        ),
        running_chart=steps_chart("Programs running", executed.running, executed.took_s),
        nodes_chart=steps_chart("Nodes taken", executed.nodes_taken, executed.took_s),
        active_chart=steps_chart("Active workflows", executed.active, executed.took_s),
        ready_chart=steps_chart("Ready tasks", executed.ready, executed.took_s),
        slowdown_chart=box_plots("By application", list(executed.slowdowns.items())),
        slowdowns=slowdown_table(executed.slowdowns.items()),
        runs=execution_runs(executed),
        machines=use_table(executed.uses),
        notes=execution_notes(executed),
    )


def _failure_record(each: FailureReport, executed: ExecutedRun) -> dict[str, object]:
    run = f"run {executed.number(each.failed.run)}: " if executed.several else ""
    reason = each.failed.reason
    return {
        "headline": run + each.headline(executed.machine_names),
        "when": f", at {format_seconds(each.failed.at_s - executed.origin_s)}",
        "texts": [text for text in (reason, "" if each.text in reason else each.text) if text],
        "log": each.log,
    }


def _seconds_by_kind(executed: ExecutedRun) -> list[tuple[str, Summary]]:
    found: dict[str, list[float]] = {}
    for attempt in executed.ran:
        if attempt.ending == "completed":
            found.setdefault(attempt.kind, []).append(attempt.ran_s)
    longest = sorted(found, key=lambda kind: -sum(found[kind]))[:_MOST_BOXES]
    return [(kind, summarise(seconds)) for kind, seconds in found.items() if kind in longest]


_SHOWN_KINDS = 20
_SHOWN_FAILURES = 5
_LOG_LINES = 5
_UNLIKELY = (
    "reused", "failed attempts", "moved", "cancelled", "CPU", "memory", "P50", "most", "estimate", "ratio",
)  # fmt: skip
"""Columns of the kind table that the terminal summary omits if they are empty."""
_LEAST_WIDTH = 40


def execution_lines(
    executed: ExecutedRun, *, width: int = 100, ascii_only: bool = False, verbose: bool = False
) -> list[str]:
    """Return the lines of the terminal summary; ``width`` (at least 40) limits text but not tables.

    ``verbose``: tables and lists are complete.
    """
    facts = execution_facts(executed, verbose=verbose)
    label_width = max(len(label) for label, _ in facts)
    wrapped = partial(_wrapped, width=width, ascii_only=ascii_only)
    lines = wrapped(executed.title)
    for label, text in facts:
        lines += wrapped(f"  {label:<{label_width}}  {text}", indent=label_width + 4)
    tables = [promise_table(executed)] if executed.several and executed.verdicts else []
    if executed.several:
        tables.append(execution_runs(executed))
    if executed.several and executed.slowdowns:
        tables.append(slowdown_table(executed.slowdowns.items()))
    if executed.kinds:
        tables.append(_without_empty(kind_table(executed)))
    for table in tables:
        lines += ["", *(printable(line) for line in _table(table, None if verbose else _SHOWN_KINDS))]
    texts = [f"note: {note}" for note in execution_notes(executed, verbose=verbose)]
    texts += failure_lines(executed, None if verbose else _SHOWN_FAILURES)
    return [*lines, *(part for text in texts for part in wrapped(text))]


def failure_lines(executed: ExecutedRun, most: int | None = _SHOWN_FAILURES) -> list[str]:
    """Return lines about the first ``most`` of ``listed_failures``: cause, last lines and path of the log.

    If ``most`` is None, all failures are listed.
    """
    shown = executed.listed_failures[:most]
    lines = [line for each in shown for line in _failure_text(each, executed)]
    rest = len(executed.listed_failures) - len(shown)
    more = f"… and {format_count(rest, 'more failure')}; `weft report -v` lists all"
    return [*lines, more] if rest > 0 else lines


def _failure_text(each: FailureReport, executed: ExecutedRun) -> Iterator[str]:
    run = f"run {executed.number(each.failed.run)}: " if executed.several else ""
    yield ""
    yield f"{run}{each.headline(executed.machine_names)}"
    texts = each.failed.reason
    yield from (f"  {text}" for text in (texts, "" if each.text in texts else each.text) if text)
    if each.log is not None:
        yield from (f"  | {line}" for line in each.log.lines[-_LOG_LINES:])
        yield f"  log: {each.log.path}"


def _table(table: TextTable, most: int | None) -> list[str]:
    """Return heading and the first ``most`` rows of a table; None: all rows."""
    lines = [f"  {line}" for line in table.lines()]
    rest = 0 if most is None else len(table.rows) - most
    return [*lines[:-rest], f"  … {rest} more"] if rest > 0 else lines


def _without_empty(table: TextTable) -> TextTable:
    """Return a table without the optional columns that are empty."""
    columns = list(zip(table.heading, *table.rows, strict=True))
    kept = [column for column in columns if column[0] not in _UNLIKELY or set(column[1:]) - {"-"}]
    heading, *rows = zip(*kept, strict=True)
    return TextTable(heading=heading, rows=tuple(rows), texts=table.texts)


def _wrapped(line: str, width: int, *, ascii_only: bool, indent: int | None = None) -> list[str]:
    """Return a line as lines of at most ``width`` columns.

    The following lines are indented by ``indent``; by default this is the indentation of the line plus 2.
    """
    # Redact before wrapping: the parts of a secret would not be recognised later.
    text = printable(redact(line), ascii_only=ascii_only)
    if indent is None:
        indent = len(text) - len(text.lstrip()) + 2
    return textwrap.wrap(
        text, max(width, _LEAST_WIDTH), subsequent_indent=" " * indent, break_on_hyphens=False
    ) or [""]
