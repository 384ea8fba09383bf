"""An executed run as one self-contained page: the Gantt chart of its attempts, and below it everything else.

Promise against outcome, the critical path, the kinds of tasks against their estimates, failures with the last
lines of their logs, migrations, what happened over time, runs and machines. Whatever tasks have written is
escaped; the page loads nothing.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape

from weft.reports.comparison_tables import Table
from weft.reports.execution import ExecutedRun, ToldFailure
from weft.reports.execution_charts import estimate_chart, promise_chart
from weft.reports.execution_facts import facts_of, notes_of, path_sentence
from weft.reports.execution_tables import (
    deviation_table,
    kind_table,
    moved_table,
    path_table,
    promise_table,
)
from weft.reports.gantt_html import HtmlGantt
from weft.reports.promise_text import promise_text
from weft.reports.report import PlanView
from weft.reports.simulation import attempts_chart
from weft.reports.simulation_charts import box_plots, steps_chart
from weft.reports.simulation_html import STYLE, section, table_html
from weft.reports.simulation_tables import run_table, use_table
from weft.studies.statistics import Summary, summary
from weft.units import counted, format_seconds

__all__ = ["chart_of_execution", "execution_html"]

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


def chart_of_execution(executed: ExecutedRun) -> PlanView:
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
        facts=tuple(facts_of(executed)),
        critical=tuple(
            position[step.attempt.number]
            for step in executed.path.steps
            if step.attempt.number in position  # a blocker of a run that is not shown has no bar
        ),
    )


def execution_html(executed: ExecutedRun) -> str:
    """Render the page."""
    more = "\n".join(_sections(executed))
    return HtmlGantt().render(chart_of_execution(executed), style=STYLE + _STYLE, more=more)


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
    notes = notes_of(executed)
    if notes:
        listed = "".join(f"<li>{escape(note)}</li>\n" for note in notes)
        sections.append(section("Notes", f"<ul>\n{listed}</ul>"))
    return sections


def _promise(executed: ExecutedRun) -> str:
    found = deviation_table(executed)
    unknown = [each for each in executed.verdicts if not each.promise.known]
    parts = [promise_chart(executed.verdicts[:_MOST_RUNS]), table_html(promise_table(executed))]
    if unknown:
        told = {promise_text(each.promise): None for each in unknown}
        parts += [f"<p>{escape(text)}</p>" for text in list(told)[:_MOST_RUNS]]
    if found.rows:
        shown = Table(heading=found.heading, rows=found.rows[:_MOST_DEVIATIONS], texts=found.texts)
        parts += ["<h3>Tasks that went otherwise, those that ran longest beyond their plan first</h3>"]
        parts += [table_html(shown)]
        rest = len(found.rows) - len(shown.rows)
        parts += [f"<p>… and {counted(rest, 'more task')}</p>"] if rest else []
    return section("Promise against outcome", *parts)


def _failures(executed: ExecutedRun) -> str:
    told = [_failure(each, executed) for each in executed.failures[:_MOST_FAILURES]]
    rest = len(executed.failures) - len(told)
    if rest:
        told.append(f"<p>… and {counted(rest, 'more failure')}</p>")
    return section("Failures", *told)


def _failure(each: ToldFailure, executed: ExecutedRun) -> str:
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
    return [(kind, summary(seconds)) for kind, seconds in found.items() if kind in longest]
