"""What a reader wants to know first of an executed run, in words: for the terminal and for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from weft.reports.execution import ExecutedRun
from weft.reports.execution_promise import Verdict
from weft.reports.execution_tables import attempt_label
from weft.reports.promise_text import promise_text
from weft.units import counted, format_seconds

__all__ = ["facts_of", "notes_of", "path_sentence", "verdict_text"]


def facts_of(executed: ExecutedRun) -> list[tuple[str, str]]:
    """List labels and texts, the most important first."""
    facts = [("outcome", executed.outcome), ("took", format_seconds(executed.took_s))]
    if len(executed.verdicts) == 1:
        facts.append(("promise", verdict_text(executed.verdicts[0])))
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


def verdict_text(verdict: Verdict) -> str:
    """Say what was promised and what became of it; of what nobody knew, why."""
    text = promise_text(verdict.promise)
    if not verdict.promise.known:
        return text
    change = f", {verdict.change_text}" if verdict.change_text else ""
    return f"{text}: {verdict.word}{change}"


def _promises(verdicts: Sequence[Verdict]) -> str:
    judged = [each for each in verdicts if each.promise.known]
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
    return f"{counted(len(steps), 'attempt')}: {_path(executed)}{end}. {chain}".rstrip()


def notes_of(executed: ExecutedRun) -> list[str]:
    """Say what a reader should know besides the numbers."""
    notes = []
    for story in executed.stories:
        if story.outcome not in ("completed", "") and (story.reason or executed.several):
            why = f": {story.reason}" if story.reason else ""
            notes.append(f"run {executed.number(story.index)} ({story.workflow}) {story.outcome}{why}")
        elif not story.outcome:
            notes.append(f"run {executed.number(story.index)} ({story.workflow}) has not ended")
    for each in executed.verdicts if executed.several else ():
        if not each.promise.known:
            where = f"run {executed.number(each.run)} ({each.workflow})"
            notes.append(f"{where}, promise: {promise_text(each.promise)}")
    if executed.several:
        notes.append("the critical path is that of the run that ended last")
    elif len(executed.history.runs) > 1:
        notes.append("machines are measured over all runs of the execution")
    return notes
