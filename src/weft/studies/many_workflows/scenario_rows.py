"""What the policies made of 102 workflows, beside S5's findings (spec s5 sections 8 and 10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from weft.studies.many_workflows.applications import ALONE_S, WORK_S
from weft.studies.many_workflows.contests import ALL, LABELS, boxed
from weft.studies.many_workflows.orders import REFERENCES
from weft.studies.reproduction import Band, Results, Row
from weft.studies.statistics import Summary, summary

__all__ = ["CASES", "alone_measure", "delayed_case", "scenario_rows", "work_measure"]


class _Cases(NamedTuple):
    """The names of the cells."""

    alone: str
    orders: str
    delayed: str
    reference: str
    idle: str


CASES = _Cases(
    alone="applications alone",
    orders="drawn orders",
    delayed="drawn orders, 0.25 s per task",
    reference="reference order",
    idle="reference order, 600 servers",
)

_PAPER_END = "2 to 3.5 %"
_MEAN = boxed(ALL, "mean")
_FAIR = ("aging-e", "foft")
"""The policies with the smallest dispersion."""
_EARLY = ("fcfs", "srpt", "foft", "aging-e")
"""The policies under which workflows end early."""


class _Column(NamedTuple):
    """A column of the table of section 8."""

    measure: str
    title: str
    unit: str
    prototype: tuple[float | None, ...]
    """In the order of the policies."""


_COLUMNS = (
    _Column("over_bound_percent", "end above the bound", "%", (1.71, 1.46, 1.20, 1.30, 0.51, 0.33, 0.33)),
    _Column(_MEAN, "mean slowdown", "", (5.1, 7.4, 8.9, 12.9, 18.8, 26.9, 39.2)),
    _Column(boxed(ALL, "median"), "median slowdown", "", (3.3, 8.1, 9.2, 9.4, 16.5, 27.9, 30.4)),
    _Column(boxed(ALL, "most"), "largest slowdown", "", (16.8, 11.0, 12.9, 36.4, 36.6, 46.1, 86.4)),
    _Column("deviation", "standard deviation of the slowdown", "", (3.9, 2.5, 2.5, 9.5, 9.4, 10.6, 25.0)),
    _Column("quartile_range", "quartile range of the slowdown", "", (3.6, 3.3, 2.9, 14.2, 14.6, 18.3, 35.9)),
    _Column("absolute_deviation", "mean absolute deviation of the slowdown", "", (None,) * 7),
    _Column("range", "range of the slowdown", "", (None,) * 7),
    _Column(boxed("MAXDo", "mean"), "mean slowdown of MAXDo", "", (2.5, 6.4, 7.5, 19.6, 25.2, 35.2, 60.1)),
    _Column(
        boxed("PipeAlign", "mean"), "mean slowdown of PipeAlign", "", (4.7, 8.0, 10.9, 6.9, 14.8, 21.9, 21.9)
    ),
    _Column(boxed("GEE", "mean"), "mean slowdown of GEE", "", (12.0, 9.1, 9.6, 5.6, 9.0, 14.4, 14.6)),
    _Column("most_ready", "largest number of ready tasks", "", (None, None, None, None, None, 207, 221)),
)
_END_S = (3042.4, 3041.9, 3032.5, 3063.8, 3012.2, 3007.8, 3007.1)
_SLOWDOWN = (5.114, 7.51, 9.095, 13.38, 19.494, 26.532, 38.668)
"""Of the reference order, in the order of the policies."""


def work_measure(application: str) -> str:
    """Name the sum of an application's durations."""
    return f"{application}.work_s"


def alone_measure(application: str, policy: str) -> str:
    """Name the makespan of an application alone."""
    return f"{application}.{policy}.alone_s"


def delayed_case(number: int) -> str:
    """Name the cell of a reference order with 0.25 s per task."""
    return f"reference order {number}, 0.25 s per task"


def scenario_rows(results: Results, *, full: bool) -> list[Row]:
    """Give all tables."""
    return [
        *_alone(results),
        *_reference(results),
        *_columns(results),
        *_orderings(results),
        *_delayed(results),
        *(_delayed_drawn(results) if full else ()),
        *_waves(results),
        *_idle(results),
    ]


def _alone(results: Results) -> Iterator[Row]:
    for name, known_s in ALONE_S.items():
        of_policies = [_mean(results, CASES.alone, alone_measure(name, policy)) for policy in LABELS]
        for figure, ours_s, wanted_s in (
            (f"{name}: makespan under every policy", _furthest(of_policies, known_s), known_s),
            (f"{name}: work", _mean(results, CASES.alone, work_measure(name)), WORK_S[name]),
        ):
            yield Row(
                table="the applications alone on 4 servers",
                figure=figure,
                ours=ours_s,
                unit="s",
                runs=_runs(results, CASES.alone),
                prototype=f"{wanted_s:g} s",
                band=Band(least=wanted_s - 0.05, most=wanted_s + 0.05),
                accepts="A5.1",
            )


def _reference(results: Results) -> Iterator[Row]:
    for measure, title, known, share, unit, digits in (
        ("end_s", "end", _END_S, 0.005, "s", 1),
        (_MEAN, "mean slowdown", _SLOWDOWN, 0.05, "", 2),
    ):
        for (policy, label), value in zip(LABELS.items(), known, strict=True):
            yield Row(
                table=f"{CASES.reference}: {title}",
                figure=label,
                ours=_mean(results, CASES.reference, f"{policy}.{measure}"),
                unit=unit,
                digits=digits,
                runs=_runs(results, CASES.reference),
                prototype=f"{value:,g} {unit}".rstrip(),
                band=Band(least=value * (1 - share), most=value * (1 + share)),
                accepts="A5.2",
            )


def _columns(results: Results) -> Iterator[Row]:
    for column in _COLUMNS:
        for policy, known in zip(LABELS, column.prototype, strict=True):
            found = _summary(results, CASES.orders, policy, column.measure)
            bounded = column.measure == "over_bound_percent"
            yield Row(
                table=f"{CASES.orders}: {column.title}",
                figure=LABELS[policy],
                ours=found.mean,
                unit=column.unit,
                error=found.standard_error,
                digits=2 if bounded else 1,
                runs=found.number,
                paper=_PAPER_END if bounded else "",
                prototype="" if known is None else f"{known:g} {column.unit}".rstrip(),
                band=Band(most=2.0) if bounded else None,
                accepts="A5.5" if bounded else "",
            )


def _orderings(results: Results) -> Iterator[Row]:
    means = [_summary(results, CASES.orders, policy, _MEAN).mean for policy in LABELS]
    widths = {policy: _summary(results, CASES.orders, policy, "deviation").mean for policy in LABELS}
    others = [policy for policy in LABELS if policy not in _FAIR]
    for figure, wrong, accepts in (
        (" < ".join(LABELS.values()), sum(not low < high for low, high in pairwise(means)), "A5.3"),
        (
            "deviation of AGING e and FOFT < that of every other",
            sum(not widths[fair] < widths[other] for fair in _FAIR for other in others),
            "A5.4",
        ),
    ):
        yield Row(
            table=f"{CASES.orders}: what does not hold",
            figure=figure,
            ours=wrong,
            digits=0,
            runs=_runs(results, CASES.orders),
            paper="all holds",
            prototype="all holds",
            band=Band(most=0.0),
            accepts=accepts,
        )


def _delayed(results: Results) -> Iterator[Row]:
    cases = [delayed_case(number) for number in range(REFERENCES)]
    for policy, label in LABELS.items():
        found = summary(
            [value for case in cases for value in results.of(case, f"{policy}.over_bound_percent")]
        )
        yield Row(
            table=f"{REFERENCES} reference orders, 0.25 s per task: end above the bound",
            figure=label,
            ours=found.mean,
            unit="%",
            error=found.standard_error,
            digits=2,
            runs=found.number,
            paper=_PAPER_END,
            prototype="2.26 to 3.45 %",
            band=Band(least=2.0, most=3.6),
            accepts="A5.5",
        )


def _delayed_drawn(results: Results) -> Iterator[Row]:
    for policy, label in LABELS.items():
        found = _summary(results, CASES.delayed, policy, "over_bound_percent")
        yield Row(
            table=f"{CASES.delayed}: end above the bound",
            figure=label,
            ours=found.mean,
            unit="%",
            error=found.standard_error,
            digits=2,
            runs=found.number,
            paper=_PAPER_END,
        )


def _waves(results: Results) -> Iterator[Row]:
    runs = _runs(results, CASES.orders)
    waves = {policy: _summary(results, CASES.orders, policy, "wave_tasks").mean for policy in LABELS}
    table = f"{CASES.orders}: tasks of the same rank started in a row"
    for policy, label in LABELS.items():
        known = "4.85" if policy == "g-heft" else "1.6 to 2.2"
        yield Row(table=table, figure=label, ours=waves[policy], digits=2, runs=runs, prototype=known)
    yield Row(
        table=table,
        figure="G-HEFT against FCFS",
        ours=waves["g-heft"] / waves["fcfs"],
        digits=2,
        runs=runs,
        paper="waves",
        # More than twice, so twice itself is outside.
        band=Band(least=2.0 + 1e-9),
        accepts="A5.6",
    )
    demanded = {"g-heft": Band(least=70.0)} | dict.fromkeys(_EARLY, Band(most=25.0))
    known_late = {"g-heft": "85 %", "aging": "73 %"}
    for policy, label in LABELS.items():
        found = _summary(results, CASES.orders, policy, "last_tenth_percent")
        yield Row(
            table=f"{CASES.orders}: workflows that end in the last tenth",
            figure=label,
            ours=found.mean,
            unit="%",
            error=found.standard_error,
            runs=found.number,
            paper="almost all" if policy in known_late else "few" if policy in _EARLY else "",
            prototype=known_late.get(policy, "7 to 14 %"),
            band=demanded.get(policy),
            accepts="A5.6" if policy in demanded else "",
        )


def _idle(results: Results) -> Iterator[Row]:
    for measure, title, known_s in (("end_s", "end", 1896.0), ("flow_s", "sum of flow times", 6715.0)):
        of_policies = [_mean(results, CASES.idle, f"{policy}.{measure}") for policy in LABELS]
        yield Row(
            table=f"{CASES.idle}: all policies alike",
            figure=f"{title}, the one furthest off",
            ours=_furthest(of_policies, known_s),
            unit="s",
            runs=_runs(results, CASES.idle),
            prototype=f"{known_s:,.1f} s",
            band=Band(least=known_s - 0.05, most=known_s + 0.05),
            accepts="A5.7",
        )


def _summary(results: Results, case: str, policy: str, measure: str) -> Summary:
    return results.summary(case, f"{policy}.{measure}")


def _mean(results: Results, case: str, measure: str) -> float:
    return results.summary(case, measure).mean


def _runs(results: Results, case: str) -> int:
    first = alone_measure(next(iter(ALONE_S)), next(iter(LABELS)))
    return len(results.of(case, first if case == CASES.alone else f"{next(iter(LABELS))}.end_s"))


def _furthest(values: Iterable[float], known: float) -> float:
    return max(values, key=lambda value: abs(value - known))
