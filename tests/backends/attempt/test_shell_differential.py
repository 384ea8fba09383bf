"""Random commands print exactly the words that a model expects, in dash, bash and busybox sh.

`make properties EXAMPLES=1000` draws more commands.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.attempt.shell_programs import (
    ATTACKS,
    MARKER,
    SHELLS,
    commands,
    hostile_values,
    needs_shells,
    run_in,
)
from weft.backends.attempt.substitution import JobProblem
from weft.workflow.code_arguments import Scope
from weft.workflow.shell_text import split_shell_text

pytestmark = needs_shells

_MANY = settings(
    max_examples=5 * settings.default.max_examples,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


@pytest.mark.parametrize("shell", SHELLS)
@_MANY
@given(drawn=commands())
def test_commands_print_the_words_that_the_model_expects(shell, drawn, tmp_path):
    refusals = split_shell_text(drawn.text).refusals
    assert [each for each in refusals if each.scope is Scope.ALL] == [], drawn.text
    done = run_in(shell, drawn.text, drawn.values, tmp_path)
    assert (done.stdout.decode(), done.returncode) == (drawn.output, 0), done.stderr
    assert not (tmp_path / MARKER).exists()


_FRAGMENTS = [
    "'", '"', "\\", "$(", ")", "`", " #", "\n", "{x}", "{x}", "{y}", "a", " ", "$((", "))", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "\\\n",
    "case a in a)", "case ", " in ", ";;esac", "esac", "${z:-", "${z}", "}", "(", ";", "&&", "|", "echo ", "$", "''", '"$(echo ', ')"', "$'",
    "eval ", "[ ", " ]", "[[ ", " ]]", " -eq 1", "test -v ", "printf -v ", "printf ", "let ", "unset ", "read ", "declare ", "export ", "a=",
    "trap ", "alias ", "((", "$[", "]", "a[", "]=1", "=", "a=(", "sh -c ", "bash -c ", "command ", "f() {{ ", "; }}", "f ", "for i in ", "; do ",
    "done", "if ", "; then ", "; fi", "set -- ", "shift ", "~", "<", ">", "2>&1", "{{", "local ", "wait ", "exec ", "time ", "! ",
    "<&", ">&", "&>", ">>", "<<<", "|&", "<>", ">|", "coproc ", "select ", "function ", "until ", "${{!", "=~", " -a ", " -o ", "@(", "$((a[", "-n ", "cd ",
    "set ", "echo a >&", "{{x}}>", "a+=", "$@", "${{#", "[ -n ", "[ a = ", "-gt ", "exit ", "return ", "kill ", "ulimit ", "umask ", "test ", "1+",
]  # fmt: skip


@_MANY
@given(
    fragments=st.lists(st.sampled_from(_FRAGMENTS), max_size=10),
    x=st.sampled_from(ATTACKS),
    y=hostile_values,
    is_list=st.booleans(),
)
def test_no_value_is_executed_in_arbitrary_text(fragments, x, y, is_list, tmp_path):
    text = "".join([*fragments, " {x}"])
    values = {"x": x, "y": [y, x] if is_list else y}
    scopes = (Scope.ALL, Scope.DATA, Scope.LISTS) if is_list else (Scope.ALL, Scope.DATA)
    if any(refusal.scope in scopes for refusal in split_shell_text(text).refusals):
        return
    for shell in (parameter.values[0] for parameter in SHELLS):
        try:
            run_in(shell, text, values, tmp_path)
        except JobProblem:  # a text in arithmetic
            return
        assert not (tmp_path / MARKER).exists(), shell
