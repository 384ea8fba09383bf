"""The generic route from a predictor to seconds: ask once per class of tasks, class of machines, and count.

Tasks are alike when they agree in everything the predictor reads (``Predictor.reads``), machines likewise;
the answers become the layout ``classes`` where many tasks share a class, else ``table``. Complexity:
O(task classes x machine classes x counts) questions, O(v + p) array work beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.building.answers import Answers
from weft.predictors.building.likeness import Grouping, machine_classes, task_classes
from weft.predictors.layouts.sizes import check_entries
from weft.predictors.predictor import Predictor, subject
from weft.predictors.seconds import Classes, Table
from weft.workflow.unfolding.task_graph import COMPUTE, TaskGraph

__all__ = ["tabulate"]


def tabulate(predictor: Predictor, graph: TaskGraph, machines: Sequence[Machine]) -> Classes | Table:
    """Ask a predictor about all modes of all tasks."""
    applies = predictor.applies(graph)
    tasks = task_classes(graph, predictor.reads, applies)
    groups = machine_classes(graph, machines, predictor.reads)
    _check_questions(graph, tasks, groups)
    answers = Answers()
    asked = [machines[index] for index in groups.first.tolist()]
    for task in tasks.first.tolist():
        answers.open_row()
        if graph.kind[task] != COMPUTE:
            answers.add_idle(len(asked))
        elif applies[task]:
            _ask(predictor, graph, task, asked, answers)
    return answers.laid_out(tasks, groups)


def _check_questions(graph: TaskGraph, tasks: Grouping, groups: Grouping) -> None:
    lengths = np.array([len(counts) for counts in graph.count_sets], dtype=np.int64)
    questions = int(lengths[graph.counts[tasks.first]].sum()) * len(groups.first)
    check_entries(
        questions,
        f"{len(tasks.first):,} unlike tasks x {len(groups.first):,} unlike machines x their node counts",
    )


def _ask(
    predictor: Predictor, graph: TaskGraph, task: int, machines: Sequence[Machine], answers: Answers
) -> None:
    asked = subject(graph, task)
    for index, machine in enumerate(machines):
        for count in asked.counts:
            if count > machine.nodes:
                break
            estimate = predictor.predict(asked, machine, count)
            if estimate is not None:
                answers.note(estimate.source, estimate.spread)
                if estimate.possible:
                    answers.add(index, count, estimate.p50_s)
