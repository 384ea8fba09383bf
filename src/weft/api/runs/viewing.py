"""Show a simulation: facts for a reader, the view that charts and pages draw."""

from __future__ import annotations

from weft.api.runs.simulated import SimulatedRun, SimulatedRuns
from weft.engine.history.measures import causes, migration_reasons
from weft.platform.platform import planned_machines
from weft.reports.simulation import SimulationView
from weft.reports.simulation_html import simulation_html
from weft.studies.statistics import Summary
from weft.units import counted, format_seconds

__all__ = ["facts_of", "html_of", "notes_of", "spread_facts_of", "title_of", "view_of"]


def title_of(runs: SimulatedRuns) -> str:
    """Say in a line what was simulated."""
    names = list(dict.fromkeys(run.workflow for run in runs.first.history.runs))
    what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    by = f"{runs.policy} with {runs.planner}" if runs.planner else runs.policy
    return f"{what or 'nothing'} on {runs.platform.name}, policy {by}"


def facts_of(run: SimulatedRun) -> list[tuple[str, str]]:
    """List what a reader wants to know first of one simulation."""
    history = run.history
    facts = [
        ("end", format_seconds(run.end_s)),
        ("lower bound", _bound_text(run)),
        ("slowdown", _slowdown_text(run.slowdown)),
        ("migrations", _counts(run.migrations, migration_reasons(history))),
        ("failures", _counts(len(history.failures), causes(history))),
        ("replicated work", f"{run.replicated:.1%} of the node-seconds taken"),
        ("nodes busy", f"{run.utilisation:.1%}"),
    ]
    if run.outcome != "completed":
        facts.insert(0, ("outcome", run.outcome))
    return facts


def _bound_text(run: SimulatedRun) -> str:
    comparable = run.outcome == "completed" and run.lower_bound_s > 0
    above = f" ({run.end_s / run.lower_bound_s - 1:+.1%})" if comparable else ""
    return format_seconds(run.lower_bound_s) + above


def _slowdown_text(found: Summary | None) -> str:
    if found is None:
        return "-"
    if found.number == 1:
        return f"{found.mean:.3g}"
    return f"{found.mean:.3g} on average, {found.least:.3g} to {found.most:.3g}"


def _counts(total: int, by_reason: dict[str, int]) -> str:
    parts = ", ".join(f"{count} {reason or 'without a reason'}" for reason, count in by_reason.items())
    return f"{total} ({parts})" if parts else str(total)


def spread_facts_of(runs: SimulatedRuns) -> list[tuple[str, str]]:
    """List medians and spread over the seeds."""

    def text(measure: str, shown: str) -> str:
        found = runs.spread(measure)
        values = (found.median, found.least, found.lower_quartile, found.upper_quartile, found.most)
        if shown == "time":
            median, least, low, high, most = (format_seconds(value) for value in values)
        else:
            median, least, low, high, most = (format(value, shown) for value in values)
        return f"median {median}, quartiles {low} to {high}, range {least} to {most}"

    outcomes = [run.outcome for run in runs.runs]
    counts = {word: outcomes.count(word) for word in dict.fromkeys(outcomes)}
    return [
        ("outcomes", ", ".join(f"{count} {word}" for word, count in counts.items())),
        ("end", text("end_s", "time")),
        ("mean slowdown", text("mean_slowdown", ".3g")),
        ("migrations", text("migrations", ".3g")),
        ("replicated work", text("replicated_share", ".1%")),
        ("nodes busy", text("utilisation", ".1%")),
    ]


def notes_of(run: SimulatedRun) -> list[str]:
    """Say what a reader should know besides the numbers."""
    notes = []
    for story in run.history.runs:
        if story.outcome not in ("completed", ""):
            why = f": {story.reason}" if story.reason else ""
            notes.append(f"run {story.index} ({story.workflow}) {story.outcome}{why}")
    notes += [f"standstill: {line}" for line in run.stuck]
    if run.pending:
        notes.append(f"{counted(run.pending, 'workflow')} had not arrived when nothing could go on")
    if any(story.iterations for story in run.history.runs):
        notes.append("bound and time alone are those of one iteration of every loop")
    return notes


def view_of(runs: SimulatedRuns) -> SimulationView:
    """Collect what charts and pages need, of the first seed."""
    run = runs.first
    return SimulationView(
        title=title_of(runs),
        history=run.history,
        machines=run.machines,
        sites=tuple(machine.site or "" for machine in planned_machines(runs.platform)),
        facts=tuple(facts_of(run)),
        uses=tuple(run.uses),
        slowdowns=tuple(run.slowdown_of.items()),
        lower_bound_s=run.lower_bound_s,
        notes=tuple(notes_of(run)),
    )


def html_of(runs: SimulatedRuns) -> str:
    """Render the first simulation as one self-contained page."""
    return simulation_html(view_of(runs))
