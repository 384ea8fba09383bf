"""Parameters: formulas in any order, cycles, overridden values."""

from __future__ import annotations

import pytest

from weft.errors import InvalidInput
from weft.expressions import parse
from weft.workflow.unfold import unfold
from weft.workflow.workflow import evaluate_params, set_params
from workflow.workflow_texts import messages_of, problems_in, read


def test_formulas_may_be_written_before_their_operands():
    params = {"c": parse("a + b"), "b": parse("2*a"), "a": 3}
    assert evaluate_params(params) == ({"c": 9, "b": 6, "a": 3}, [])


def test_formulas_may_use_lists_mappings_and_dotted_names():
    params = {"x": parse("site.cores * lengths[1]"), "site": {"cores": 4}, "lengths": [1, 5]}
    assert evaluate_params(params)[0]["x"] == 20


def test_a_formula_may_give_a_list():
    assert evaluate_params({"l": parse("range(1, n)"), "n": 3})[0]["l"] == [1, 2, 3]


def test_error_names_cyclic_parameters():
    _, (problem,) = evaluate_params(
        {"a": parse("b"), "b": parse("c + 1"), "c": parse("a"), "d": parse("a"), "e": 1}
    )
    assert problem.what == "cyclic parameters: a, b, c"
    assert problem.path == ("params", "a")


def test_a_formula_that_uses_itself_is_cyclic():
    _, (problem,) = evaluate_params({"a": parse("a + 1")})
    assert problem.what == "cyclic parameters: a"


def test_formulas_that_depend_on_an_invalid_formula_are_not_reported():
    values, (problem,) = evaluate_params(
        {"a": parse("1/z"), "b": parse("a"), "c": parse("b"), "z": 0, "d": 1}
    )
    assert problem.path == ("params", "a")
    assert values == {"z": 0, "d": 1}


def test_invalid_formula_is_reported_once():
    (found,) = problems_in("params: {z: 0, a: '=1/z'}\ntasks: {t: {work: a, sweep: {k: 1..a}}}")
    assert (found.path, found.location.line) == (("params", "a"), 2)


def test_a_long_chain_of_formulas_does_not_recurse():
    params = {f"p{number}": parse(f"p{number + 1} + 1") for number in range(5000)} | {"p5000": 0}
    assert evaluate_params(params)[0]["p0"] == 5000


class TestSetParams:
    """Parameters given for a run override those of the file."""

    def test_formulas_use_the_overridden_values(self):
        workflow = read("params: {n: 2, w: '=10*n'}\ntasks: {t: {sweep: {k: 1..n}, work: w}}")
        changed = set_params(workflow, {"n": 3})
        assert unfold(changed).work.tolist() == [30, 30, 30]
        assert unfold(workflow).work.tolist() == [20, 20]

    def test_formula_may_be_given_as_an_overriding_value(self):
        workflow = read("params: {n: 2, m: 5}\ntasks: {t: {work: n}}")
        assert unfold(set_params(workflow, {"n": parse("m + 1")})).work.tolist() == [6]

    def test_workflow_with_other_parameters_has_its_own_graph(self):
        workflow = read("params: {n: 2}\ntasks: {t: {sweep: {k: 1..n}}}")
        assert (len(unfold(workflow)), len(unfold(set_params(workflow, {"n": 5})))) == (2, 5)

    def test_error_about_an_unknown_parameter_suggests_the_nearest_name(self):
        workflow = read("params: {atoms: 2}\ntasks: {t: }")
        with pytest.raises(InvalidInput, match="has no parameter 'atom'; did you mean 'atoms'") as raised:
            set_params(workflow, {"atom": 3, "zzz": 1})
        assert len(raised.value.problems) == 2


def test_a_task_may_have_the_name_of_a_parameter():
    assert messages_of("params: {a: 1}\ntasks: {a: {work: a}}") == []
