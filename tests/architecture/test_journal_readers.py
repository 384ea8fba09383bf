"""One reading of the journal: views use ``engine/history``; few modules examine the types of messages."""

from __future__ import annotations

import ast
import typing
from functools import cache
from pathlib import Path

import pytest

from weft.engine import messages

PACKAGE = Path(messages.__file__).parents[1]

MESSAGE_TYPES = {kind.__name__ for kind in typing.get_args(messages.Event | messages.Command)}

DISPATCHING = {
    "engine/journal.py": "stores messages under fixed names",
    "engine/transitions.py": "applies messages to the state",
    "engine/engine.py": "handles events",
    "engine/reactions/": "decides",
    "engine/history.py": "the projection of the journal",
    "engine/replay.py": "compares recorded commands with repeated ones",
    "engine/explanation.py": "has a sentence for every message of a task",
    "reports/events_jsonl.py": "writes one line per message",
    "repository/journal_store.py": "stores the plan that an event names",
    "backends/": "executes commands",
    "runtime/": "drives engine and backend, and repeats unanswered commands",
    "api/cleanup.py": "lists the attempts of an unfinished execution with their tasks and machines",
    "papers/": "measures what a paper reports and no view shows",
}
"""Modules and packages that may examine the types of messages, with the reason."""


def find_dispatches(source: str) -> list[int]:
    """Return the lines that name a message type other than in an import, an annotation or a constructor call."""
    tree = ast.parse(source)
    modules, names = _imported_messages(tree)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        kept = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Call):
            kept.append(node.func)
        skipped |= {id(inner) for each in kept if each is not None for inner in _parts(each, node)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if id(node) not in skipped and _names_message(node, modules, names)
    ]


def _parts(kept: ast.AST, owner: ast.AST) -> list[ast.AST]:
    return [kept] if isinstance(owner, ast.Call) else list(ast.walk(kept))


def _imported_messages(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names that stand for the module of messages, and those that stand for message types."""
    modules, names = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if node.module == "weft.engine" and alias.name == "messages":
                    modules.add(alias.asname or alias.name)
                if node.module == "weft.engine.messages" and alias.name in MESSAGE_TYPES:
                    names.add(alias.asname or alias.name)
    return modules, names


def _names_message(node: ast.AST, modules: set[str], names: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in MESSAGE_TYPES and isinstance(node.value, ast.Name) and node.value.id in modules
    return isinstance(node, ast.Name) and node.id in names


@cache
def list_dispatching_modules() -> set[str]:
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if find_dispatches(path.read_text(encoding="utf-8"))
    }


def test_only_listed_modules_examine_message_types():
    found = list_dispatching_modules()
    assert [each for each in sorted(found) if not each.startswith(tuple(DISPATCHING))] == []


def test_every_listed_module_examines_message_types():
    found = list_dispatching_modules()
    assert [each for each in DISPATCHING if not any(name.startswith(each) for name in found)] == []


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(event, cm.Ended)",
        "type(event) is Started",
        "{cm.Assign: handle}",
        "kinds = (Started, cm.Ended)",
        "match event:\n    case cm.Ended(attempt=1):\n        pass",
    ],
)
def test_examination_of_a_message_type_is_detected(line):
    imports = "from weft.engine import messages as cm\nfrom weft.engine.messages import Started\n"
    assert find_dispatches(imports + line)


@pytest.mark.parametrize(
    "line",
    [
        "Started(attempt=1)",
        "def handle(event: Started | cm.Ended) -> cm.Assign: ...",
        "found: list[Started] = []",
    ],
)
def test_constructors_and_annotations_do_not_count_as_examination(line):
    imports = "from weft.engine import messages as cm\nfrom weft.engine.messages import Started\n"
    assert find_dispatches(imports + line) == []
