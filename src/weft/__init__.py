"""weft predicts, plans and runs scientific workflows on heterogeneous machines.

>>> import weft
>>> flow = weft.Builder("hello")
>>> prepare = flow.task("prepare", work=2)
>>> train = flow.task("train", after=prepare, sweep={"seed": "1..4"}, work=10)
>>> weft.plan(flow.build(), on="identical:2").makespan_s
22.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.api.compare import compare
    from weft.api.generate import generate
    from weft.api.pareto import Front, pareto
    from weft.api.plan import PlannedWorkflow, plan
    from weft.api.run import RunResult, resume, run
    from weft.api.simulation import SimulatedRuns, simulate
    from weft.api.tune import tune
    from weft.errors import Infeasible, InvalidInput, Problem, WeftError
    from weft.formats.files import load_platform, load_workflow, save_workflow
    from weft.workflow.builder import Builder
    from weft.workflow.checks import check
    from weft.workflow.unfold import unfold

__all__ = [
    "Builder",
    "Front",
    "Infeasible",
    "InvalidInput",
    "PlannedWorkflow",
    "Problem",
    "RunResult",
    "SimulatedRuns",
    "WeftError",
    "__version__",
    "check",
    "compare",
    "generate",
    "load_platform",
    "load_workflow",
    "pareto",
    "plan",
    "resume",
    "run",
    "save_workflow",
    "simulate",
    "tune",
    "unfold",
]

__version__ = "0.1.0"

_MODULES = {
    "Builder": "weft.workflow.builder",
    "Front": "weft.api.pareto",
    "Infeasible": "weft.errors",
    "InvalidInput": "weft.errors",
    "PlannedWorkflow": "weft.api.plan",
    "Problem": "weft.errors",
    "RunResult": "weft.api.run",
    "SimulatedRuns": "weft.api.simulation",
    "WeftError": "weft.errors",
    "check": "weft.workflow.checks",
    "compare": "weft.api.compare",
    "generate": "weft.api.generate",
    "load_platform": "weft.formats.files",
    "load_workflow": "weft.formats.files",
    "pareto": "weft.api.pareto",
    "plan": "weft.api.plan",
    "resume": "weft.api.run",
    "run": "weft.api.run",
    "save_workflow": "weft.formats.files",
    "simulate": "weft.api.simulation",
    "tune": "weft.api.tune",
    "unfold": "weft.workflow.unfold",
}


def __getattr__(name: str) -> Any:
    # `import weft` must stay light: a name is imported from its module when it is first used.
    if (home := _MODULES.get(name)) is None:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
