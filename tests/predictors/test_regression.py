"""Regression: the family of functions that generated the data is selected (docs/papers/dynamic-grid.md,
S1.9).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.small_graphs import assert_agrees, graph_of
from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.predictors.predictor import TaskFeatures
from weft.predictors.regression import Regression, fit
from weft.workflow.quantity import Sweep
from weft.workflow.task import Amdahl, Task

X = np.arange(1.0, 9.0)
TRUTH = {
    "linear": 20 + 15 * X,
    "polynomial": 100 - 30 * X + 5 * X**2,
    "logarithmic": 10 + 40 * np.log(X),
    "exponential": 3 * np.exp(0.6 * X),
    "power": 2 * X**2.5,
}


@pytest.mark.parametrize("family", TRUTH)
@pytest.mark.parametrize("seed", range(10))
def test_each_family_is_recovered_from_noisy_data(family, seed):
    noise = 1 + 0.01 * np.random.default_rng(seed).standard_normal(len(X))
    found = fit(X, TRUTH[family] * noise)
    assert found.family == family
    assert found.adjusted_r2 > 0.99


@pytest.mark.parametrize("family", TRUTH)
def test_exact_data_give_exact_functions(family):
    found = fit(X, TRUTH[family])
    assert found.family == family
    assert found.r2 == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(found.predict(X), TRUTH[family], rtol=1e-9)
    assert (found.low, found.high) == (1.0, 8.0)


def test_coefficients_equal_those_of_the_formula():
    assert fit(X, TRUTH["linear"]).coefficients == pytest.approx((20, 15))
    assert fit(X, TRUTH["polynomial"]).coefficients == pytest.approx((100, -30, 5))
    assert fit(X, TRUTH["exponential"]).coefficients == pytest.approx((3, 0.6))
    assert fit(X, TRUTH["power"]).coefficients == pytest.approx((2, 2.5))


LEVEL, NOISY = [-1, 0, 1, 2], [1.0, 3.0, 2.0, 4.0]


def test_adjusted_r2_and_sigma_equal_values_computed_by_hand():
    found = fit(LEVEL, NOISY, max_degree=1)
    assert found.family == "linear"
    assert found.coefficients == pytest.approx((2.1, 0.8))
    assert found.r2 == pytest.approx(0.64)
    assert found.adjusted_r2 == pytest.approx(1 - 0.36 * 3 / 2)
    assert found.sigma == pytest.approx(np.sqrt(1.8 / 2))
    assert found.p90(0.0) == pytest.approx(2.1 + 1.2816 * np.sqrt(0.9))


def test_families_outside_their_domain_are_skipped():
    assert fit([-1, 0, 1, 2], [1.0, 2.0, 3.0, 4.0]).family == "linear"
    assert fit(X - 1, np.exp(X)).family == "exponential"
    assert fit(X, np.log(X) - 1).family == "logarithmic"


def test_polynomials_of_higher_degree_are_optional():
    y = (X - 1) * (X - 4) * (X - 7)
    assert len(fit(X, y, max_degree=3).coefficients) == 4
    assert fit(X, y, max_degree=3).r2 == pytest.approx(1.0)
    assert fit(X, y).r2 < 0.99


def test_constant_data_give_a_constant():
    found = fit(X, np.full(8, 5.0))
    assert found.family == "linear"
    np.testing.assert_allclose(found.predict([0, 100]), 5.0)
    assert found.sigma == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1, 2], "2 measurements; a regression needs at least 3"),
        ([], [], "0 measurements"),
        ([1, 2, 3], [1, 2], "3 values of x but 2 values of y"),
        ([1, 2, np.nan], [1, 2, 3], "measurement 3 has x = nan and y = 3; both must be finite"),
        ([1, 2, 3], [1, 2, np.inf], "measurement 3 has x = 3 and y = inf; both must be finite"),
        ([4, 4, 4], [1, 2, 3], "all measurements are at x = 4.*different values"),
    ],
)
def test_unfittable_data_are_reported(x, y, message):
    with pytest.raises(InvalidInput, match=message):
        fit(x, y)


@pytest.mark.parametrize("degree", [0, 5])
def test_degree_of_a_fitted_polynomial_is_bounded(degree):
    with pytest.raises(InvalidInput, match=f"degree of polynomials is {degree}"):
        fit(X, X, max_degree=degree)


NUMBERS = st.floats(-1e150, 1e150, allow_nan=False)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=8))
def test_any_data_are_fitted_or_rejected(points):
    x, y = zip(*points, strict=True)
    try:
        found = fit(x, y, max_degree=4)
    except InvalidInput:
        return
    assert np.isfinite(found.r2)
    assert found.adjusted_r2 <= found.r2 + 1e-12
    assert found.sigma >= 0


WORK = Regression(fits={"lapw0": fit(X, TRUTH["linear"])}, parameter="n")


def test_fitted_work_is_divided_by_rate_and_speedup():
    machine = Machine(name="m", speed=5.0, nodes=4)
    requested = TaskFeatures(
        name="t", kind="lapw0", parameters={"n": 2}, law=Amdahl(serial=0.0), counts=(1, 2)
    )
    found = WORK.predict(requested, machine, 2)
    assert found.p50_s == pytest.approx(5.0)
    assert found.p90_s >= found.p50_s
    assert found.source == "regression"
    beyond = TaskFeatures(name="t", kind="lapw0", parameters={"n": 80})
    assert WORK.predict(beyond, machine, 1).source == "extrapolated"


def test_fitted_seconds_apply_to_every_machine():
    regression = Regression(fits={"a": fit(X, TRUTH["linear"])}, parameter="n", gives="seconds")
    requested = TaskFeatures(name="t", kind="a", parameters={"n": 2}, law=Amdahl(serial=0.0), counts=(2, 4))
    assert regression.predict(requested, Machine(name="m", speed=9.0), 2).p50_s == pytest.approx(50.0)
    assert regression.predict(requested, Machine(name="m", speed=9.0), 4).p50_s == pytest.approx(25.0)
    assert regression.reads.rate is False


@pytest.mark.parametrize("parameters", [{}, {"n": "2"}, {"n": -100}])
def test_fitted_function_with_a_value_of_0_or_less_gives_no_estimate(parameters):
    assert (
        WORK.predict(TaskFeatures(name="t", kind="lapw0", parameters=parameters), Machine(name="m"), 1)
        is None
    )
    assert (
        WORK.predict(TaskFeatures(name="t", kind="other", parameters={"n": 2}), Machine(name="m"), 1) is None
    )


def test_table_of_a_sweep_has_spreads():
    noisy = Regression(fits={"a": fit(LEVEL, NOISY, max_degree=1)}, parameter="n")
    graph = graph_of(Task(name="a", sweep=Sweep(variables=(("n", (-5, 0, 2, 9)),))), Task(name="b", work=1.0))
    machines = [Machine(name="m"), Machine(name="f", speed=3.0)]
    seconds = noisy.table(graph, machines)
    assert_agrees(seconds, noisy, graph, machines)
    assert seconds.spread[graph.index("a[0]")] == pytest.approx(1 + 1.2816 * np.sqrt(0.9) / 2.1)
    assert seconds.sources[seconds.source[graph.index("b")]] == "unknown"
