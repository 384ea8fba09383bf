"""Values in shell commands arrive unchanged, and values that cannot be passed are refused."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from backends.attempt.shell_programs import MARKER, hostile_values, run_in
from weft.backends.attempt.substitution import JobProblem, TemplateValues, compile_shell
from weft.workflow.templates import split_template


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hostile_values)
def test_values_pass_unchanged_through_the_shell_of_this_system(tmp_path, value):
    text = "printf '%s\\0' {x} pre'{x}'post \"a {x} b\" \"$(printf '%s.' {x})\" {xs} \"{xs}\" # it's"
    done = run_in(["/bin/sh"], text, {"x": value, "xs": [value, "b c"]}, tmp_path)
    expected = [value, f"pre{value}post", f"a {value} b", f"{value}.", value, "b c", f"{value} b c"]
    assert done.stdout.decode().split("\0")[:-1] == expected, done.stderr
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_values_that_cannot_be_passed_are_refused(value):
    with pytest.raises(JobProblem, match="cannot be passed to a program"):
        compile_shell((split_template("echo {x}"),)).fill(TemplateValues({"x": value}, {}, {}))
