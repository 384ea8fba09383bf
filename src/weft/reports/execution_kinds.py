"""What the tasks of one kind have in common: how many, how long against the estimate, CPU and memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from weft.engine.history.happenings import Tried
from weft.reports.execution_evidence import Measured

__all__ = ["KindUse", "kind_uses", "taken_over"]

_UNKNOWN = Measured()


@dataclass(frozen=True, slots=True, kw_only=True)
class KindUse:
    """The attempts of one kind. Seconds are those of attempts that completed; None: none did, or unknown."""

    workflow: str
    kind: str
    tasks: int
    """Tasks, each iteration of a loop counted, that had an attempt."""
    completed: int
    """Of these."""
    taken_over: int
    """Of the completed: those whose outputs an earlier run had made."""
    attempts: int
    """Those whose programs ran."""
    failed: int
    """Attempts that failed, also those whose data could not be brought."""
    moved: int
    """Of those whose programs ran: those that went on elsewhere."""
    mean_s: float | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    most_s: float | None = None
    estimate_s: float | None = None
    """Mean estimate of the same attempts, less what a checkpoint spared them; a placeholder is none."""
    cpu_share: float | None = None
    """CPU seconds over seconds times nodes, of the attempts that were measured."""
    max_rss_bytes: float | None = None

    @property
    def ratio(self) -> float | None:
        """Give the mean seconds over the mean estimate."""
        if self.mean_s is None or self.estimate_s is None or self.estimate_s <= 0:
            return None
        return self.mean_s / self.estimate_s


def taken_over(attempt: Tried) -> bool:
    """Say whether an attempt completed without running: its outputs were there from an earlier run."""
    return attempt.ending == "completed" and attempt.started_s is None


def kind_uses(
    attempts: Iterable[Tried],
    workflows: Mapping[int, str],
    measured: Mapping[int, Measured],
    untimed: Collection[tuple[int, str]] = (),
) -> tuple[KindUse, ...]:
    """Sum the attempts up by workflow and kind, in the order in which kinds were first tried.

    ``untimed``: kinds, by run, of which nobody stated how long they take.
    """
    found: dict[tuple[str, str], list[Tried]] = {}
    for attempt in attempts:
        found.setdefault((workflows[attempt.run], attempt.kind), []).append(attempt)
    return tuple(_use(workflow, kind, tries, measured, untimed) for (workflow, kind), tries in found.items())


def _use(
    workflow: str,
    kind: str,
    tries: list[Tried],
    measured: Mapping[int, Measured],
    untimed: Collection[tuple[int, str]],
) -> KindUse:
    done = [each for each in tries if each.ending == "completed"]
    ran = [each for each in tries if each.started_s is not None]
    seconds = sorted(each.ran_s for each in done if each.started_s is not None)
    stated = [] if any((each.run, kind) in untimed for each in tries) else done
    estimates = [each.seconds * (1 - each.restart_from) for each in stated if each.started_s is not None]
    numbers = [measured.get(each.number, _UNKNOWN) for each in ran]
    memory = [found.max_rss_bytes for found in numbers if found.max_rss_bytes is not None]
    return KindUse(
        workflow=workflow,
        kind=kind,
        tasks=len({(each.run, each.task, each.iteration) for each in tries}),
        completed=len({(each.run, each.task, each.iteration) for each in done}),
        taken_over=sum(map(taken_over, done)),
        attempts=len(ran),
        failed=sum(each.ending == "failed" for each in tries),
        moved=sum(each.ending == "migrated" for each in ran),
        mean_s=sum(seconds) / len(seconds) if seconds else None,
        p50_s=_quantile(seconds, 0.5),
        p90_s=_quantile(seconds, 0.9),
        most_s=seconds[-1] if seconds else None,
        estimate_s=sum(estimates) / len(estimates) if any(estimates) else None,
        cpu_share=_cpu_share(ran, numbers),
        max_rss_bytes=max(memory) if memory else None,
    )


def _quantile(ordered: list[float], share: float) -> float | None:
    """Give the value that so large a share does not exceed, between neighbours by the share of the way."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _cpu_share(ran: list[Tried], numbers: list[Measured]) -> float | None:
    pairs = [(each, found.cpu_s) for each, found in zip(ran, numbers, strict=True) if found.cpu_s is not None]
    offered = sum(each.node_seconds for each, _ in pairs)
    return sum(seconds for _, seconds in pairs) / offered if offered > 0 else None
