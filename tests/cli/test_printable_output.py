"""Names, values and messages cannot control the terminal; commands work in every locale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.shell import weft as new_weft
from cli.test_streams import on_a_terminal
from cli.warm_process import weft
from weft.cli.output import escape_controls, escape_json

HOSTILE = "\x1b[31mX\x1b]0;t\x07\x9b5n\u202e\x08"
"""Colour, title of the window, a report request in a C1 control, reversed direction, backspace."""
ESCAPED = HOSTILE.encode("unicode_escape").decode("ascii")
WORKFLOW = f"""\
weft: 1
name: "wf{ESCAPED}"
owner: "me{ESCAPED}"
params: {{p: "v{ESCAPED}"}}
tasks:
  t: {{sweep: {{v: ["s{ESCAPED}"]}}, command: "echo {{p}}; exit 3", work: 1, retries: 0}}
  u: {{command: "true", after: t, work: 2, version: "v{ESCAPED}"}}
"""
TASK = f"t[s{HOSTILE}]"
COMMANDS = (
    ("check", "w.yaml"),
    ("plan", "w.yaml", "--on", "identical:2"),
    ("show", "w.yaml"),
    ("simulate", "w.yaml", "--on", "identical:2"),
    ("compare", "w.yaml", "--on", "identical:2"),
    ("pareto", "w.yaml", "--on", "identical:2"),
    ("run", "w.yaml"),
    ("run", "w.yaml", "--dry-run"),
    ("ls",),
    ("status",),
    ("report",),
    ("explain", TASK),
    ("explain", f"no{HOSTILE}"),
    ("logs", f"no{HOSTILE}"),
    ("hold", TASK),
    ("migrate", TASK, "--to", HOSTILE),
    ("check", f"no{HOSTILE}.yaml"),
    ("plan", "w.yaml", "--on", HOSTILE),
    ("plan", "w.yaml", "--planner", HOSTILE),
    ("plan", "w.yaml", "-p", f"{HOSTILE}=1"),
    (HOSTILE,),
    ("plan", f"--{HOSTILE}"),
)


def controls(text: str) -> set[str]:
    return {sign for sign in text if not sign.isprintable() and sign not in "\n\t"}


def test_no_command_prints_control_characters_of_names_and_values(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    shown = 0
    for words in COMMANDS:
        outcome = weft(*words, folder=tmp_path)
        assert "Traceback" not in outcome.err, outcome.err
        assert controls(outcome.out + outcome.err) == set(), words
        shown += "\\x1b[31mX" in outcome.out + outcome.err
    assert shown >= 8


def test_json_escapes_control_characters_and_keeps_the_values(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    outcome = weft("plan", "w.yaml", "--on", "identical:2", "--json", folder=tmp_path)
    assert controls(outcome.out) == set()
    assert json.loads(outcome.out)["workflow"] == f"wf{HOSTILE}"


def test_terminal_receives_colour_codes_of_weft_but_not_those_contained_in_names(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    shown = on_a_terminal("plan", "w.yaml", "--on", "identical:2", folder=tmp_path)
    assert "\x1b[0m" in shown
    assert "\x1b[31mX" not in shown
    assert "\x07" not in shown


def test_convert_writes_control_characters_unchanged(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    outcome = weft("convert", "w.yaml", "-", "--to", "weft", folder=tmp_path)
    (tmp_path / "again.yaml").write_text(outcome.out)
    assert weft("convert", "again.yaml", "-", "--to", "weft", folder=tmp_path).out == outcome.out
    assert "\u202e" in outcome.out


@pytest.mark.parametrize("text", ["plain\n\tžluť 日本", "", "a" * 1000])
def test_printable_text_is_not_changed(text: str) -> None:
    assert escape_controls(text) == text
    assert json.loads(escape_json(json.dumps(text, ensure_ascii=False))) == text


def test_run_with_non_ascii_names_works_in_an_ascii_locale(tmp_path: Path) -> None:
    """Before, names outside the locale's encoding ended in UnicodeEncodeError."""
    (tmp_path / "w.yaml").write_text(
        "weft: 1\nname: übung\nparams: {p: žluť}\ntasks:\n"
        '  größe: {command: "echo {p} > výstup.txt", outputs: [výstup.txt]}\n'
        '  "日本": {command: "cat výstup.txt", inputs: [výstup.txt]}\n',
        encoding="utf-8",
    )
    locale = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (("run", "w.yaml"), ("status",), ("explain", "größe"), ("report",)):
        outcome = new_weft(*words, folder=tmp_path, **locale)
        assert (outcome.code, "Traceback" in outcome.err) == (0, False), (words, outcome)
        assert outcome.out.isascii()
    assert new_weft("logs", "日本", folder=tmp_path, **locale).out == "žluť\n"


def test_a_user_name_that_is_not_utf8_does_not_break_a_run(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("weft: 1\nname: w\ntasks: {a: {command: 'true'}}\n")
    name = b"t\xff".decode(errors="surrogateescape")
    outcome = new_weft("run", "w.yaml", folder=tmp_path, USER=name, LOGNAME=name)
    assert (outcome.code, outcome.err.count("Traceback")) == (0, 0)
    assert "t?" in weft("ls", folder=tmp_path).out
