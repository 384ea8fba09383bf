"""Shipping a function to another process: by name where that can import it, else as text.

A function of a module is imported there, from the same places (``sys.path``). One of the main program, of a
notebook or of a test file is sent as its source, with what it uses from around it: imported modules, other
functions, plain values. What cannot be sent is refused here, with what to do about it: classes of a notebook,
lambdas, functions without source. So nothing is needed beyond the standard library.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import sys
import textwrap
from base64 import b64encode
from collections.abc import Callable, Iterator
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from weft.api.functions.values import UnfitValue, encoded
from weft.errors import InvalidInput, Problem

__all__ = ["shipped"]

_MOST_FUNCTIONS = 1_000


def shipped(function: Callable[..., Any]) -> dict[str, Any]:
    """Describe a function so that ``child`` finds or makes it; raises InvalidInput where that cannot be."""
    named = _reference(function)
    if named is not None:
        # Its text does not help the other process, but says when the function has become another one.
        return {"import": named, "text": _text_or_nothing(function)}
    package = _Package()
    package.add_function(_checked(function))
    return {"name": function.__name__, "parts": package.parts}


def _reference(found: Any) -> str | None:
    """Give ``module:name`` of what another process can import; None: it cannot."""
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if not module or not name or "<" in name or module == "__main__":
        return None
    home = sys.modules.get(module)
    if home is None or not _is_importable(home):
        return None
    there: Any = home
    for part in name.split("."):
        there = getattr(there, part, None)
    same = there is found or getattr(there, "__weft_function__", None) is found
    return f"{module}:{name}" if same else None


def _is_importable(module: ModuleType) -> bool:
    """Say whether another process finds the same module: under its name, in the same file."""
    spec: Any = None
    path: Any = None
    name = ""
    for part in module.__name__.split("."):
        name = f"{name}.{part}" if name else part
        finders = (BuiltinImporter, FrozenImporter, PathFinder) if path is None else (PathFinder,)
        spec = next(
            (found for finder in finders if (found := finder.find_spec(name, path)) is not None), None
        )
        if spec is None:
            return False
        path = spec.submodule_search_locations
    file = getattr(module, "__file__", None)
    if not spec.has_location:
        return True  # a part of Python itself
    return file is None or spec.origin is None or Path(spec.origin).resolve() == Path(file).resolve()


def _text_or_nothing(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def _checked(function: Callable[..., Any]) -> FunctionType:
    if not isinstance(function, FunctionType):
        what = f"{function!r} cannot be a task"
        raise InvalidInput(Problem(what=what, rule="a function of Python, by `def`", advice="wrap it in one"))
    return function


class _Package:
    """What is sent: parts in the order in which they are to be made."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self._known: dict[str, object] = {}

    def add_function(self, function: FunctionType) -> None:
        """Add a function and what it uses."""
        if self._known.get(function.__name__) is function:
            return
        if len(self._known) > _MOST_FUNCTIONS:
            raise InvalidInput(Problem(what=f"{function.__name__!r} uses more than is reasonable to send"))
        self._take_name(function.__name__, function, function)
        source = _source(function)
        for name, value in _surroundings(function):
            self._add(name, value, function)
        defaults = [function.__defaults__, function.__kwdefaults__]
        self.parts.append(
            {"def": function.__name__, "source": source, "defaults": _text(defaults, function, "a default")}
        )

    def _add(self, name: str, value: Any, user: FunctionType) -> None:
        own = getattr(value, "__weft_function__", value)
        if self._known.get(name) is own:
            return
        if isinstance(own, ModuleType):
            if not _is_importable(own):
                self._refuse(name, user, f"the module {own.__name__!r}, which another process does not find")
            self._take_name(name, own, user)
            self.parts.append({"import": own.__name__, "as": name})
            return
        named = _reference(own)
        if named is not None:
            self._take_name(name, own, user)
            self.parts.append({"from": named, "as": name})
        elif isinstance(own, FunctionType):
            self.add_function(own)
            if own.__name__ != name:
                self._take_name(name, own, user)
                self.parts.append({"same": own.__name__, "as": name})
        elif isinstance(own, type):
            self._refuse(
                name, user, "a class that is defined beside it; put the class into a module of its own"
            )
        else:
            self._take_name(name, own, user)
            self.parts.append({"value": _text(value, user, repr(name)), "as": name})

    def _take_name(self, name: str, value: object, user: FunctionType) -> None:
        if name in self._known and self._known[name] is not value:
            self._refuse(name, user, "which means two different things; rename one")
        self._known[name] = value

    def _refuse(self, name: str, user: FunctionType, why: str) -> None:
        what = f"function {user.__name__!r} uses {name!r}: {why}"
        raise InvalidInput(Problem(what=what, rule="it is sent to another process as text"))


def _surroundings(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """List the names that a function finds around it, with what they mean."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name, cell in cells.items():
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not set yet: it is only used later
    for name in dict.fromkeys(_globals_of(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
        elif not hasattr(builtins, name):
            what = f"function {function.__name__!r} uses {name!r}, which is not defined"
            raise InvalidInput(Problem(what=what, advice="define it before the function is called"))


def _globals_of(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _source(function: FunctionType) -> str:
    """Give the text of a function, without decorators and default values: those are sent as values."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, SyntaxError):
        tree = None
    found = tree.body[0] if tree is not None and tree.body else None
    if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) or found.name != function.__name__:
        what = f"the text of function {function.__name__!r} cannot be found"
        advice = (
            "write it with `def` in a file or a notebook: lambdas and lines typed at the prompt have none"
        )
        raise InvalidInput(Problem(what=what, advice=advice))
    found.decorator_list = []
    nothing = ast.Constant(value=None)
    found.args.defaults = [nothing for _ in found.args.defaults]
    found.args.kw_defaults = [None if each is None else nothing for each in found.args.kw_defaults]
    return ast.unparse(ast.fix_missing_locations(found))


def _text(value: Any, function: FunctionType, what: str) -> str:
    try:
        return b64encode(encoded(value, f"{what} of function {function.__name__!r}")).decode()
    except UnfitValue as error:
        raise InvalidInput(Problem(what=str(error), rule="a task runs in another process")) from None
