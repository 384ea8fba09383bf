"""The tables of an executed run as texts, for the terminal and for pages.

What a reader wants to know first of an executed run, in words: for the terminal and for the page.

An executed run as one self-contained page: the Gantt chart of its attempts, and below it everything else.

Promise against outcome, the critical path, the kinds of tasks against their estimates, failures with the last
lines of their logs, migrations, what happened over time, runs and machines. Whatever tasks have written is
escaped; the page loads nothing.

What stands in the terminal at the end of a run: how it went, kind by kind, and every failure with its log.

Names and texts that tasks chose are shown, never obeyed: control characters become question marks.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape

from weft.engine.history import AttemptRecord
from weft.engine.replan.promise import Promise
from weft.papers.statistics import Summary, summarise
from weft.reports.charts import box_plots, steps_chart
from weft.reports.comparison import TextTable
from weft.reports.critical_path import PathStep
from weft.reports.execution import Deviation, ExecutedRun, FailureReport, PromiseOutcome
from weft.reports.execution_charts import estimate_chart, promise_chart
from weft.reports.gantt_html import HtmlGantt
from weft.reports.report import GanttView
from weft.reports.simulation import (
    STYLE,
    attempts_chart,
    migration_table,
    run_table,
    section,
    table_html,
    use_table,
)
from weft.reports.text import fitted, printable, promise_text, time_text
from weft.units import format_bytes, format_count, format_seconds

__all__ = [
    "attempt_label",
    "deviation_table",
    "execution_chart",
    "execution_facts",
    "execution_html",
    "execution_lines",
    "execution_notes",
    "failure_lines",
    "kind_table",
    "moved_table",
    "path_sentence",
    "path_table",
    "promise_outcome_text",
    "promise_table",
]


_NOTHING = "-"
_NOTABLE = 0.01
"""By which share of its planned time a task must differ to be listed."""
_LINKS = {
    "data": "data of",
    "iteration": "next iteration after",
    "retry": "next try after",
    "nodes": "nodes of",
    "arrival": "the run began",
}


def promise_table(executed: ExecutedRun) -> TextTable:
    """Give a row for each run that had a promise."""
    rows = [
        (
            str(executed.number(each.run)),
            each.workflow,
            each.word,
            _promised(each.promise),
            "unknown" if each.at_most_s is None else format_seconds(each.at_most_s),
            format_seconds(each.took_s),
            each.change_text or _NOTHING,
        )
        for each in executed.verdicts
    ]
    heading = ("run", "workflow", "promise", "P50", "P90", "took", "change")
    return TextTable(heading=heading, rows=tuple(rows), texts=3)


def _promised(promise: Promise) -> str:
    return time_text(promise) if promise.p50_s is None else format_seconds(promise.p50_s)


def deviation_table(executed: ExecutedRun) -> TextTable:
    """Give a row for each task that ran elsewhere or clearly longer or shorter than planned."""
    names = executed.machine_names
    rows = [
        (
            _label(each.task, each.iteration),
            names[each.planned_machine],
            names[each.machine] if each.machine != each.planned_machine else "as planned",
            format_seconds(each.planned_s),
            format_seconds(each.took_s),
            _signed(each.longer_s),
            _signed(each.late_s),
        )
        for each in executed.deviations
        if _notable(each)
    ]
    heading = ("task", "planned on", "ran on", "planned", "ran", "longer", "ended later")
    return TextTable(heading=heading, rows=tuple(rows), texts=3)


def _notable(each: Deviation) -> bool:
    return each.machine != each.planned_machine or abs(each.longer_s) > _NOTABLE * each.planned_s


def _signed(seconds: float) -> str:
    return ("" if seconds < 0 else "+") + format_seconds(seconds)


def path_table(executed: ExecutedRun) -> TextTable:
    """Give a row for each attempt on the critical path, by time."""
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
    heading = ("task", "machine", "began after", "staging", "waiting", "running", "ended at")
    return TextTable(heading=heading, rows=tuple(rows), texts=3)


def _why(step: PathStep, executed: ExecutedRun) -> str:
    if step.after is None:
        return _LINKS[step.link]
    return f"{_LINKS[step.link]} {attempt_label(step.after, executed)}"


def _span(seconds: float) -> str:
    return format_seconds(seconds) if seconds > 0 else _NOTHING


def _label(task: str, iteration: int) -> str:
    return task if iteration == 1 else f"{task}#{iteration}"


def attempt_label(attempt: AttemptRecord, executed: ExecutedRun) -> str:
    """Name an attempt's task; of another run than the only one that is shown, with its run."""
    label = _label(attempt.task, attempt.iteration)
    own = not executed.several and attempt.run == executed.stories[0].index
    return label if own else f"{executed.number(attempt.run)}:{label}"


def kind_table(executed: ExecutedRun) -> TextTable:
    """Give a row for each kind of task."""
    rows = [
        (
            f"{kind.workflow}: {kind.kind}" if executed.several else kind.kind,
            f"{kind.completed}/{kind.tasks}",
            str(kind.taken_over or _NOTHING),
            str(kind.failed or _NOTHING),
            str(kind.moved or _NOTHING),
            *(_known_s(value) for value in (kind.mean_s, kind.p50_s, kind.p90_s, kind.most_s)),
            _known_s(kind.estimate_s),
            _NOTHING if kind.ratio is None else f"{kind.ratio:.2f}",
            _NOTHING if kind.cpu_share is None else f"{kind.cpu_share:.0%}",
            _NOTHING if kind.max_rss_bytes is None else format_bytes(kind.max_rss_bytes),
        )
        for kind in executed.kinds
    ]
    heading = (
        "kind", "done", "taken over", "failed", "moved", "mean", "P50", "P90", "most", "estimate", "ratio",
        "CPU", "memory",
    )  # fmt: skip
    return TextTable(heading=heading, rows=tuple(rows), texts=1)


def _known_s(seconds: float | None) -> str:
    return _NOTHING if seconds is None else format_seconds(seconds)


def moved_table(executed: ExecutedRun) -> TextTable:
    """Give a row for each migration, its time counted from the first arrival."""
    moves = [replace(move, at_s=move.at_s - executed.origin_s) for move in executed.moves]
    return migration_table(moves, executed.machine_names)


def execution_facts(executed: ExecutedRun) -> list[tuple[str, str]]:
    """List labels and texts, the most important first."""
    facts = [("outcome", executed.outcome), ("took", format_seconds(executed.took_s))]
    if len(executed.verdicts) == 1:
        facts.append(("promise", promise_outcome_text(executed.verdicts[0])))
    elif executed.verdicts:
        facts.append(("promises", _promises(executed.verdicts)))
    facts.append(("tasks", _tasks(executed)))
    failed, moved = executed.failures, [move for move in executed.moves if not move.off]
    if failed:
        facts.append(("failures", _counts(each.failed.cause for each in failed)))
    if moved:
        facts.append(("migrations", _counts(move.reason for move in moved)))
    facts.append(("critical path", _path(executed)))
    return facts


def promise_outcome_text(verdict: PromiseOutcome) -> str:
    """Say what was promised and what became of it; of what nobody knew, why."""
    text = promise_text(verdict.promise)
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
    again = executed.taken_over
    return f"{text}, {again} of them taken over from earlier runs" if again else text


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
    """Say of what the time of the critical path is made up."""
    steps = executed.path.steps
    names = [attempt_label(step.attempt, executed) for step in steps]
    chain = " → ".join(names if len(names) <= 6 else [*names[:3], "…", *names[-2:]])
    after = executed.path.after_s
    end = f"; {format_seconds(after)} between the last end and the end of the run" if after > 0 else ""
    return f"{format_count(len(steps), 'attempt')}: {_path(executed)}{end}. {chain}".rstrip()


def execution_notes(executed: ExecutedRun) -> list[str]:
    """Say what a reader should know besides the numbers."""
    notes = []
    for story in executed.stories:
        if story.outcome not in ("completed", "") and (story.reason or executed.several):
            why = f": {story.reason}" if story.reason else ""
            notes.append(f"run {executed.number(story.index)} ({story.workflow}) {story.outcome}{why}")
        elif not story.outcome:
            notes.append(f"run {executed.number(story.index)} ({story.workflow}) has not ended")
    for each in executed.verdicts if executed.several else ():
        if not each.promise.has_estimate:
            where = f"run {executed.number(each.run)} ({each.workflow})"
            notes.append(f"{where}, promise: {promise_text(each.promise)}")
    if executed.several:
        notes.append("the critical path is that of the run that ended last")
    elif len(executed.history.runs) > 1:
        notes.append("machines are measured over all runs of the execution")
    return notes


_STYLE = """
.promised { fill: #4c8dd6; }
.unsure { fill: #4c8dd6; fill-opacity: .35; }
.kept { fill: #4fb477; }
.late { fill: var(--mark); }
.even { stroke: var(--soft); stroke-dasharray: 4 4; }
svg.square { max-width: 560px; }
circle { fill: #4c8dd6; fill-opacity: .55; }
.failure { border-left: 3px solid var(--mark); padding: 2px 0 2px 12px; margin: 12px 0; }
.failure p { margin: 2px 0; }
.failure pre { background: var(--band); border-radius: 6px; padding: 8px 10px; margin: 6px 0;
  overflow-x: auto; font-size: 12.5px; }
"""

_MOST_FAILURES = 100
"""Failures that are told with their logs; the rest is counted."""
_MOST_RUNS = 20
"""Runs whose promises are drawn."""
_MOST_DEVIATIONS = 20
_MOST_BOXES = 40
"""Kinds whose seconds are drawn: those that took the most."""


def execution_chart(executed: ExecutedRun) -> GanttView:
    """Show every attempt whose program ran as a bar, the critical path marked."""
    machines = [(machine.name, machine.nodes) for machine in executed.machines]
    chart = attempts_chart(
        executed.title,
        executed.ran,
        executed.history,
        machines,
        several=executed.several,
        origin_s=executed.origin_s,
    )
    position = {attempt.number: index for index, attempt in enumerate(executed.ran)}
    return replace(
        chart,
        machine_sites=tuple(machine.site or "" for machine in executed.machines),
        facts=tuple(execution_facts(executed)),
        critical=tuple(
            position[step.attempt.number]
            for step in executed.path.steps
            if step.attempt.number in position  # a blocker of a run that is not shown has no bar
        ),
    )


def execution_html(executed: ExecutedRun) -> str:
    """Render the page."""
    more = "\n".join(_sections(executed))
    return HtmlGantt().render(execution_chart(executed), style=STYLE + _STYLE, more=more)


def _sections(executed: ExecutedRun) -> list[str]:
    sections = []
    if executed.failures:
        sections.append(_failures(executed))
    if executed.verdicts:
        sections.append(_promise(executed))
    sections.append(
        section(
            "Critical path",
            f"<p>{escape(path_sentence(executed))}</p>",
            table_html(path_table(executed)),
        )
    )
    sections.append(
        section(
            "Kinds of tasks",
            table_html(kind_table(executed)),
            box_plots("Seconds of completed attempts", _seconds_by_kind(executed)),
            estimate_chart(executed.timed),
        )
    )
    if executed.moves:
        sections.append(section("Migrations", table_html(moved_table(executed))))
    sections.append(
        section(
            "Over time",
            steps_chart("Programs running", executed.running, executed.took_s),
            steps_chart("Nodes taken", executed.nodes_taken, executed.took_s),
        )
    )
    sections.append(section("Runs", table_html(run_table(executed.stories))))
    sections.append(section("Machines", table_html(use_table(executed.uses))))
    notes = execution_notes(executed)
    if notes:
        listed = "".join(f"<li>{escape(note)}</li>\n" for note in notes)
        sections.append(section("Notes", f"<ul>\n{listed}</ul>"))
    return sections


def _promise(executed: ExecutedRun) -> str:
    found = deviation_table(executed)
    unknown = [each for each in executed.verdicts if not each.promise.has_estimate]
    parts = [promise_chart(executed.verdicts[:_MOST_RUNS]), table_html(promise_table(executed))]
    if unknown:
        told = {promise_text(each.promise): None for each in unknown}
        parts += [f"<p>{escape(text)}</p>" for text in list(told)[:_MOST_RUNS]]
    if found.rows:
        shown = TextTable(heading=found.heading, rows=found.rows[:_MOST_DEVIATIONS], texts=found.texts)
        parts += ["<h3>Tasks that went otherwise, those that ran longest beyond their plan first</h3>"]
        parts += [table_html(shown)]
        rest = len(found.rows) - len(shown.rows)
        parts += [f"<p>… and {format_count(rest, 'more task')}</p>"] if rest else []
    return section("Promise against outcome", *parts)


def _failures(executed: ExecutedRun) -> str:
    told = [_failure_html(each, executed) for each in executed.failures[:_MOST_FAILURES]]
    rest = len(executed.failures) - len(told)
    if rest:
        told.append(f"<p>… and {format_count(rest, 'more failure')}</p>")
    return section("Failures", *told)


def _failure_html(each: FailureReport, executed: ExecutedRun) -> str:
    at = format_seconds(each.failed.at_s - executed.origin_s)
    where = "" if each.attempt is None else f" on {executed.machine_names[each.attempt.machine]}"
    run = f"run {executed.number(each.failed.run)}: " if executed.several else ""
    lines = [f"<p><strong>{escape(run + each.headline)}</strong>{escape(where)}, at {at}</p>"]
    told = each.failed.reason
    lines += [f"<p>{escape(text)}</p>" for text in (told, "" if each.text in told else each.text) if text]
    if each.log is not None:
        lines.append(f"<pre>{escape(chr(10).join(each.log.lines))}</pre>")
        lines.append(f"<p>log: <code>{escape(each.log.path)}</code></p>")
    return '<div class="failure">\n' + "\n".join(lines) + "\n</div>"


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
_UNLIKELY = ("taken over", "failed", "moved", "CPU", "memory", "P50", "most", "estimate", "ratio")
"""Columns that are left out where no row has anything in them."""
_LEAST_WIDTH = 40


def execution_lines(executed: ExecutedRun, *, width: int = 100, ascii_only: bool = False) -> list[str]:
    """Sum a run up, in lines of at most so many columns."""
    lines = [executed.title]
    facts = execution_facts(executed)
    room = max(len(label) for label, _ in facts)
    lines += [f"  {label:<{room}}  {text}" for label, text in facts]
    if executed.several and executed.verdicts:
        lines += ["", *_table(promise_table(executed))]
    if executed.kinds:
        lines += ["", *_table(_without_empty(kind_table(executed)))]
    told = [f"note: {note}" for note in execution_notes(executed)] + failure_lines(executed)
    # Tables are cut where there is no room; what went wrong is told to its end.
    wrapped = [part for line in told for part in _wrapped(line, width, ascii_only=ascii_only)]
    return [*(_fitted(line, width, ascii_only=ascii_only) for line in lines), *wrapped]


def failure_lines(executed: ExecutedRun) -> list[str]:
    """Repeat cause, last lines and log of the failures; those for good before those that were tried again."""
    told = sorted(executed.failures, key=lambda each: not each.failed.for_good)
    lines = [line for each in told[:_SHOWN_FAILURES] for line in _failure_text(each, executed)]
    rest = len(told) - _SHOWN_FAILURES
    return [*lines, f"… and {format_count(rest, 'more failure')}"] if rest > 0 else lines


def _failure_text(each: FailureReport, executed: ExecutedRun) -> Iterator[str]:
    where = "" if each.attempt is None else f" on {executed.machine_names[each.attempt.machine]}"
    run = f"run {executed.number(each.failed.run)}: " if executed.several else ""
    yield ""
    yield f"{run}{each.headline}{where}"
    told = each.failed.reason
    yield from (f"  {text}" for text in (told, "" if each.text in told else each.text) if text)
    if each.log is not None:
        yield from (f"  | {line}" for line in each.log.lines[-_LOG_LINES:])
        yield f"  log: {each.log.path}"


def _table(table: TextTable) -> list[str]:
    lines = [f"  {line}" for line in table.lines()]
    rest = len(lines) - _SHOWN_KINDS - 1
    return [*lines[: _SHOWN_KINDS + 1], f"  … {rest} more"] if rest > 0 else lines


def _without_empty(table: TextTable) -> TextTable:
    """Leave out columns that say nothing."""
    columns = list(zip(table.heading, *table.rows, strict=True))
    kept = [column for column in columns if column[0] not in _UNLIKELY or set(column[1:]) - {"-"}]
    heading, *rows = zip(*kept, strict=True)
    return TextTable(heading=heading, rows=tuple(rows), texts=table.texts)


def _wrapped(line: str, width: int, *, ascii_only: bool) -> list[str]:
    text = printable(line, ascii_only=ascii_only)
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, max(width, _LEAST_WIDTH), subsequent_indent=indent, break_on_hyphens=False
    ) or [""]


def _fitted(line: str, width: int, *, ascii_only: bool) -> str:
    return fitted(printable(line), max(width, _LEAST_WIDTH), ascii_only=ascii_only).rstrip()
