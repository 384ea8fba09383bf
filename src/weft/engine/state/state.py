"""Everything the engine knows. It changes only by events that are absorbed and commands that are enacted."""

from __future__ import annotations

from collections.abc import Sequence

from weft.engine.indexes.changes import Changes
from weft.engine.indexes.copies import Copies
from weft.engine.selection.inquiries import Inquiries
from weft.engine.settings import Settings
from weft.engine.state.attempt import Attempt, Stage
from weft.engine.state.known import Library
from weft.engine.state.machines import Machines
from weft.engine.state.plans import StoredPlan
from weft.engine.state.run import Run
from weft.instance.instance import Instance
from weft.policies.policy import Order

__all__ = ["State"]


class State:
    """All runs, machines and attempts at one moment."""

    def __init__(
        self,
        library: Library,
        instance: Instance,
        order: Order,
        *,
        planned: bool,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        """What was agreed before the first event; it never changes."""
        self.library = library
        self.order = order
        self.planned = planned
        """Whether runs follow plans."""
        self.plans: dict[str, StoredPlan] = {}
        """Plans by content hash, put here before the event that names them is handled."""
        self.now = 0.0
        self.machines = Machines(instance)
        self.changes = Changes()
        """On which machines tasks may find room that had none there before."""
        self.runs: list[Run] = []
        self.roster = 0
        """Grows whenever the active runs change."""
        self.active: dict[int, Run] = {}
        """Runs that are not over, by arrival."""
        self.attempts: dict[int, Attempt] = {}
        """Attempts that are not over."""
        self.next_attempt = 0
        self.unknown: dict[int, dict[int, None]] = {}
        """By machine that fell silent: attempts that were given up and may still run there."""
        self.timers: dict[str, float] = {}
        self.dirty = False
        """Whether something has changed that a policy may act on."""
        self.to_tidy: dict[int, None] = {}
        """Runs with virtual tasks to complete, or with nothing left to do."""
        self.touched: dict[int, None] = {}
        """Machines where something that waits may be able to start."""
        self.to_serve: dict[int, None] = {}
        """Machines whose queues are to be served now."""
        self.arrived: dict[int, None] = {}
        """Attempts that keep their nodes and may be able to start."""
        self.copies = Copies()
        """Which shared files were sent to which hosts."""
        self.evaluated: dict[tuple[str, tuple[tuple[str, str], ...]], Sequence[object] | None] = {}
        """Requirements and ranks by text and what their names mean, with their value for each machine; None:
        they make no sense."""
        self.inquiries = Inquiries(self.settings, self.machines, self.changes)
        """What is known of the machines beyond their description."""

    @property
    def unsettled(self) -> bool:
        """Say whether something may follow from the last changes."""
        return self.dirty or bool(self.arrived or self.touched or self.to_tidy)

    def run_of(self, attempt: Attempt) -> Run:
        """Give the run an attempt belongs to."""
        return self.runs[attempt.run]

    def was_sent_ahead(self, attempt: Attempt) -> bool:
        """Say whether an attempt has gone to its machine early and waits there for others to complete."""
        idle = attempt.stage == Stage.ASSIGNED and not (attempt.staging or attempt.cancelled)
        return idle and attempt.replaces is None and self.runs[attempt.run].missing[attempt.task] > 0

    def obstacle(self, machine: int) -> str:
        """Say why a machine may not be used now; "": it may."""
        return self.inquiries.obstacle(machine, self.now)

    def touch(self, machine: int) -> None:
        """Remember that something on a machine has changed, if anybody waits there."""
        if self.machines.all[machine].queue:
            self.touched[machine] = None

    def give_back(self, attempt: Attempt) -> None:
        """Free what an attempt took."""
        self.machines.give_back(attempt)
        self.changes.note(attempt.machine)

    def close(self, attempt: Attempt) -> None:
        """Forget an attempt that is over."""
        self.give_back(attempt)
        self.unqueue(attempt)
        self.attempts.pop(attempt.number, None)
        run = self.runs[attempt.run]
        if run.attempt_of.get(attempt.task) == attempt.number:
            run.let_go(attempt.task)
        if run.unfinished == 0:
            self.to_tidy[run.index] = None
        self.touch(attempt.machine)
        self.dirty = True

    def unqueue(self, attempt: Attempt) -> None:
        """Take an attempt out of its machine's queue, if it waits there."""
        if attempt.queued:
            self.machines[attempt.machine].dequeue(attempt)
