"""Reactions change the state only through commands: no direct writes, no mutating methods, no transitions."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from weft.engine import reactions, state

STATE_FILES = [Path(inspect.getfile(state)).parent / name for name in ("run.py", "machines.py", "state.py")]
"""Files with the state classes that reactions can reach; a compiled workflow has only caches."""

REACTION_FILES = sorted(Path(inspect.getfile(reactions)).parent.glob("*.py"))

WORK_LISTS = {"PendingWork", "InquiryAgenda", "_DueTimes"}
"""Classes that hold the work of one event and caches of due times; they are not part of a snapshot."""

CACHES = {"classes", "destinations", "first", "is_settling", "classes_for"}
"""Methods that only update a cache: machine classes, the position in a plan, outstanding answers."""

CONTAINER_MUTATORS = {
    "add",
    "append",
    "appendleft",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "setdefault",
    "update",
}


def root(node: ast.expr) -> tuple[str, list[str]]:
    """Return the variable at the start of an attribute chain and the attributes after it."""
    chain: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return (node.id if isinstance(node, ast.Name) else ""), chain[::-1]


def targets(node: ast.AST) -> list[ast.expr]:
    """Return the attributes and items that a statement assigns or deletes."""
    if isinstance(node, ast.Assign | ast.Delete):
        found = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        found = [node.target]
    else:
        return []
    while any(isinstance(each, ast.Tuple | ast.List) for each in found):
        found = [
            inner
            for each in found
            for inner in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])
        ]
    return [each for each in found if isinstance(each, ast.Attribute | ast.Subscript)]


def mutators() -> set[str]:
    """Return the names of the methods of the state's classes that change their object."""
    methods: dict[str, list[ast.FunctionDef]] = {}
    for file in STATE_FILES:
        for cls in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(cls, ast.ClassDef) and cls.name not in WORK_LISTS:
                for method in cls.body:
                    if isinstance(method, ast.FunctionDef) and method.name != "__init__":
                        methods.setdefault(method.name, []).append(method)
    found: set[str] = set()
    while True:
        more = {
            name
            for name, bodies in methods.items()
            if name not in found | CACHES and any(changes_self(body, found) for body in bodies)
        }
        if not more:
            return found
        found |= more


def changes_self(method: ast.FunctionDef, known: set[str]) -> bool:
    for node in ast.walk(method):
        if any(root(target)[0] == "self" for target in targets(node)):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, chain = root(node.func)
            if name == "self" and chain[-1] in known | CONTAINER_MUTATORS:
                return True
    return False


def own_containers(function: ast.FunctionDef) -> set[str]:
    """Return the local variables that hold a container or object made in the function itself."""
    made = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            fresh = isinstance(node.value, made) or (
                isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Name)
                and node.value.func.id in ("set", "dict", "list", "_outcome_names", "_NodeProfile")
            )
            if fresh:
                found |= {name.id for name in names if isinstance(name, ast.Name)}
    return found


def violations(source: str) -> list[str]:
    """Return the lines of a reaction that write to the state."""
    tree, forbidden, found = ast.parse(source), mutators() | CONTAINER_MUTATORS, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "weft.engine.transitions":
            found.append(f"{node.lineno}: imports transitions")
        if not isinstance(node, ast.FunctionDef):
            continue
        own = own_containers(node) | {"self"}
        for inner in ast.walk(node):
            found += [
                f"{inner.lineno}: writes {ast.unparse(target)}"
                for target in targets(inner)
                if root(target)[0] not in own
            ]
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                name, chain = root(inner.func)
                allowed = name in own or "pending" in chain or "agenda" in chain
                if chain[-1] in forbidden and not allowed and name not in MODULES:
                    found.append(f"{inner.lineno}: calls {ast.unparse(inner.func)}")
    return sorted(set(found))


MODULES = {"pending", "messages", *(file.stem for file in REACTION_FILES)}


@pytest.mark.parametrize("file", REACTION_FILES, ids=lambda file: file.stem)
def test_reaction_does_not_write_to_the_state(file: Path) -> None:
    assert violations(file.read_text(encoding="utf-8")) == []


def test_mutating_methods_are_detected() -> None:
    assert {
        "move",
        "bind",
        "unbind",
        "take",
        "release_nodes",
        "set_speed",
        "set_up",
        "close",
        "change_facts",
    } <= (mutators())
    assert not mutators() & {
        "facts_of",
        "fits",
        "members",
        "name",
        "obstacle",
        "open_state",
        "was_sent_ahead",
    }


@pytest.mark.parametrize(
    "line",
    [
        "run.version += 1",
        "del context.state.attempts[3]",
        "attempt.stage, run.failed = 1, 2",
        "run.binding.pop(3, None)",
        "run.move(task, 3)",
        "context.state.machines[0].queue.append(1)",
        "run.facts_of(task).avoid.add(3)",
    ],
)
def test_direct_write_to_the_state_is_detected(line: str) -> None:
    assert violations(f"def react(context, run, task, attempt):\n    {line}\n")


def test_writes_to_local_containers_are_not_reported_as_writes_to_the_state() -> None:
    source = (
        "def react(run):\n    found = []\n    found.append(run.index)\n    found[0] = 3\n    return found\n"
    )
    assert violations(source) == []
