"""How often a loop really runs: the exit code its last task must have, so that the condition says so.

A scenario states the number of iterations; a workflow states a condition on exit codes. The world tries the
exit codes the workflow speaks of, and takes one for which the condition holds in the last iteration and none
before.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import InvalidInput
from weft.expressions import evaluate_boolean
from weft.simulation.scenario import Scenario
from weft.workflow.outcomes import outcome_codes
from weft.workflow.records.loop import Loop
from weft.workflow.records.workflow import Workflow

__all__ = ["exit_codes_of_loops"]

_OTHERS = (0, 1, 2)


def exit_codes_of_loops(
    workflow: Workflow, scenario: Scenario, params: Mapping[str, object]
) -> dict[str, tuple[Loop, int, int, int]]:
    """Give by last task: the loop, its true iterations, and the exit codes before and at the end.

    A loop whose condition does not depend on the exit code of its last task is not among them: its truth is
    in the results the scenario states.
    """
    found = {}
    for loop in workflow.loops:
        if loop.until is None:
            continue
        codes = dict.fromkeys((*outcome_codes(workflow, loop.last), *_OTHERS))
        holds = [code for code in codes if _holds(loop, code, params)]
        fails = [code for code in codes if code not in holds]
        if holds and fails:
            found[loop.last] = (loop, scenario.iterations.get(loop.name, 1), fails[0], holds[0])
    return found


def _holds(loop: Loop, code: int, params: Mapping[str, object]) -> bool:
    assert loop.until is not None
    names = {**params, "exit_code": code, f"{loop.last}.exit_code": code, "iteration": 1}
    try:
        return evaluate_boolean(loop.until, names)
    except InvalidInput:
        return False
