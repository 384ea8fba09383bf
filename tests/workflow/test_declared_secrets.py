"""Declared secrets: forms of the key, round trip, and problems with their advice."""

from __future__ import annotations

import pytest

from weft import Builder
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml
from weft.workflow.checks import check
from weft.workflow.workflow import Secret, Workflow


def read(text: str) -> Workflow:
    return WeftYaml().read(SourceFile(name="w.yaml", data=f"weft: 1\n{text}".encode()))


TASK = "\ntasks: {a: {command: run}}"
FORMS = {
    "secrets: [A, B]": (Secret(name="A"), Secret(name="B")),
    "secrets: A": (Secret(name="A"),),
    "secrets: {A: , B: {env: MY_B}}": (Secret(name="A"), Secret(name="B", variable="MY_B")),
    "secrets: {A: {file: ~/token, fingerprint: false}}": (
        Secret(name="A", file="~/token", fingerprint=False),
    ),
    "secrets: []": (),
}


@pytest.mark.parametrize("text", FORMS)
def test_every_form_of_a_declaration_is_read_and_written(text: str) -> None:
    found = read(text + TASK)
    assert found.secrets == FORMS[text]
    check(found)
    assert read(WeftYaml().write(found).removeprefix("weft: 1\n")).secrets == FORMS[text]


def test_builder_takes_secrets() -> None:
    flow = Builder("flow", secrets={"A": {"file": "token"}, "B": None})
    flow.task("a", command="run", secrets=["B"])
    made = flow.build()
    assert made.secrets == (Secret(name="A", file="token"), Secret(name="B"))
    assert made.tasks[0].job is not None
    assert made.tasks[0].job.secrets == ("B",)


PROBLEMS = {
    "secrets: [a-b]": "secret 'a-b'.*letters, digits and _",
    "secrets: [1A]": "letters, digits and _",
    "secrets: {A: {env: a b}}": "secret 'a b'.*letters, digits and _",
    "secrets: [nodes]": "weft defines this name itself",
    "secrets: [WEFT_TASK]": "weft defines this name itself",
    "secrets: [A, A]": "two values are named 'A'",
    "params: {A: 1}\nsecrets: [A]": "two values are named 'A': a secret and a parameter",
    "secrets: {A: {env: B, file: c}}": "both env and file",
    "secrets: {A: {fil: c}}": "unknown key 'fil'.*did you mean 'file'",
    "secrets: [[A]]": "must be text",
}


@pytest.mark.parametrize("text", PROBLEMS)
def test_invalid_declarations_of_secrets_are_reported(text: str) -> None:
    with pytest.raises(InvalidInput, match=PROBLEMS[text]):
        check(read(text + TASK))


TASKS = {
    'command: "use {TOKEN}"': r'is a secret.*only in `from`.*use the environment variable, "\$TOKEN"',
    'command: run, stdout: "{TOKEN}"': "is a secret",
    'command: run, inputs: ["{TOKEN}"]': "is a secret",
    "command: run, secrets: [TOKN]": "'TOKN', which is not declared.*did you mean 'TOKEN'",
    "command: run, secrets: [OTHER]": "add `secrets: .OTHER.` to the workflow",
    "command: run, sweep: {TOKEN: [1, 2]}": "has the name of a secret",
}


@pytest.mark.parametrize("text", TASKS)
def test_invalid_uses_of_secrets_in_tasks_are_reported(text: str) -> None:
    with pytest.raises(InvalidInput, match=TASKS[text]):
        check(read(f"secrets: [TOKEN]\ntasks: {{a: {{{text}}}}}"))


def test_secret_may_be_part_of_a_url() -> None:
    check(
        read(
            'secrets: [TOKEN]\ntasks: {a: {command: run, inputs: [{file: x, from: "http://h/?t={TOKEN}"}], '
            'outputs: {y: {to: "http://h/y?t={TOKEN}"}}, secrets: []}}'
        )
    )
