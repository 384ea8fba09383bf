"""Results, lines of files and file names that are shell code are not executed, whatever the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from security.hostile_project import Place
from weft.errors import InvalidInput

_EVIL = "x'\n: > {marker}\n\"$(: > {marker})`: > {marker}`"


def _marker(place: Place) -> Path:
    return place.outside.parent / "marker"


def _evil(place: Place) -> str:
    return _EVIL.replace("{marker}", str(_marker(place)))


def _say(place: Place) -> dict[str, str]:
    """Return a task that writes a hostile result."""
    (place.project / "result.json").write_text(json.dumps({"text": _evil(place), "number": 3}))
    return {"command": 'cp result.json "$WEFT_RESULT_FILE"'}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("echo a \\\n# {say.result.text}\n", id="comment after a joined line"),
        pytest.param("(echo a)# {say.result.text}\n", id="comment after a parenthesis"),
        pytest.param("echo `echo {say.result.text}`", id="backquotes"),
        pytest.param("cat <<'E'\n{say.result.text}\nE\n", id="quoted here-document"),
        pytest.param("sh -c \"echo '{say.result.text}'\"", id="text for another shell"),
        pytest.param("echo a >&{say.result.text}", id="descriptor"),
        pytest.param("eval echo {say.result.text}", id="eval"),
        pytest.param("trap 'echo {say.result.text}' EXIT", id="trap"),
        pytest.param("python3 -c \"print('{say.result.text}')\"", id="text for Python"),
        pytest.param("python3 -u -W ignore -c \"print('{say.result.text}')\"", id="text after options"),
        pytest.param("python3 -Ic \"print('{say.result.text}')\"", id="text after combined options"),
        pytest.param(
            "bash -eo pipefail -c \"echo '{say.result.text}'\"", id="text after an option with a value"
        ),
        pytest.param("python3 {say.result.text}", id="first argument, which may be an option"),
        pytest.param("echo {say.result.text:raw}", id="raw"),
        pytest.param(["sh", "-c", "echo '{say.result.text}'"], id="text for a shell in a list"),
    ],
)
def test_result_field_at_a_place_where_a_shell_would_execute_it_is_refused_before_the_run(
    place: Place, command
) -> None:
    say = _say(place)
    refused = []
    try:
        place.run({"say": say, "do": {"after": "say", "command": command}})
    except InvalidInput as problem:
        refused.append(str(problem))
    assert not _marker(place).exists()
    assert "{say.result.text" in "".join(refused)


def test_hostile_result_is_passed_literally_at_every_place(place: Place) -> None:
    show = "printf '%s\\0'"
    command = (
        f"{{{{ {show} {{say.result.text}} '{{say.result.text}}' \"{{say.result.text}}\" # it's\n"
        f'{show} "$(case {{say.result.text}} in a) echo;; *) printf %s {{say.result.text}}; esac)"\n'
        f"cat <<E\n{{say.result.text}}\nE\n{show} $(( {{say.result.number}} + 1 )); }}}} > shown"
    )
    tasks = {"say": _say(place), "do": {"after": "say", "command": command, "outputs": ["shown"]}}
    ran = place.run(tasks)
    assert ran.completed, place.ends()
    evil = _evil(place)
    assert place.made("shown") == "\0".join([evil] * 4) + f"\0{evil}\n4\0"
    assert not _marker(place).exists()


def test_hostile_result_in_an_environment_variable_is_not_executed(place: Place) -> None:
    command = 'printf %s "$TEXT" > shown; : $NUMBER'
    env = {"TEXT": "<{say.result.text}>", "NUMBER": "{say.result.number}"}
    tasks = {"say": _say(place), "do": {"after": "say", "command": command, "env": env, "outputs": ["shown"]}}
    ran = place.run(tasks)
    assert ran.completed, place.ends()
    assert place.made("shown") == f"<{_evil(place)}>"
    assert not _marker(place).exists()


@pytest.mark.parametrize(
    "described",
    [
        {"inputs": [{"file": "f", "from": "{say.result.text}"}]},
        {"inputs": ["{say.result.text}"]},
        {"outputs": ["{say.result.text}"]},
        {"outputs": {"f": {"to": "{say.result.text}"}}},
        {"env": {"LD_PRELOAD": "{say.result.text}"}},
        {"env": {"X": "{say.result.text}"}, "command": 'eval ": $X"'},
    ],
)
def test_result_in_a_key_that_accepts_no_results_is_refused_before_the_run(place: Place, described) -> None:
    say = _say(place)
    with pytest.raises(
        InvalidInput, match=r"\{say\.result\.text\}( in| stands in|; programs may read it as code)"
    ):
        place.run({"say": say, "do": {"after": "say", "command": "true", **described}})
    assert not (place.project / ".weft").exists()


def test_text_in_arithmetic_is_refused(place: Place) -> None:
    tasks = {"say": _say(place), "do": {"after": "say", "command": "echo $(( {say.result.text} ))"}}
    place.run(tasks)
    assert "$((...)) takes whole numbers" in place.ends()["do"].text
    assert not _marker(place).exists()


def test_lines_of_files_and_file_names_are_passed_literally(place: Place) -> None:
    line = f"$(: > {_marker(place)})"
    name = "$(: > marker)'\n"
    (place.project / "make.py").write_text(
        f"open('parts', 'w').write({line!r} + '\\n')\nopen('part.' + {name!r}, 'w').close()\n"
    )
    ran = place.run(
        {
            "split": {"command": "python3 make.py", "outputs": ["parts", "part.*"]},
            "part": {
                "sweep": {"chunk": "lines(split.parts)"},
                "inputs": ["part.*"],
                "command": "printf '%s\\0' {chunk} '{chunk}' {task} {inputs} \"{inputs}\" > shown",
                "outputs": ["shown"],
            },
        }
    )
    assert ran.completed, place.ends()
    file = f"part.{name}"
    assert place.made("shown") == "\0".join([line, line, f"part[{line}]", file, file, ""])
    assert not _marker(place).exists()
    assert list(place.project.rglob("marker")) == []


@pytest.mark.parametrize("field", ["{chunk:raw}", "{task:raw}", "{inputs:raw}", "{outputs:raw}"])
def test_raw_fields_with_content_of_files_are_refused(place: Place, field: str) -> None:
    tasks = {
        "split": {"command": "echo a > parts; touch part.1", "outputs": ["parts", "part.*"]},
        "part": {
            "sweep": {"chunk": "lines(split.parts)"},
            "inputs": ["part.*"],
            "outputs": ["out.{chunk}"],
            "command": f"echo {field}",
        },
    }
    with pytest.raises(InvalidInput, match="must not become a part of a shell command"):
        place.run(tasks)


def test_raw_fields_with_values_of_the_user_are_inserted_into_the_command_as_shell_text(place: Place) -> None:
    ran = place.run(
        {"a": {"command": "echo {word} {more:raw} {word} > x", "outputs": ["x"]}},
        params={"word": "it's", "more": "| cat; echo ${HOME+b} {c}"},
    )
    assert ran.completed, place.ends()
    assert place.made("x") == "b {c} it's\n"


def test_raw_field_that_opens_a_quote_is_refused_when_the_task_starts(place: Place) -> None:
    tasks = {"a": {"command": "echo {more:raw} {word}"}}
    place.run(tasks, params={"word": f"; : > {_marker(place)}", "more": "'"})
    assert "the quote ' is not closed" in place.ends()["a"].text
    assert not _marker(place).exists()
