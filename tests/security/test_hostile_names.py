"""Names and values that are paths, options or shell code are used literally or refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from security.hostile_project import Place
from weft.engine.messages import StagedOut
from weft.errors import InvalidInput

_NASTY = [
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED",
    "x\ntouch PWNED",
    "'; touch PWNED; '",
    '"; touch PWNED; "',
    "&& touch PWNED",
    "| touch PWNED",
    "> PWNED",
    "${IFS}touch${IFS}PWNED",
    "\\'; touch PWNED",
    "{inputs}",
    "--help",
    "-rf",
    "*",
    "~",
    "\t tab and blank ",
    "ünïcode ☃",
]


def _arguments(text: str) -> list[str]:
    return json.loads(text)


_WRITE_ARGUMENTS = (
    f'{sys.executable} -c \'import json, sys; json.dump(sys.argv[1:], open("arguments", "w"))\''
)


def test_parameters_and_sweep_values_are_passed_literally(place: Place) -> None:
    place.run(
        {
            "given": {"command": _WRITE_ARGUMENTS + " {text} {inputs}", "outputs": ["arguments"]},
            "swept": {
                "sweep": {"k": _NASTY},
                "command": [
                    sys.executable,
                    "-c",
                    "import json, sys; json.dump(sys.argv[1:], open('arguments', 'w'))",
                    "{k}",
                ],
            },
            "quoted": {"sweep": {"k": _NASTY}, "command": _WRITE_ARGUMENTS + " {k}"},
        },
        params={"text": " ".join(_NASTY)},
    )
    assert _arguments(place.made("arguments")) == [" ".join(_NASTY)]
    printed = sorted(
        _arguments(path.read_text())[0]
        for path in place.project.glob(".weft/sandbox/here/*/1/*/arguments")
        if path.is_file()
    )
    assert printed == sorted([" ".join(_NASTY), *_NASTY, *_NASTY])
    assert list(place.project.rglob("PWNED")) == []
    assert {end.code for end in place.ends().values()} == {0}


@pytest.mark.parametrize("key", ["inputs", "outputs"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../outside/canary", "'..' leads out of the directory"),
        ("a/../../outside/canary", "'..' leads out of the directory"),
        ("{outside}/canary", "only names relative to the directory are allowed"),
    ],
)
def test_file_names_that_leave_the_directory_are_refused(place: Place, name: str, why: str, key: str) -> None:
    (place.project / "a").mkdir()
    stated = name.replace("{outside}", str(place.outside))
    with pytest.raises(InvalidInput) as problem:
        place.run({"a": {"command": "true", key: [stated]}})
    assert f"'{stated}' is not a valid file name; {why}" in str(problem.value)
    assert not (place.project / ".weft").exists()
    # A value of a sweep is known only when the task starts.
    place.run({"a": {"sweep": {"k": [stated]}, "command": "true", key: ["{k}"]}})
    (end,) = place.ends().values()
    assert end.cause == ("staging" if key == "inputs" else "error")
    assert f"'{stated}' is not a valid file name: {why}" in end.text


@pytest.mark.parametrize("key", ["inputs", "outputs"])
def test_blank_file_name_is_refused_before_the_run(place: Place, key: str) -> None:
    with pytest.raises(InvalidInput, match="the file name is empty"):
        place.run({"a": {"command": "true", key: [" "]}})


def test_unusual_file_names_are_accepted(place: Place) -> None:
    names = [
        "-rf",
        "--help",
        "a b",
        "it's",
        'a"b',
        "new\nline",
        "$(touch PWNED)",
        "semi;colon",
        "ünï",
        "*star[1]",
    ]
    write = "for name in sys.argv[1:]: open(name, 'w').write(name)"
    tasks = {
        "make": {
            "command": [sys.executable, "-c", f"import sys\n{write}", "{outputs}"],
            "outputs": names[:-1],
        },
        "read": {
            "command": [
                sys.executable,
                "-c",
                "import os, json; json.dump(sorted(os.listdir()), open('list', 'w'))",
            ],
            "inputs": names[:-1],
            "outputs": ["list"],
        },
    }
    ran = place.run(tasks)
    assert ran.completed, place.ends()
    assert set(_arguments(place.made("list"))) >= set(names[:-1])
    assert list(place.project.rglob("PWNED")) == []


@pytest.mark.parametrize("evil", ["../outside/canary", "{outside}/canary", "file://{outside}/canary"])
def test_values_written_by_a_task_cannot_redirect_writes_to_other_files(place: Place, evil: str) -> None:
    """Sweep values from a file of a task, and results, are not trusted like values of the user."""
    line = evil.replace("{outside}", str(place.outside))
    place.run(
        {
            "split": {"command": f"echo {line} > parts", "outputs": ["parts"]},
            "part": {"sweep": {"chunk": "lines(split.parts)"}, "command": "echo evil", "stdout": "{chunk}"},
            "say": {"command": f'echo \'{{{{"where": "{line}"}}}}\' > $WEFT_RESULT_FILE'},
            "do": {"after": "say", "command": "echo evil", "stderr": "{say.result.where}"},
        }
    )
    for name, end in place.ends().items():
        if name not in ("split", "say"):
            assert end.cause == "error"
            assert line in end.text
            assert "was written by a task" in end.text


def test_result_cannot_overwrite_the_state_of_weft(place: Place) -> None:
    place.run(
        {
            "split": {"command": "echo .weft/weft.db > parts", "outputs": ["parts"]},
            "part": {
                "sweep": {"chunk": "lines(split.parts)"},
                "command": "mkdir .weft; echo evil > {chunk}",
                "outputs": ["{chunk}"],
            },
        }
    )
    reported = [entry.event.problem for entry in place.journal().entries if type(entry.event) is StagedOut]
    assert [problem for problem in reported if problem] == [
        "'.weft/weft.db' is not copied to the project: weft keeps its own state there"
    ], (str(place.ran), place.ends())


@pytest.mark.parametrize("written", [".weft/weft.db", "./.weft/key", ".weft/reports/1/report.html", "."])
@pytest.mark.parametrize("field", ["to", "from"])
def test_line_of_a_file_cannot_name_the_state_of_weft(place: Place, field: str, written: str) -> None:
    described = (
        {"command": "echo evil > o", "outputs": {"o": {"to": "{chunk}"}}}
        if field == "to"
        else {"command": "true", "inputs": [{"file": "o", "from": "{chunk}"}]}
    )
    place.run(
        {
            "split": {"command": f"echo {written} > parts", "outputs": ["parts"]},
            "part": {"sweep": {"chunk": "lines(split.parts)"}, **described},
        }
    )
    reported = [getattr(entry.event, "problem", "") for entry in place.journal().entries]
    assert any("{chunk} was written by a task" in problem for problem in reported if problem)


@pytest.mark.parametrize(
    "target", [".weft/a", "file:.weft/b", "x/../.weft/c", "{project}/.weft/d", "file://{project}/.weft/e"]
)
def test_outputs_are_not_published_into_the_state_of_weft(place: Place, target: str) -> None:
    stated = target.replace("{project}", str(place.project))
    place.run({"a": {"command": "echo evil > o", "outputs": {"o": {"to": stated}}}})
    reported = [entry.event.problem for entry in place.journal().entries if type(entry.event) is StagedOut]
    assert any(reported)
    assert not [name for name in "abcde" if (place.project / ".weft" / name).exists()]


@pytest.mark.parametrize("evil", ["../outside/canary", "{outside}/canary", "file://{outside}/canary"])
def test_values_written_by_a_task_cannot_redirect_reads_to_other_files(place: Place, evil: str) -> None:
    line = evil.replace("{outside}", str(place.outside))
    place.run(
        {
            "split": {"command": f"echo {line} > parts", "outputs": ["parts"]},
            "part": {
                "sweep": {"chunk": "lines(split.parts)"},
                "command": "cat got > stolen",
                "inputs": [{"file": "got", "from": "{chunk}"}],
                "outputs": ["stolen"],
            },
        }
    )
    assert not (place.project / "stolen").exists()
    (end,) = [end for name, end in place.ends().items() if name.startswith("part")]
    assert end.cause in ("staging", "error")
    assert line in end.text
    assert "was written by a task" in end.text


def test_values_of_the_user_may_be_any_path(place: Place, tmp_path: Path) -> None:
    """A path named by the user may be anywhere."""
    (tmp_path / "named").mkdir()
    ran = place.run(
        {
            "a": {
                "sweep": {"k": [str(place.outside / "canary")]},
                "command": "cat got > x; echo hi",
                "inputs": [{"file": "got", "from": "{k}"}],
                "outputs": ["x"],
                "stdout": f"{tmp_path}/named/log",
            },
        }
    )
    assert ran.completed, place.ends()
    assert place.made("x") == "sings\n"
    assert (tmp_path / "named" / "log").read_text() == "hi\n"


def test_names_of_workflows_and_machines_are_not_used_as_paths(place: Place) -> None:
    (place.project / "machines.yaml").write_text(
        'weft: 1\nmachines:\n  "../../../outside/m": {backend: {kind: local}}\n  "..": {backend: {kind: local}}\n'
    )
    tasks = {"a": {"sweep": {"k": "1..3"}, "command": "echo hi > x.{k}", "outputs": ["x.{k}"]}}
    ran = place.run(tasks, name="../../outside/flow")
    assert ran.completed, place.ends()
    ran.write_reports()
    assert place.made("x.1") == "hi\n"


def test_requirement_file_is_parsed_and_not_executed(place: Place) -> None:
    evil = "__import__('os').system('touch PWNED')\n"
    place.run(
        {
            "a": {"command": f'printf %s "{evil.strip()}" > gw_reqs; cp gw_reqs gw_rank; sleep 1.3'},
            "b": {"command": "echo '$(touch PWNED); TRUE || `touch PWNED`' > gw_reqs; sleep 1.3"},
            "c": {"command": "head -c 3000000 /dev/zero | tr '\\0' '(' > gw_reqs; sleep 1.3"},
        }
    )
    assert {end.code for end in place.ends().values()} == {0}
    assert list(place.project.rglob("PWNED")) == []


_LINES = {"split": {"command": "cat list > parts", "outputs": ["parts"]}}
_CHUNK = {"sweep": {"chunk": "lines(split.parts)"}}


@pytest.mark.parametrize(
    "described",
    [
        {"command": "cat got", "inputs": [{"file": "got", "from": "{chunk}"}]},
        {"command": "cat got", "inputs": [{"file": "got", "from": "file:{chunk}"}]},
        {"command": "cat got", "inputs": [{"file": "got", "from": "inner/{chunk}"}]},
        {"command": "cat got", "inputs": [{"file": "got", "from": "{project}/{chunk}"}]},
        {"command": "cat got", "inputs": [{"file": "got", "from": "{chunk}", "shared": True}]},
        {"command": "cat {inputs}", "inputs": ["{chunk}"]},
        {"command": "cat {chunk}"},
        {"command": ["cat", "{chunk}"]},
        {"command": "cat", "stdin": "{chunk}"},
        {"command": "echo evil", "stdout": "{project}/{chunk}"},
    ],
)
def test_input_named_by_a_line_of_a_file_cannot_leave_the_project_through_a_link(
    place: Place, described: dict[str, Any]
) -> None:
    (place.project / "list").write_text("door\nway/canary\n")
    (place.project / "inner").mkdir()
    for folder in (place.project, place.project / "inner"):
        (folder / "door").symlink_to(place.outside / "canary")
        (folder / "way").symlink_to(place.outside)
    described = json.loads(json.dumps(described).replace("{project}", str(place.project)))
    place.run({**_LINES, "part": {**_CHUNK, **described}})
    ends = [end for name, end in place.ends().items() if name.startswith("part")]
    assert len(ends) == 2
    for end in ends:
        assert "was written by a task, and a link leads from there to" in end.text
    copied = [path for path in place.project.rglob(".weft/**/*") if path.is_file() and path.name != "weft.db"]
    assert [path for path in copied if b"sings" in path.read_bytes()] == []


def test_output_named_by_a_line_of_a_file_cannot_leave_the_project_through_a_link(place: Place) -> None:
    (place.project / "way").symlink_to(place.outside)
    place.run(
        {
            "split": {"command": "printf '%s\\n' way/new way/new/x > parts", "outputs": ["parts"]},
            "part": {
                **_CHUNK,
                "command": "echo evil > o",
                "outputs": {"o": {"to": f"{place.project}/{{chunk}}"}},
            },
        }
    )
    reported = [entry.event.problem for entry in place.journal().entries if type(entry.event) is StagedOut]
    assert sum("a link leads from there to" in problem for problem in reported) == 2


def test_name_of_a_subtask_cannot_place_an_output_outside_of_its_folder(place: Place) -> None:
    place.run(
        {
            "split": {"command": "echo /../../../outside/new > parts", "outputs": ["parts"]},
            "part": {
                **_CHUNK,
                "command": "echo evil > o",
                "outputs": {"o": {"to": f"{place.project}/d/{{task}}"}},
            },
        }
    )
    reported = [entry.event.problem for entry in place.journal().entries if type(entry.event) is StagedOut]
    assert any("{task} was written by a task" in problem for problem in reported)


def test_line_of_a_file_may_name_files_below_a_link_that_the_user_states(place: Place) -> None:
    (place.project / "way").symlink_to(place.outside)
    (place.project / "near").symlink_to("inner/file")
    (place.project / "inner").mkdir()
    (place.project / "inner" / "file").write_text("near\n")
    ran = place.run(
        {
            "split": {"command": "echo canary > parts; echo near > others", "outputs": ["parts", "others"]},
            "part": {
                **_CHUNK,
                "command": "cat got way/{chunk} > x",
                "inputs": [{"file": "got", "from": "way/{chunk}"}, "way/canary"],
                "outputs": ["x"],
            },
            "other": {
                "sweep": {"chunk": "lines(split.others)"},
                "command": "cat {chunk} > y",
                "outputs": ["y"],
                "stdout": "{task}.log",
            },
        }
    )
    assert ran.completed, place.ends()
    assert (place.made("x"), place.made("y")) == ("sings\nsings\n", "near\n")
