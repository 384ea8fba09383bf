"""Results of tuning a search planner: precision, improvement, visited points and success rates.

Precision P and improvement I: R. Prodan, T. Fahringer, SAC 2005 (docs/papers/dynamic-grid.md, section 12).
Success rates and generations: M. Jaros, J. Jaros (docs/papers/moldable.md, section 8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from weft.papers.statistics import Summary, improvement_percent, precision_percent, share_percent, summarise
from weft.planners.tuning import OptionValue, option_text
from weft.records import dataclass
from weft.reports.text import TextTable, csv_text
from weft.units import format_count

_SHOWN = 40
"""Largest number of experiments in the table; the others are in files and JSON."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedExperiment:
    """The runs of one setting of the planner."""

    options: Mapping[str, OptionValue]
    values: tuple[float, ...]
    """Objective value of the best schedule of each run."""
    first_values: tuple[float, ...]
    """Best objective value of the first generation of each run."""
    visited: tuple[float, ...]
    generation_of_best: tuple[float, ...]
    evaluations_to_best: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """All experiments of a tuning study, and the reference from which precision is measured."""

    workflow: str
    platform: str
    planner: str
    """Planner name with options; the options of an experiment take precedence."""
    objective: str
    maximised: bool
    reference: str
    """How the reference was found: ``best``, ``bound``, a number, or a planner."""
    reference_value: float
    tolerance: float
    """Relative distance from the reference up to which a run is a success."""
    repeat: int
    seed: int
    experiments: tuple[TunedExperiment, ...]
    reused: int = 0
    """Number of runs whose stored results were used instead of running them again."""

    def precision(self, experiment: TunedExperiment) -> Summary | None:
        """Return statistics of P, the distance of runs from the reference in percent.

        Return None if the reference is not positive.
        """
        if not self.reference_value > 0:
            return None
        sign = -1.0 if self.maximised else 1.0
        return summarise(
            [sign * precision_percent(value, self.reference_value) for value in experiment.values]
        )

    def improvement(self, experiment: TunedExperiment) -> Summary | None:
        """Return statistics of I, the improvement of runs over their first generation in percent.

        Return None if a value is not positive.
        """
        pairs = list(zip(experiment.first_values, experiment.values, strict=True))
        if any(not min(pair) > 0 for pair in pairs):
            return None
        if self.maximised:
            return summarise([improvement_percent(value, first) for first, value in pairs])
        return summarise([improvement_percent(first, value) for first, value in pairs])

    def success(self, experiment: TunedExperiment) -> float:
        """Return the percentage of runs that reach the reference within the tolerance."""
        slack = (self.tolerance + _ROUNDING) * abs(self.reference_value)
        if self.maximised:
            return share_percent(
                [float(value >= self.reference_value - slack) for value in experiment.values]
            )
        return share_percent([float(value <= self.reference_value + slack) for value in experiment.values])

    def mean_loss(self, experiment: TunedExperiment) -> float:
        """Return the mean objective value of an experiment, negated if the objective is maximised.

        Lower values are better.
        """
        mean = math.fsum(experiment.values) / len(experiment.values)
        return -mean if self.maximised else mean

    @property
    def ranked(self) -> list[TunedExperiment]:
        """Return the experiments, the best mean value first; ties keep the order of the grid."""
        return sorted(self.experiments, key=self.mean_loss)

    def best(self, experiment: TunedExperiment) -> float:
        """Return the best value of all runs of an experiment."""
        return max(experiment.values) if self.maximised else min(experiment.values)

    @property
    def best_value(self) -> float:
        """Return the best value of all runs."""
        found = [self.best(experiment) for experiment in self.experiments]
        return max(found) if self.maximised else min(found)

    def by_value(self) -> list[tuple[str, OptionValue, int, float]]:
        """Return (option, value, number of experiments, mean) for each value of options with several values.

        The mean is taken over the mean objective values of the experiments with that option value.
        """
        found: dict[tuple[str, OptionValue], list[float]] = {}
        for experiment in self.experiments:
            mean = math.fsum(experiment.values) / len(experiment.values)
            for name, value in experiment.options.items():
                found.setdefault((name, value), []).append(mean)
        names = [name for name, _ in found]
        return [
            (name, value, len(means), math.fsum(means) / len(means))
            for option in dict.fromkeys(names)
            for (name, value), means in found.items()
            if name == option and names.count(name) > 1
        ]

    def as_record(self) -> dict[str, Any]:
        """Return the object printed by ``weft tune --json``."""
        return {
            "workflow": self.workflow,
            "platform": self.platform,
            "planner": self.planner,
            "objective": self.objective,
            "reference": self.reference,
            "reference_value": self.reference_value,
            "tolerance": self.tolerance,
            "best_value": self.best_value,
            "repeat": self.repeat,
            "seed": self.seed,
            "reused": self.reused,
            "experiments": [self._record(experiment) for experiment in self.experiments],
            "by_value": [
                {"option": name, "value": value, "experiments": number, "mean_value": mean}
                for name, value, number, mean in self.by_value()
            ],
        }

    def _record(self, experiment: TunedExperiment) -> dict[str, Any]:
        precision, improvement = self.precision(experiment), self.improvement(experiment)
        return {
            "options": dict(experiment.options),
            "value": asdict(summarise(experiment.values)),
            "precision_percent": None if precision is None else asdict(precision),
            "improvement_percent": None if improvement is None else asdict(improvement),
            "visited": asdict(summarise(experiment.visited)),
            "success_percent": self.success(experiment),
            "generation_of_best": asdict(summarise(experiment.generation_of_best)),
            "evaluations_to_best": asdict(summarise(experiment.evaluations_to_best)),
            "values": list(experiment.values),
        }


def tuning_title(result: TuningResult) -> str:
    """Return a title: workflow, platform, planner, and the number of experiments and runs."""
    experiments = format_count(len(result.experiments), "experiment")
    return (
        f"{result.workflow} on {result.platform}, {result.planner}: "
        f"{experiments} of {format_count(result.repeat, 'run')}, seed {result.seed}"
    )


def reference_text(result: TuningResult) -> str:
    """Return a line about the reference of precision and success."""
    within = f" within {result.tolerance:.3g}" if result.tolerance else ""
    sources = {"best": "the best of all runs", "bound": "the lower bound of the makespan"}
    source = sources.get(result.reference, f"from {result.reference}")
    return f"reference {result.reference_value:.6g} ({source}); success: a run reaches it{within}"


def experiment_table(result: TuningResult, *, verbose: bool = False) -> TextTable:
    """Return a table of the best experiments: mean value, P, I, visited points, success and generation.

    ``verbose``: the table has all experiments.
    """
    heading = ("options", f"mean {result.objective}", "best", "P", "I", "visited", "success", "generation")
    rows = [_cells(result, experiment) for experiment in result.ranked[: None if verbose else _SHOWN]]
    return TextTable(heading=heading, rows=tuple(rows), texts=1)


def _cells(result: TuningResult, experiment: TunedExperiment) -> tuple[str, ...]:
    return (
        option_text(experiment.options) or "as named",
        f"{summarise(experiment.values).mean:.6g}",
        f"{result.best(experiment):.6g}",
        _mean_percent(result.precision(experiment)),
        _mean_percent(result.improvement(experiment)),
        f"{summarise(experiment.visited).mean:,.0f}",
        f"{result.success(experiment):.0f} %",
        f"{summarise(experiment.generation_of_best).median:,.0f}",
    )


def _mean_percent(found: Summary | None) -> str:
    if found is None:
        return "-"
    error = "" if math.isnan(found.standard_error) else f" ± {found.standard_error:.1f}"
    return f"{found.mean:.1f}{error} %"


def value_table(result: TuningResult) -> TextTable | None:
    """Return a table of ``by_value``; None if no option value occurs in several experiments."""
    rows = [
        (name, str(value).lower() if isinstance(value, bool) else str(value), str(number), f"{mean:.6g}")
        for name, value, number, mean in result.by_value()
    ]
    if len(rows) < 2 or all(row[2] == "1" for row in rows):
        return None
    heading = ("option", "value", "experiments", f"mean {result.objective}")
    return TextTable(heading=heading, rows=tuple(rows), texts=2)


def hidden_text(result: TuningResult) -> str:
    """Return a text with the number of experiments that the table omits; "" if it omits none."""
    hidden = len(result.experiments) - _SHOWN
    return f"{format_count(hidden, 'worse experiment')} not shown; -v shows all" if hidden > 0 else ""


_MEASURES = (
    "mean_value", "best_value", "precision_percent", "precision_error", "improvement_percent",
    "mean_visited", "success_percent", "median_generation", "median_evaluations",
)  # fmt: skip


def tuning_csv(result: TuningResult) -> str:
    """Return the experiments as CSV: a column per option, then the measures; in the order of the grid."""
    names = list(dict.fromkeys(name for each in result.experiments for name in each.options))
    heading = ("workflow", "platform", "planner", "objective", "reference_value", "repeat", "seed")
    head = (result.workflow, result.platform, result.planner, result.objective, result.reference_value,
            result.repeat, result.seed)  # fmt: skip
    rows = [
        (*head, *(each.options.get(name) for name in names), *_numbers(result, each))
        for each in result.experiments
    ]
    return csv_text((*heading, *names, *_MEASURES), rows)


def _numbers(result: TuningResult, experiment: TunedExperiment) -> Sequence[object]:
    precision, improvement = result.precision(experiment), result.improvement(experiment)
    return (
        summarise(experiment.values).mean,
        result.best(experiment),
        None if precision is None else precision.mean,
        None if precision is None or math.isnan(precision.standard_error) else precision.standard_error,
        None if improvement is None else improvement.mean,
        summarise(experiment.visited).mean,
        result.success(experiment),
        summarise(experiment.generation_of_best).median,
        summarise(experiment.evaluations_to_best).median,
    )
