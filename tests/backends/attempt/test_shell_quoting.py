"""Values in shell lines arrive unchanged at any position and are never interpreted by the shell."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import PATIENCE_S
from weft.backends.attempt.substitution import (
    COMMENT,
    DOUBLE,
    PLAIN,
    SINGLE,
    UNSAFE,
    JobProblem,
    TemplateValues,
    quoting_contexts,
)

NASTY = st.text(alphabet="ab $`\"'\\\n;|&<>(){}*?[]~#!%-=\t\u00e9\u4e2d", max_size=12)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a {x} '{x}' \"{x}\" {x}", [PLAIN, SINGLE, DOUBLE, PLAIN]),
        ("awk '{print $1}' {x}", [PLAIN]),
        ("echo it\\'s {x}", [PLAIN]),
        ('echo "a \\" {x}"', [DOUBLE]),
        ("echo 'a\\' {x}", [PLAIN]),
        ("echo \\{x}", [UNSAFE]),
        ('echo "\\{x}"', [UNSAFE]),
        ("echo '\\{x}'", [SINGLE]),
        ("echo \\\\{x}", [PLAIN]),
        ("echo $(f {x} '{x}') {x}", [PLAIN, SINGLE, PLAIN]),
        ('echo "$(f {x} "{x}") {x}"', [PLAIN, DOUBLE, DOUBLE]),
        ("echo `f {x}` {x}", [UNSAFE, PLAIN]),
        ("echo $(( {x} + (1 << {x}) )) {x}", [UNSAFE, UNSAFE, PLAIN]),
        ("cat {x} <<EOF\nit's {x}\nEOF", [PLAIN, UNSAFE]),
        ("a # it's {x}\nb {x}", [COMMENT, PLAIN]),
        ("a#it {x}", [PLAIN]),
        ("(cd d; a {x}); b '{x}'", [PLAIN, SINGLE]),
        ("case {x} in a) b {x};; esac", [PLAIN, PLAIN]),
        ('"$(case {x} in a) b {x};; esac)"', [UNSAFE, UNSAFE]),
        ("echo '{x} {x}", [UNSAFE, UNSAFE]),
        ("${HOME} {x} ${y:-'} {x}", [PLAIN, UNSAFE]),
        ("'{{{x}}}' {x}", [SINGLE, PLAIN]),
        ("$((f); g) {x} ", [UNSAFE]),
        ("echo $'a\\'{x}'", [UNSAFE]),
        ("((i = {x})); echo {x}", [UNSAFE, UNSAFE]),
    ],
)
def test_quoting_depends_on_the_surrounding_quotes(line, expected):
    assert list(quoting_contexts(line)) == expected


def shell(line, value):
    """Run a line with a substituted value; return the words that the program receives."""
    filled = TemplateValues({"x": value, "xs": [value, "b c"]}, {}, {}).line(line)
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", filled], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, (filled, done.stderr)
    return done.stdout.decode().split("\0")[:-1]


@given(NASTY)
def test_values_pass_unchanged_through_a_real_shell(value):
    line = "printf '%s\\0' {x} pre'{x}'post \"a {x} b\" \"$(printf '%s.' {x})\" {xs} # {x}"
    assert shell(line, value) == [value, f"pre{value}post", f"a {value} b", f"{value}.", value, "b c"]


@given(NASTY, st.sampled_from(["`echo {x}`", "$(( {x} ))", "cat <<E\n{x}\nE", "\\{x}", '"\\{x}"', "'{x}"]))
def test_unquotable_positions_accept_only_harmless_values(value, line):
    harmless = value == "" or all(
        letter.isascii() and (letter.isalnum() or letter in "@%+=:,./-_") for letter in value
    )
    values = TemplateValues({"x": value}, {}, {})
    if harmless:
        assert values.line(line) == line.replace("{x}", value)
    else:
        with pytest.raises(JobProblem, match="cannot be quoted"):
            values.line(line)


def test_value_with_a_command_is_not_executed(tmp_path):
    canary = tmp_path / "canary"
    for line in ("echo {x}", 'echo "{x}"', "echo '{x}'", 'echo "$(echo {x})"'):
        for value in (
            f"$(touch {canary})",
            f"`touch {canary}`",
            f"'; touch {canary}; '",
            f'"; touch {canary}; "',
        ):
            filled = TemplateValues({"x": value}, {}, {}).line(line)
            done = subprocess.run(
                ["/bin/sh", "-eu", "-c", filled], capture_output=True, text=True, check=True
            )
            assert done.stdout == value + "\n"
    assert not canary.exists()


FRAGMENTS = ["'", '"', "\\", "$(", ")", "`", " #", "\n", "{x}", "a", " ", "$((", "))", "<<E\n", "\nE\n", "case a in a)", ";;esac",
             "${y:-", "}", "(", ";", "echo ", "$", "${z}", "''", '"$(echo ', ')"', "$'"]  # fmt: skip
ATTACKS = ["$(touch canary)", "`touch canary`", "';touch canary;'", '";touch canary;"', "'\ntouch canary\n'", "\ntouch canary\n",
           "\nE\ntouch canary\n", "'$(touch canary)", "\\\ntouch canary\n"]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8), st.sampled_from(ATTACKS))
def test_value_is_never_interpreted_in_random_lines(tmp_path, fragments, value):
    try:
        filled = TemplateValues({"x": value}, {}, {}).line("echo " + "".join(fragments) + " {x}")
    except JobProblem:
        return
    variables = {"PATH": os.environ["PATH"], "y": "", "z": "1"}
    subprocess.run(
        ["/bin/sh", "-c", filled],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_values_that_cannot_be_arguments_are_refused(value):
    with pytest.raises(JobProblem, match="cannot be passed to a program"):
        TemplateValues({"x": value}, {}, {}).line("echo {x}")


def test_raw_field_is_not_quoted():
    assert TemplateValues({"x": "a; b"}, {}, {}).line("{x:raw} '{x:raw}'") == "a; b 'a; b'"
