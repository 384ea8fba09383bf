"""Commands with fields that a shell would not expand safely are refused with place, rule and advice."""

from __future__ import annotations

import pytest

from workflow.workflow_texts import messages_of, problems_in

TASK = "params: {{x: 1, xs: [1, 2]}}\ntasks:\n  a:\n    {}"


def test_problem_has_the_location_of_the_key_and_the_position_in_the_text():
    text = TASK.format("command: |\n      echo a \\\n      # {x}\n")
    (problem,) = problems_in(text)
    assert (problem.location.line, problem.path) == (5, ("tasks", "a", "command"))
    assert problem.what == "{x} stands in a comment (line 2, column 3 of the text)"
    assert problem.rule
    assert problem.advice == "remove the comment, or write the name without braces"


@pytest.mark.parametrize("key", ["prolog", "wrapper", "epilog"])
def test_prolog_wrapper_and_epilog_are_checked(key):
    (message,) = messages_of(TASK.format(f"command: a\n    {key}: eval {{x}}"))
    assert "`eval`" in message


@pytest.mark.parametrize("command", ["'a {x}'", "[a, '{x}']", "a\n    arguments: ['{x}']"])
@pytest.mark.parametrize("wrapper", ["ssh host", "timeout 9 ssh -p 22 host", "bash -lc", "eval"])
def test_wrapper_that_passes_the_command_to_a_shell_is_refused(command, wrapper):
    (message,) = messages_of(TASK.format(f"command: {command}\n    wrapper: {wrapper}"))
    assert message.startswith("{x} of the command stands ")
    accepted = f"command: {command}\n    wrapper: mpirun -n {{nodes}}"
    assert messages_of(TASK.format(accepted)) == []
    assert messages_of(TASK.format(f"command: a\n    wrapper: {wrapper}")) == []


def test_arguments_are_checked_as_part_of_the_command():
    assert messages_of(TASK.format("command: 'sh -c'\n    arguments: ['echo \"$1\"', sh, '{x}']")) == []
    (message,) = messages_of(TASK.format("command: 'sh -c'\n    arguments: ['echo {x}']"))
    assert "in text for another shell" in message


def test_list_field_in_a_shell_function_is_refused():
    assert messages_of(TASK.format("command: 'f() {{ a {x}; }}; f'")) == []
    (message,) = messages_of(TASK.format("command: 'f() {{ a {xs}; }}; f'"))
    assert "as a list in a function" in message


def test_parameters_are_accepted_in_program_text_and_results_are_not():
    command = "command: 'awk \"{{{{print {}}}}}\" f'"
    assert messages_of(TASK.format(command.format("{x}"))) == []
    (message,) = messages_of(TASK.format(command.format("{a.result.v}")))
    assert "in the program text of `awk`" in message


@pytest.mark.parametrize("key", ["command", "prolog", "epilog"])
@pytest.mark.parametrize(
    "text",
    [
        'sh -c "$V"',
        "sh -c $V",
        "trap $V 0",
        "echo $V | sh",
        'eval "echo $V"',
        "echo $((V + 1))",
        'set -- "$V"; eval "$1"',
        'sh -c "eval \\$V"',
    ],
)
def test_result_in_an_environment_variable_that_a_command_reads_as_code_is_refused(key, text):
    def describe(field):
        more = "" if key == "command" else "\n    command: 'true'"
        return TASK.format(f"env: {{V: '{field}'}}\n    {key}: '{text}'{more}")

    assert messages_of(describe("{x}")) == []
    (message,) = messages_of(describe("{a.result.v}"))
    assert message.startswith("{a.result.v} stands in the value of a variable that is read as code ")


@pytest.mark.parametrize("text", ['echo "$V"', "sh -c 'echo $1' sh \"$V\"", 'eval "$W"'])
def test_result_in_an_environment_variable_may_be_an_argument(text):
    described = f"env: {{V: 'a {{a.result.v}}'}}\n    command: |\n      {text}\n"
    assert messages_of(TASK.format(described)) == []


@pytest.mark.parametrize(
    ("env", "what"),
    [
        ("{A=B: x}", "environment variable 'A=B' has the value 'x'"),
        ("{'': x}", "environment variable '' has the value 'x'"),
        ("{PATH: '/bin:{a.result.v}'}", "PATH has the value '/bin:{a.result.v}' with the field {a.result.v}"),
        ("{BASH_ENV: '{a.result.v}'}", "BASH_ENV has the value '{a.result.v}' with the field {a.result.v}"),
        ("{PERL5OPT: '{task}'}", "PERL5OPT has the value '{task}' with the field {task}"),
        ("{A: '{unknown}'}", "{unknown} in '{unknown}' is unknown"),
        ("{A: '{a.code}'}", "{a.code} in '{a.code}' is unknown"),
    ],
)
def test_invalid_environment_variables_are_refused(env, what):
    task = f"env: {env}\n    sweep: {{k: 'lines(s)'}}\n  b: {{outputs: [s]}}"
    assert messages_of(TASK.format(task)) == [what]


@pytest.mark.parametrize(
    "name",
    [
        "GCONV_PATH",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "CLASSPATH",
        "R_PROFILE",
        "MAKEFLAGS",
        "MAKEFILES",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "TAR_OPTIONS",
        "LESSOPEN",
        "PAGER",
        "MANPAGER",
        "EDITOR",
        "HOME",
        "TMPDIR",
        "WEFT_RESULT_FILE",
    ],
)
def test_results_are_refused_in_environment_variables_that_are_interpreted_as_code(name):
    (message,) = messages_of(TASK.format(f"env: {{{name}: '{{a.result.v}}'}}"))
    assert f"{name} has the value" in message
    assert messages_of(TASK.format(f"env: {{{name}: '{{x}}'}}")) == []


@pytest.mark.parametrize("words", ["['{a.result.v}', b]", "[timeout, '5', '{a.result.v}']"])
def test_result_is_refused_as_the_name_of_the_program_of_a_command_without_a_shell(words):
    (message,) = messages_of(TASK.format(f"command: {words}"))
    assert "as the name of the program to start" in message


def test_values_of_environment_variables_may_contain_results_and_parameters():
    assert messages_of(TASK.format("env: {A: '{x} {a.result.v} {nodes}', PATH: '{x}', B: '{{x}}'}")) == []


@pytest.mark.parametrize(
    "field", ["{x:raw}", "{inputs:raw}", "{task:raw}", "{a.exit_code:raw}", "{machine.name:raw}"]
)
def test_raw_fields_of_the_user_are_accepted(field):
    assert messages_of(TASK.format(f"command: sh -c 'echo {field}'\n    inputs: [f]")) == []


def test_every_problem_of_a_command_is_reported():
    assert len(messages_of(TASK.format("command: |\n      # {x}\n      eval {x} `a {x}`\n"))) == 3
