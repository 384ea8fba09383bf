"""Fronts that were shown, kept in ``.weft/fronts`` of the project, so that a plan can be chosen from them.

A file holds what a decoder makes the schedules of: order, machines and modes. Its name is a digest of
workflow, parameters and platform, so that a front of anything else is never taken for it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weft.api.fronts import Front
from weft.errors import WeftError
from weft.formats.files import load_platform, read_workflow_file
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.decoding import Genome
from weft.planners.pareto.fronts import Entry, rebuilt
from weft.planners.pareto.ladder import Trial
from weft.planners.pareto.trades import trade_named
from weft.platform.platform import Platform
from weft.platform.writing import platform_document
from weft.schedule.objective import objective_named
from weft.workflow.checks import checked_graph
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.parameters import with_params
from weft.workflow.writing import workflow_document

__all__ = ["FRONTS", "front_path", "keep_front", "kept_front"]

FRONTS = Path(".weft") / "fronts"
"""Below the project's directory."""
_VERSION = 1
_SPENT = (
    "preset", "seed", "steps", "bound_s", "cut", "planning_s", "plan_time_s", "plan_steps", "workers",
)  # fmt: skip
"""What is written down as it is."""
_CLOSE = 1e-9
"""Share by which a schedule that was rebuilt may differ from the one that was shown, by rounding."""


def front_path(workflow: Workflow, platform: Platform, folder: Path = FRONTS) -> Path:
    """Say where the front of a workflow, its parameters included, on a platform is kept."""
    documents = [workflow_document(workflow), platform_document(platform)]
    text = json.dumps(documents, sort_keys=True, default=str)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def keep_front(front: Front, folder: Path = FRONTS) -> Path:
    """Write a front down, in place of the one before."""
    path = front_path(front.instance.graph.workflow, front.instance.platform, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(_written(front)), encoding="utf-8")
    beside.replace(path)
    return path


def _written(front: Front) -> dict[str, Any]:
    return {
        "weft-front": _VERSION,
        "against": front.against,
        "deadline_s": front.limits.deadline_s,
        "max_cost": front.limits.max_cost,
        **{key: getattr(front, key) for key in _SPENT},
        "remarks": list(front.remarks),
        "trials": [[trial.makespan_s, trial.amount, trial.alpha] for trial in front.trials],
        "points": [
            {
                "makespan_s": entry.makespan_s,
                "amount": entry.amount,
                "alpha": entry.alpha,
                "by": entry.by,
                "decoder": entry.decoder,
                "order": entry.genome.order.tolist(),
                "machines": entry.genome.bound.tolist(),
                "modes": entry.genome.modes.tolist(),
            }
            for entry in front.entries
        ],
    }


def kept_front(
    workflow: Workflow | str | Path,
    *,
    on: Platform | str | Path = "local",
    params: Mapping[str, Any] | None = None,
    folder: Path = FRONTS,
) -> Front | None:
    """Rebuild the front that was shown last; None: there is none, or it is not what weft would say now."""
    loaded = workflow if isinstance(workflow, Workflow) else read_workflow_file(workflow)
    platform = on if isinstance(on, Platform) else load_platform(on)
    given = with_params(loaded, params or {})
    try:
        known = json.loads(front_path(given, platform, folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    instance = compile_instance(checked_graph(given), platform)
    try:
        front = _read(known, instance)
    except (WeftError, LookupError, TypeError, ValueError):
        return None  # of another version, or damaged: it is made anew
    front.verify()
    return front


def _read(known: dict[str, Any], instance: Instance) -> Front:
    if known["weft-front"] != _VERSION:
        raise ValueError("a front of another version")
    goal = objective_named("makespan", deadline_s=known["deadline_s"], max_cost=known["max_cost"])
    trade = trade_named(known["against"], instance, max_cost=goal.max_cost)
    return Front(
        instance=instance,
        against=trade.against,
        unit=trade.unit,
        limits=goal,
        entries=tuple(_entry(point, instance) for point in known["points"]),
        trials=tuple(
            Trial(makespan_s=makespan_s, amount=amount, alpha=alpha)
            for makespan_s, amount, alpha in known["trials"]
        ),
        remarks=tuple(known["remarks"]),
        **{key: known[key] for key in _SPENT},
    )


def _entry(point: dict[str, Any], instance: Instance) -> Entry:
    columns = (np.asarray(point[key], dtype=np.uint32) for key in ("order", "machines", "modes"))
    genome = Genome(*columns)
    schedule = rebuilt(instance, genome, point["decoder"])
    if not math.isclose(schedule.makespan_s, point["makespan_s"], rel_tol=_CLOSE):
        raise ValueError("the schedule takes another time than it took when the front was shown")
    return Entry(
        makespan_s=schedule.makespan_s,
        amount=point["amount"],
        schedule=schedule,
        genome=genome,
        decoder=point["decoder"],
        alpha=point["alpha"],
        by=point["by"],
    )
