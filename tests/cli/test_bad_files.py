"""Malformed and hostile files give a message and an exit code, and never a hang."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cli.shell import refused
from cli.warm_process import weft

DEEP = 100_000
LONG = 10_000_000
ENTITIES = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
LAUGHS = "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9))


def tasks(text: str) -> str:
    return f"weft: 1\ntasks:\n{text}"


def work(text: str) -> str:
    return tasks(f"  a: {{work: '{text}'}}\n")


MISTAKES = {
    "empty": ("", ["bad.yaml", "empty"]),
    "blank": (" \n\n  \n", ["bad.yaml", "empty"]),
    "a tab": ("weft: 1\ntasks:\n\ta: {work: 1}\n", ["bad.yaml:3:1:", "tab"]),
    "a cycle": (
        tasks("  a: {after: b, work: 1}\n  b: {after: a, work: 1}\n"),
        ["bad.yaml:3:", "cycle", "loops"],
    ),
    "itself": (tasks("  a: {after: a, work: 1}\n"), ["bad.yaml:3:", "a"]),
    "unknown task": (
        tasks("  load: {work: 1}\n  b: {after: laod, work: 1}\n"),
        ["bad.yaml:4:", "did you mean 'load'?"],
    ),
    "a sweep over an empty list": (
        tasks("  a: {sweep: {k: []}, work: 1}\n"),
        ["bad.yaml:3:", "k", "no values"],
    ),
    "a sweep over a backward range": (
        tasks("  a: {sweep: {k: 5..1}, work: 1}\n"),
        ["bad.yaml:3:", "no values"],
    ),
    "a sweep over nothing": (tasks("  a: {sweep: {}, work: 1}\n"), ["bad.yaml:3:14:", "no variables"]),
    "a sweep that is too large": (
        tasks("  a: {sweep: {k: 1..100000000000}}\n"),
        ["bad.yaml:3:", "at most", "allowed"],
    ),
    "a product that is too large": (
        tasks("  a: {sweep: {k: 1..100000, j: 1..100000}}\n"),
        ["bad.yaml:3:", "at most", "allowed"],
    ),
    "a negative size of a file that no task reads": (
        tasks('  a: {outputs: {f: "-1*MB"}, work: 1}\n'),
        ["bad.yaml:3:17:", "tasks.a.outputs.f: size -1e+06; must be at least 0"],
    ),
    "memory beyond the range of numbers": (
        tasks("  a: {memory: 1e300, work: 1}\n"),
        ["bad.yaml:3:15:", "1e+300 is not allowed", "smaller than 1e300"],
    ),
    "infinite work": (
        tasks("  a: {work: 1e400}\n"),
        ["bad.yaml:3:13:", "tasks.a.work: 1e400 is not allowed"],
    ),
    "work without a value": (
        tasks("  a: {work: ~}\n"),
        ["bad.yaml:3:13:", "tasks.a.work: the value is empty"],
    ),
    "node counts by name": (
        tasks("  a: {nodes: {x: 1}, work: 1}\n"),
        ["bad.yaml:3:14:", "this is a mapping; must be a whole number or an expression"],
    ),
    "too many retries": (
        tasks("  a: {retries: 99999999999999999999999, work: 1}\n"),
        ["bad.yaml:3:16:", "at most 1000000"],
    ),
    "an escape sequence in a name": (
        tasks('  "a\\u001b[31mred": {work: 1}\n'),
        ["bad.yaml:3:21:", "tasks.a\\x1b[31mred: task name", "must not contain the control character U+001B"],
    ),
    "a bell in a name": (tasks('  "a\\u0007b": {work: 1}\n'), ["bad.yaml:3:15:", "control character U+0007"]),
    "a truncated file": ('{"weft": 1,', ["bad.yaml:2:1:", "the file ends too early", "close all brackets"]),
    "negative work": (tasks("  a: {work: -1}\n"), ["bad.yaml:3:", "-1", "at least 0"]),
    "no nodes": (tasks("  a: {nodes: 0, work: 1}\n"), ["bad.yaml:3:", "node count 0", "at least 1"]),
    "not a number": (tasks("  a: {work: .nan}\n"), ["bad.yaml:3:13:", "nan", "finite"]),
    "infinite": (tasks("  a: {work: .inf}\n"), ["bad.yaml:3:13:", "inf", "finite"]),
    "too large a number": (tasks("  a: {work: 1e400}\n"), ["bad.yaml:3:13:", "finite"]),
    "a division by zero": (work("1/0"), ["bad.yaml:3:", "division by zero"]),
    "an overflow": (work("1e308*10"), ["bad.yaml:3:", "too large"]),
    "a key twice": (tasks("  a: {work: 1}\n  a: {work: 2}\n"), ["bad.yaml:4:3:", "twice", "line 3"]),
    "a wrong version": ("weft: 2\ntasks: {a: {work: 1}}\n", ["bad.yaml:1:7:", "version 2", "version 1"]),
    "no version": ("tasks: {a: {work: 1}}\n", ["bad.yaml:1:1:", "weft: 1"]),
    "a misspelt key": (tasks("  a: {wrok: 1}\n"), ["bad.yaml:3:7:", "'wrok'", "did you mean 'work'?"]),
    "no tasks": ("weft: 1\n", ["bad.yaml:1:1:", "tasks"]),
    "a list": ("- weft: 1\n", ["bad.yaml:1:1:", "a mapping"]),
    "a word": ("hello\n", ["bad.yaml:1:1:", "a mapping"]),
    "an open bracket": ("weft: 1\ntasks: {a: {work: 1}\n", ["bad.yaml:3:1:", "'}'"]),
    "two documents": ("weft: 1\n---\nweft: 1\n", ["bad.yaml:2:1:", "second document"]),
    "an unknown name": (work("wrk1"), ["bad.yaml:3:", "'wrk1'"]),
}

ATTACKS = {
    "a program in a tag": (
        "weft: 1\ntasks: !!python/object/apply:os.system ['touch hacked']\n",
        ["bad.yaml:2:8:", "tag"],
    ),
    "a program in an expression": (work('__import__("os").system("touch hacked")'), ["bad.yaml:3:"]),
    "an attribute in an expression": (work("(1).__class__"), ["bad.yaml:3:"]),
    "billion laughs": (
        f"weft: 1\na: &a [x,x,x,x,x,x,x,x,x,x]\n{LAUGHS}tasks: {{a: {{work: 1}}}}\n",
        ["bad.yaml:", "too many"],
    ),
    "an alias of itself": ("weft: 1\ntasks: &t {a: *t}\n", ["bad.yaml:2:", "alias"]),
    "deep lists": ("weft: 1\ntasks: " + "[" * DEEP + "]" * DEEP, ["bad.yaml:2:", "nested"]),
    "deep open lists": ("weft: 1\ntasks: " + "[" * DEEP, ["bad.yaml:2:", "nested"]),
    "deep mappings": ("weft: 1\ntasks: " + "{a: " * DEEP + "1" + "}" * DEEP, ["bad.yaml:2:", "nested"]),
    "deep blocks": (
        "weft: 1\ntasks:\n" + "".join(f"{' ' * n}a:\n" for n in range(1, 3000)),
        ["bad.yaml:", "nested"],
    ),
    "deep brackets": (work("(" * DEEP + "1" + ")" * DEEP), ["bad.yaml:3:"]),
    "brackets within the length": (work("(" * 4000 + "1" + ")" * 4000), ["bad.yaml:3:"]),
    "many signs": (work("-" * 9000 + "1"), ["bad.yaml:3:"]),
    "many nots": (tasks(f"  a: {{work: 1, requirements: '{'not ' * 2000}true'}}\n"), ["bad.yaml:3:"]),
    "a tower of powers": (work("9**9**9**9"), ["bad.yaml:3:", "exponent"]),
    "a range of a billion": (
        "weft: 1\nparams: {n: 1000000000}\ntasks: {a: {nodes: 1..n}}\n",
        ["bad.yaml:3:"],
    ),
    "a long line": ("weft: 1\n" + "x" * LONG + "\n", ["bad.yaml:"]),
    "a long key": ("weft: 1\ntasks: {" + "k" * LONG + ": {work: 1}}\n", ["bad.yaml:2:"]),
    "a long expression": (work("1+" * (LONG // 2) + "1"), ["bad.yaml:3:", "characters"]),
    "a long number": (tasks(f"  a: {{work: {'9' * 5000}}}\n"), ["bad.yaml:3:"]),
    "a long number in an expression": (work(f"{'9' * 5000}+1"), ["bad.yaml:3:"]),
    "an escape that is no character": ('weft: 1\ntasks: {"\\ud800": {work: 1}}\n', ["bad.yaml:2:"]),
}


@pytest.mark.parametrize(
    ("command", "name"),
    [*(("check", name) for name in (MISTAKES | ATTACKS)), *(("plan", name) for name in MISTAKES)],
)
def test_error_about_a_bad_workflow_names_line_and_column(name: str, command: str, folder: Path) -> None:
    content, words = (MISTAKES | ATTACKS)[name]
    (folder / "bad.yaml").write_text(content)
    options = ["--on", "identical:2"] if command == "plan" else []
    lines = refused(weft(command, "bad.yaml", *options, folder=folder), 2, *words)
    assert len(lines) <= 4
    assert not (folder / "hacked").exists()


RANKS = {
    "memry": ["tasks.a.rank", "unknown name 'memry'", "did you mean 'memory'?"],
    "name": ["tasks.a.rank", "evaluates to 'm0'", "must evaluate to a number"],
    "speed *": ["tasks.a.rank", "`speed *`"],
}


@pytest.mark.parametrize("command", ["check", "plan", "simulate", "run", "pareto"])
@pytest.mark.parametrize("rank", RANKS)
def test_rank_that_no_machine_can_evaluate_is_rejected(command: str, rank: str, folder: Path) -> None:
    (folder / "bad.yaml").write_text(tasks(f"  a: {{command: 'true', work: 1, rank: {rank}}}\n"))
    (folder / "two.yaml").write_text(
        "weft: 1\nmachines:\n  m0: {backend: {kind: local}}\n  m1: {backend: {kind: local}}\n"
    )
    ended = weft(command, "bad.yaml", "--on", "two.yaml", folder=folder)
    assert len(refused(ended, 2, "bad.yaml:3:", *RANKS[rank])) == 1
    assert not (folder / ".weft").exists()


OTHERS = {
    "entities.dax": (
        f'<?xml version="1.0"?>\n<!DOCTYPE adag [<!ENTITY a "ha">{ENTITIES}]>\n<adag name="&j;"/>\n',
        "entities",
    ),
    "external.dax": (
        '<!DOCTYPE adag [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<adag name="&a;"/>\n',
        "entities",
    ),
    "deep.dax": ("<adag>" + "<a>" * DEEP + "</a>" * DEEP + "</adag>", ""),
    "broken.dax": ("<adag><job></adag>", "XML"),
    "deep.json": ('{"weft": 1, "tasks": ' + "[" * DEEP + "]" * DEEP + "}", "nested"),
    "deep-trace.json": (
        '{"name": "x", "schemaVersion": "1.5", "workflow": ' + "[" * DEEP + "]" * DEEP + "}",
        "nested",
    ),
    "broken.json": ('{"weft": 1,\n "tasks": {"a": {"work": 1},}\n', "broken.json:"),
    "deep.dot": ("digraph {" + "subgraph {" * DEEP + "}" * DEEP + "}", "deep.dot:1:"),
    "broken.dot": ("digraph { a -> ", "broken.dot:1:"),
    "broken.stg": ("3\n0 1 0\nfoo\n", "broken.stg:3"),
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_error_about_a_bad_file_of_another_format_names_the_position(name: str, folder: Path) -> None:
    content, word = OTHERS[name]
    (folder / name).write_text(content)
    assert len(refused(weft("check", name, folder=folder), 2, name, word)) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (random.Random(0).randbytes(5000), ["UTF-8"]),
        (b"weft: 1\ntasks:\n  a\xff: {work: 1}\n", ["bad.yaml:3", "0xff", "UTF-8"]),
        ("weft: 1\ntasks: {a: {work: 1}}\n".encode("utf-16"), ["UTF-8"]),
        (b"weft: 1\0\ntasks: {a: {work: 1}}\n", ["bad.yaml:1:8", "U+0000"]),
        (b"\0" * 100_000, ["bad.yaml"]),
    ],
    ids=["junk", "invalid", "utf-16", "zero", "zeros"],
)
def test_files_that_are_not_valid_text_are_rejected(content: bytes, words: list[str], folder: Path) -> None:
    (folder / "bad.yaml").write_bytes(content)
    refused(weft("check", "bad.yaml", folder=folder), 2, *words)
    refused(weft("plan", "hello.yaml", "--on", "bad.yaml", folder=folder), 2)


@pytest.mark.parametrize(
    "change", [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")]
)
def test_byte_order_marks_and_windows_line_ends_are_accepted(change: object, folder: Path) -> None:
    assert callable(change)
    (folder / "other.yaml").write_bytes(change((folder / "hello.yaml").read_bytes()))
    assert weft("check", "other.yaml", folder=folder).code == 0


def test_a_long_command_is_accepted(folder: Path) -> None:
    (folder / "long.yaml").write_text(tasks(f"  a: {{work: 1, command: '{'x' * LONG}'}}\n"))
    assert weft("plan", "long.yaml", "--on", "identical:1", folder=folder).code == 0


def test_all_problems_of_a_file_are_reported_at_once(folder: Path) -> None:
    bad = "  a: {work: -1, after: nobody}\n  b: {wrok: 1}\n  c: {nodes: 0, work: 'x+'}\n"
    (folder / "bad.yaml").write_text(f"weft: 1\nnmae: x\ntasks:\n{bad}")
    lines = refused(weft("check", "bad.yaml", folder=folder), 2)
    starts = ["2:1: unknown key 'nmae'", "4:", "4:", "5:7: tasks.b: unknown key 'wrok'", "6:", "6:"]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(f"error: bad.yaml:{start}")


def test_all_problems_of_a_platform_are_reported_at_once(folder: Path) -> None:
    (folder / "bad.yaml").write_text(
        "weft: 1\nmachines:\n  m: {speed: -1}\n  n: {sped: 2}\n  o: {nodes: 0}\n"
    )
    for command in (("check", "bad.yaml"), ("plan", "hello.yaml", "--on", "bad.yaml")):
        lines = refused(weft(*command, folder=folder), 2, "did you mean 'speed'?")
        assert sorted(line.split(":")[2] for line in lines) == ["3", "4", "5"]


def test_all_problems_of_all_files_are_reported_at_once(folder: Path) -> None:
    (folder / "one.yaml").write_text(tasks("  a: {wrok: 1}\n"))
    (folder / "two.yaml").write_text("weft: 1\nmachines: {m: {sped: 1}}\n")
    names = ["one.yaml", "hello.yaml", "two.yaml", "three.yaml"]
    lines = refused(weft("check", *names, folder=folder), 2)
    assert [line.split(":")[1].split()[-1].strip("'") for line in lines][:2] == ["one.yaml", "two.yaml"]
    assert "three.yaml" in lines[2]


def test_the_list_of_problems_is_truncated_after_a_limit(folder: Path) -> None:
    (folder / "bad.yaml").write_text(tasks("".join(f"  t{n}: {{wrok: 1}}\n" for n in range(3000))))
    lines = refused(weft("check", "bad.yaml", folder=folder), 2)
    assert len(lines) == 31
    assert lines[-1] == "… and 2970 more problems"
    assert len(json.loads(weft("check", "bad.yaml", "--json", folder=folder).out)["problems"]) == 3000


IMPOSSIBLE = {
    "memory >= 512*TB": "  a: {requirements: 'memory >= 512*TB', work: 1}\n",
    "64 nodes": "  a: {nodes: 64, work: 1}\n",
}


@pytest.mark.parametrize("rule", sorted(IMPOSSIBLE))
def test_an_infeasible_workflow_has_its_own_exit_code(rule: str, folder: Path) -> None:
    (folder / "big.yaml").write_text(tasks(IMPOSSIBLE[rule]))
    for command in (
        ("plan", "big.yaml", "--on", "identical:2"),
        ("check", "big.yaml", "--on", "identical:2"),
    ):
        refused(weft(*command, folder=folder), 3, "no machine can run a", rule.split()[0])
    assert weft("check", "big.yaml", folder=folder).code == 0


def test_check_reports_infeasible_and_invalid_files_together(folder: Path) -> None:
    (folder / "big.yaml").write_text(tasks(IMPOSSIBLE["64 nodes"]))
    (folder / "bad.yaml").write_text(tasks("  a: {wrok: 1}\n"))
    lines = refused(weft("check", "big.yaml", "bad.yaml", "--on", "identical:2", folder=folder), 2)
    assert len(lines) == 2
    lines = refused(
        weft("check", "big.yaml", "hello.yaml", "--on", "identical:2", folder=folder), 3, "big.yaml"
    )
    assert len(lines) == 1
