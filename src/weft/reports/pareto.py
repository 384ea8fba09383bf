"""A front of plans as reports read it: time against something else, and the node counts behind each point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from weft.units import format_seconds

__all__ = ["FrontPoint", "FrontView", "NodeRange", "TriedPlan"]

_MINUS = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRange:
    """How many nodes the tasks of one kind take."""

    kind: str
    tasks: int
    least: int
    most: int
    chosen: bool
    """Whether they could have taken others."""

    @property
    def text(self) -> str:
        """Write it short: ``lapw1 2–4``."""
        counts = str(self.least) if self.least == self.most else f"{self.least}{_MINUS}{self.most}"
        return f"{self.kind} {counts}"

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {"kind": self.kind, "tasks": self.tasks, "least": self.least, "most": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """A plan of a front."""

    number: int
    """From 1, the fastest, on: what ``weft plan --choose`` takes."""
    makespan_s: float
    cost: float
    node_seconds: float
    idle_share: float
    alpha: float | None
    """Weight of time under which it was found; None: nobody weighed."""
    by: str
    nodes: tuple[NodeRange, ...]
    """By kind of task, in the order of the workflow."""
    machines: tuple[tuple[str, int], ...]
    """Machines that are used, and how many tasks each runs."""

    @property
    def choice_text(self) -> str:
        """Say what was chosen: node counts where tasks have a choice, machines where there are several."""
        ranges = [found.text for found in self.nodes if found.chosen]
        places = [f"{tasks} on {name}" for name, tasks in self.machines]
        return ", ".join([*ranges, *(places if len(places) > 1 or not ranges else ())])

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {
            "point": self.number,
            "makespan_s": self.makespan_s,
            "cost": self.cost,
            "node_seconds": self.node_seconds,
            "idle_share": self.idle_share,
            "alpha": self.alpha,
            "found_by": self.by,
            "nodes": [found.as_record() for found in self.nodes],
            "machines": dict(self.machines),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPlan:
    """A plan that was found on the way to the front."""

    makespan_s: float
    amount: float
    alpha: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontView:
    """What a report may show of a front."""

    workflow: str
    platform: str
    against: Literal["cost", "idle"]
    unit: Literal["price", "node-seconds", "share"]
    """What the other number is counted in."""
    priced: bool
    """Whether some machine has a price; else costs are 0, and node-seconds are shown."""
    tasks: int
    points: tuple[FrontPoint, ...]
    tried: tuple[TriedPlan, ...]
    lower_bound_s: float
    """No plan is faster."""
    by_alpha: bool = False
    """Whether points are coloured by the alpha under which they were found."""

    @property
    def title(self) -> str:
        """Say in a line what is traded."""
        return f"{self.workflow} on {self.platform}: time against {self.noun}"

    @property
    def noun(self) -> str:
        """Name what is traded for time."""
        return {"price": "cost", "node-seconds": "node-seconds", "share": "idle share"}[self.unit]

    def amount(self, point: FrontPoint) -> float:
        """Give the number that is traded for time."""
        shown = {"price": point.cost, "node-seconds": point.node_seconds, "share": point.idle_share}
        return shown[self.unit]

    def amount_text(self, amount: float) -> str:
        """Write an amount as people read it."""
        if self.unit == "share":
            return f"{amount:.1%}"
        return f"{amount:.4g}" if self.unit == "price" else _node_seconds_text(amount)

    @property
    def paid_noun(self) -> str:
        """Name what plans cost, whatever is traded."""
        return "cost" if self.priced else "node-seconds"

    def paid_text(self, point: FrontPoint) -> str:
        """Write what a plan costs."""
        return f"{point.cost:.4g}" if self.priced else _node_seconds_text(point.node_seconds)

    def time_text(self, point: FrontPoint) -> str:
        """Write the time of a point."""
        return format_seconds(point.makespan_s)


def _node_seconds_text(amount: float) -> str:
    """Write node-seconds as people read them."""
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"
