"""Re-planning beside the loop: what remains is read off the state at once, and planned in a thread.

Tasks go on while a plan is made; the answer is an event like any other, and the engine keeps what has started
meanwhile (design section 6).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from weft.engine.engine import Engine
from weft.engine.messages.commands import Replan
from weft.engine.messages.events import PlanReady
from weft.engine.remaining.planning import Question, question_of
from weft.engine.state.plans import StoredPlan
from weft.errors import Infeasible
from weft.planners.naming import planner_named
from weft.randomness import generator

__all__ = ["Replanning"]


class Replanning:
    """Answers Replan, one after the other."""

    def __init__(
        self, engine: Engine, *, planner: str, steps: int, seed: int, wake: Callable[[], None]
    ) -> None:
        """Begin. ``wake`` is called, from another thread, when an answer is there."""
        self._engine = engine
        self._planner = planner
        self._steps = steps
        self._seed = seed
        self._asked = 0
        self._wake = wake
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planning")
        self._open: list[tuple[Replan, Future[StoredPlan]]] = []

    def ask(self, command: Replan) -> None:
        """Begin to plan."""
        rule = self._engine.settings.replanning
        name = self._planner if rule is None or command.reason == "submitted" else rule.planner
        try:
            question = question_of(self._engine.state, command.run)
        except Infeasible as error:
            failed: Future[StoredPlan] = Future()
            failed.set_exception(error)
            self._open.append((command, failed))
            self._wake()
            return
        self._asked += 1
        future = self._pool.submit(self._answer, question, name, command.run, self._asked)
        future.add_done_callback(lambda _: self._wake())
        self._open.append((command, future))

    def _answer(self, question: Question, name: str, run: int, number: int) -> StoredPlan:
        rng = generator(self._seed, "planner", str(run), str(number))
        return question.answered(planner_named(name), steps=self._steps, rng=rng)

    @property
    def busy(self) -> bool:
        """Say whether an answer is still to come."""
        return bool(self._open)

    def answers(self) -> list[PlanReady]:
        """Take the answers that are there, in the order of the questions; plans are put where they belong."""
        found = []
        while self._open and self._open[0][1].done():
            command, future = self._open.pop(0)
            found.append(self._event(command, future))
        return found

    def _event(self, command: Replan, future: Future[StoredPlan]) -> PlanReady:
        answer = partial(PlanReady, run=command.run, version=command.version)
        try:
            stored = future.result()
        except Infeasible as error:
            return answer(plan="", problem=str(error))
        self._engine.state.plans[stored.key] = stored
        return answer(plan=stored.key, steps=stored.steps)

    def close(self) -> None:
        """Wait for nobody."""
        self._pool.shutdown(wait=False, cancel_futures=True)
