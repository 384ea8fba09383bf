"""Re-planning beside the loop: what remains is read off the state at once, and planned in a thread.

Tasks go on while a plan is made; the answer is an event like any other, and the engine keeps what has started
meanwhile (design section 6). With the first plan of a run goes what it promises.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from weft.engine.engine import Engine
from weft.engine.messages.commands import Replan
from weft.engine.messages.events import PlanReady
from weft.engine.remaining.planning import Question, question_of
from weft.engine.remaining.promises import Promise
from weft.engine.state.plans import StoredPlan
from weft.errors import Infeasible
from weft.planners.naming import planner_named
from weft.randomness import generator
from weft.runtime.plan_clock import Clock, Spending, clock_of, patiently

__all__ = ["Replanning"]

_Answer = tuple[StoredPlan, Promise | None]


class Replanning:
    """Answers Replan, one after the other."""

    def __init__(
        self, engine: Engine, *, planner: str, spending: Spending, seed: int, wake: Callable[[], None]
    ) -> None:
        """Begin. ``wake`` is called, from another thread, when an answer is there."""
        self._engine = engine
        self._planner = planner
        self._spending = spending
        self._seed = seed
        self._asked = 0
        self._wake = wake
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planning")
        self._open: list[tuple[Replan, Future[_Answer]]] = []
        self._clock: Clock | None = None
        """Of the search that is under way."""
        self._closed = False
        self._closing = threading.Lock()
        self.promises: dict[int, Promise] = {}
        """By run: what its first plan promises."""

    def ask(self, command: Replan) -> None:
        """Begin to plan."""
        rule = self._engine.settings.replanning
        name = self._planner if rule is None or command.reason == "submitted" else rule.planner
        try:
            question = question_of(self._engine.state, command.run)
        except Infeasible as error:
            failed: Future[_Answer] = Future()
            failed.set_exception(error)
            self._open.append((command, failed))
            self._wake()
            return
        self._asked += 1
        arrival_s = self._engine.state.runs[command.run].arrival_s
        future = self._pool.submit(self._answer, question, name, command, self._asked, arrival_s)
        future.add_done_callback(lambda _: self._tell())
        self._open.append((command, future))

    def _answer(
        self, question: Question, name: str, command: Replan, number: int, arrival_s: float
    ) -> _Answer:
        planner = planner_named(name)
        rng = generator(self._seed, "planner", str(command.run), str(number))
        budget = self._spending.budget(planner, first=command.reason == "submitted")
        self._clock = clock_of(budget)
        self._hurry()
        with patiently(budget):
            made = question.planned(planner, budget, rng)
        first = command.version == 0
        promise = question.promise(made, arrival_s=arrival_s, seed=self._seed) if first else None
        return question.kept(planner, made), promise

    def _tell(self) -> None:
        """Wake whoever waits; after the end nobody is there, and what woke them may be another's file."""
        with self._closing:
            if not self._closed:
                self._wake()

    @property
    def busy(self) -> bool:
        """Say whether an answer is still to come."""
        return bool(self._open)

    @property
    def searching(self) -> bool:
        """Say whether a planner is at work."""
        return any(not future.done() for _, future in self._open)

    def answers(self) -> list[PlanReady]:
        """Take the answers that are there, in the order of the questions; plans are put where they belong."""
        found = []
        while self._open and self._open[0][1].done():
            command, future = self._open.pop(0)
            found.append(self._event(command, future))
        return found

    def _event(self, command: Replan, future: Future[_Answer]) -> PlanReady:
        answer = partial(PlanReady, run=command.run, version=command.version)
        try:
            stored, promise = future.result()
        except Infeasible as error:
            return answer(plan="", problem=str(error))
        self._engine.state.plans[stored.key] = stored
        if promise is not None:
            self.promises[command.run] = promise
        return answer(plan=stored.key, steps=stored.steps)

    def close(self) -> None:
        """Wait for nobody: a search by the clock that is under way ends soon."""
        with self._closing:
            self._closed = True
        self._hurry()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _hurry(self) -> None:
        """End a search that nobody waits for any more; both threads look, so that none misses it."""
        clock = self._clock
        if self._closed and clock is not None:
            clock.end()
