"""``@task`` turns the calls of a function into tasks of a workflow.

>>> from weft.api import task
>>> @task(work=2)
... def double(x):
...     return 2 * x
>>> handle = double(21)
>>> handle
double(...)

``handle.result()`` runs the call and its predecessors, each in a process of its own. Task calls among the
arguments of a call are its predecessors. ``double.function(21)`` calls the function directly. A task is named
by its function and arguments, so that later runs of other programs can reuse its result.

A function of an importable module is imported in the other process. A function of the main program, a
notebook or a test file is sent as source, together with the modules, functions and values it uses. Classes of
a notebook, lambdas and functions without source are rejected with advice.

Arguments and results of known types are stored without pickle (see ``values``). A result is read only from
the file that a task of the project wrote, and only if its hash equals the one in the database. If the result
is a pickle, it must also contain the nonce of the attempt that wrote it. The pickle of an isolated task is
read only with ``trust_pickle=True``.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import hashlib
import inspect
import json
import os
import sys
import textwrap
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from weft.api.functions.child import CALL, EXCEPTION, KEY_LENGTH, VALUE, hash_call
from weft.api.functions.values import UnsupportedValue, ValueReference, decode_value, encode_value
from weft.api.project import OpenProject
from weft.api.report import TaskLog
from weft.api.run import RunResult
from weft.backends.attempt.fingerprint import ISOLATION, WRITER
from weft.backends.attempt.safe_paths import StagingProblem, open_inside
from weft.backends.attempt.trees import DIGEST_SIZE
from weft.backends.backend import Product
from weft.backends.layout import ProjectLayout
from weft.errors import InvalidInput, WeftError
from weft.formats.files import save_text
from weft.private_files import make_folder, write_file
from weft.redaction import redact_tail, tail_bytes
from weft.repository.products import ProductTable
from weft.workflow.builder import Builder
from weft.workflow.file_format import make_isolation
from weft.workflow.task import ISOLATED_BY, Isolation
from weft.workflow.workflow import Workflow

_MOST_FUNCTIONS = 1_000


def describe_function(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a description of a function; the module ``child`` loads the function from it.

    Raises InvalidInput if another process cannot load the function.
    """
    if (named := _import_path(function)) is not None:
        # The task process ignores "text"; a changed text changes the task's fingerprint.
        return {"import": named, "text": _source_or_empty(function)}
    package = _FunctionBundle()
    if not isinstance(function, FunctionType):
        what = f"{function!r} cannot be a task"
        advice = "define a function that calls it"
        raise InvalidInput(what, rule="must be a function defined with `def`", advice=advice)
    package.add_function(function)
    return {"name": function.__name__, "parts": package.parts}


def _import_path(found: Any) -> str | None:
    """Return ``module:name`` of an object; None if another process cannot import the object."""
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if not module or not name or "<" in name or module == "__main__":
        return None
    if (home := sys.modules.get(module)) is None or not _is_importable(home):
        return None
    there: Any = home
    for part in name.split("."):
        there = getattr(there, part, None)
    same = there is found or getattr(there, "__weft_function__", None) is found
    return f"{module}:{name}" if same else None


def _is_importable(module: ModuleType) -> bool:
    """Return whether another process would import the same file under the module's name."""
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
        return True  # built into Python
    return file is None or spec.origin is None or Path(spec.origin).resolve() == Path(file).resolve()


def _source_or_empty(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


class _FunctionBundle:
    """The source of a function and the objects it uses, in the order in which they are loaded."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self._known: dict[str, object] = {}

    def add_function(self, function: FunctionType) -> None:
        """Add a function and the objects it uses."""
        if self._known.get(function.__name__) is function:
            return
        if len(self._known) > _MOST_FUNCTIONS:
            what = f"function {function.__name__!r} uses too many functions that must be sent with it"
            raise InvalidInput(what, rule=f"at most {_MOST_FUNCTIONS}", advice="move them into a module")
        self._take_name(function.__name__, function, function)
        source = _source(function)
        for name, value in _free_names(function):
            self._add(name, value, function)
        defaults = [function.__defaults__, function.__kwdefaults__]
        self.parts.append(
            {
                "def": function.__name__,
                "source": source,
                "defaults": _encode_value(defaults, function, "a default"),
            }
        )

    def _add(self, name: str, value: Any, user: FunctionType) -> None:
        own = getattr(value, "__weft_function__", value)
        if self._known.get(name) is own:
            return
        if isinstance(own, ModuleType):
            if not _is_importable(own):
                self._refuse(name, user, f"the module {own.__name__!r} cannot be imported by another process")
            self._take_name(name, own, user)
            self.parts.append({"import": own.__name__, "as": name})
            return
        if (named := _import_path(own)) is not None:
            self._take_name(name, own, user)
            self.parts.append({"from": named, "as": name})
        elif isinstance(own, FunctionType):
            self.add_function(own)
            if own.__name__ != name:
                self._take_name(name, own, user)
                self.parts.append({"same": own.__name__, "as": name})
        elif isinstance(own, type):
            self._refuse(name, user, "it is a class defined in the same file; move the class into a module")
        else:
            self._take_name(name, own, user)
            self.parts.append({"value": _encode_value(value, user, repr(name)), "as": name})

    def _take_name(self, name: str, value: object, user: FunctionType) -> None:
        if name in self._known and self._known[name] is not value:
            self._refuse(name, user, "another function uses this name for another object; rename one")
        self._known[name] = value

    def _refuse(self, name: str, user: FunctionType, why: str) -> None:
        what = f"function {user.__name__!r} uses {name!r}: {why}"
        raise InvalidInput(what, rule="a function of the main program is sent as source to another process")


def _free_names(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the closure and global names that a function uses, with their values."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name, cell in cells.items():
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    for name in dict.fromkeys(_global_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
        elif not hasattr(builtins, name):
            what = f"function {function.__name__!r} uses {name!r}, which is not defined"
            raise InvalidInput(what, advice="define it before the function is called")


def _global_names(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _source(function: FunctionType) -> str:
    """Return the source of a function without decorators and defaults; defaults are sent as values."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, SyntaxError):
        tree = None
    found = tree.body[0] if tree is not None and tree.body else None
    if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) or found.name != function.__name__:
        what = f"the source of function {function.__name__!r} is not available"
        advice = "define it with `def` in a file or notebook; lambdas and functions of the prompt have none"
        raise InvalidInput(what, advice=advice)
    found.decorator_list = []
    nothing = ast.Constant(value=None)
    found.args.defaults = [nothing for _ in found.args.defaults]
    found.args.kw_defaults = [None if each is None else nothing for each in found.args.kw_defaults]
    return ast.unparse(ast.fix_missing_locations(found))


def _encode_value(value: Any, function: FunctionType, what: str) -> str:
    return b64encode(_encode(value, f"{what} of function {function.__name__!r}")).decode()


def _encode(value: Any, what: str) -> bytes:
    try:
        return encode_value(value, what)
    except UnsupportedValue as error:
        raise InvalidInput(str(error), rule="values are sent to the process of the task") from None


class TaskFailed(WeftError):
    """A task call failed, and the exception is not one of Python's built-in exceptions."""


class RemoteTraceback(Exception):
    """The traceback in the process that ran a task; the cause of the raised exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


class UntrustedValue(WeftError):
    """The result of a call is not read, because reading it could run code of its task in this process."""


def load_value(
    layout: ProjectLayout | None, workflow: str, name: str, missing: Any, *, trust_pickle: bool = False
) -> Any:
    """Return the stored result of a call; ``missing`` if no result is stored or its file has changed.

    Raises UntrustedValue for a pickle that does not contain the nonce of the attempt recorded as its writer.
    Unless ``trust_pickle`` is true, the pickle of an isolated task raises UntrustedValue, too.
    """
    if layout is None or not layout.database.is_file():
        return missing
    with OpenProject.at(str(layout.project)) as opened:
        product = ProductTable(opened.database).find_by_name(workflow, name)
    if product is None:
        return missing
    file = next((each for each in product.files if each.name == f"{name}{VALUE}"), None)
    content = None if file is None else _content(Path(product.directory), file.name)
    # Decode the bytes that were hashed, because the file may change in the meantime.
    if file is None or content is None:
        return missing
    if hashlib.blake2b(content, digest_size=DIGEST_SIZE).hexdigest() != file.digest:
        return missing
    try:
        return decode_value(content, _no_reference, partial(_check_pickle, product, trust_pickle))
    except UnsupportedValue as error:
        raise UntrustedValue(f"the result of {name} is not read: {error}") from None


def _check_pickle(product: Product, trust_pickle: bool, nonce: str) -> str:
    """Return the reason why the pickle of a product is refused; "" if it may be read."""
    if nonce != product.parts.get(WRITER) or not nonce:
        return (
            "it is a pickle without the identity of the attempt that is recorded as its writer (an older "
            "weft stored it, or another program replaced it); compute it again with `fresh=True`"
        )
    if ISOLATION in product.parts and not trust_pickle:
        return (
            "it is a pickle of an isolated task, and reading a pickle can run code of the task in this "
            "process; return a value of a type that needs no pickle, or call result(trust_pickle=True)"
        )
    return ""


def _content(directory: Path, name: str) -> bytes | None:
    try:
        with os.fdopen(open_inside(directory, name), "rb") as stream:
            return stream.read()
    except (OSError, StagingProblem):
        return None


def _no_reference(file: str) -> Any:
    raise UnsupportedValue(f"it refers to a value in another file, {file!r}")


_MOST_LOG_BYTES = 1_000_000
"""Number of bytes at the end of the standard error that are searched for the exception and shown."""


def load_exception(ran: RunResult) -> BaseException | None:
    """Return the exception of the first call that failed permanently; None if no call failed."""
    failures = [each for each in ran.report.executed.failures if each.failed.for_good]
    if not failures:
        return None
    first = failures[0]
    log = TaskLog(ran.records(first.failed.attempt) / "err")
    data = log.tail(tail_bytes(_MOST_LOG_BYTES))
    record = _record(data[-_MOST_LOG_BYTES:].decode(errors="replace"))
    lines = redact_tail(data, _MOST_LOG_BYTES).splitlines()
    shown = "\n".join(line for line in lines if not line.startswith(EXCEPTION))
    made = _exception(record) if record is not None else None
    if made is None:
        last = next((line for line in reversed(shown.splitlines()) if line.strip()), "")
        reason = f"{first.failed.reason}: {last.strip()}" if last else first.failed.reason
        text = f"{record['name']}: {record['text']}" if record else reason
        made = TaskFailed(f"{first.failed.task}: {text}")
    made.__cause__ = RemoteTraceback(shown.strip() or first.text)
    return made


def _record(text: str) -> dict[str, Any] | None:
    lines = [line for line in text.splitlines() if line.startswith(EXCEPTION)]
    try:
        found = json.loads(lines[-1].removeprefix(EXCEPTION)) if lines else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and {"module", "name", "text"} <= found.keys() else None


def _exception(record: dict[str, Any]) -> Exception | None:
    """Return the exception that a record describes; None if its type is not a built-in exception."""
    kind = getattr(builtins, str(record["name"]), None) if record["module"] == "builtins" else None
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or record.get("args") is None:
        return None
    try:
        return kind(*record["args"])
    except (TypeError, ValueError):
        return None


_CHILD = "weft.api.functions.child:call"
_FOLDER = ".weft/functions"


class TaskCall:
    """A call of a task function; ``result`` computes and returns its result."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        facets: Mapping[str, Any],
        *,
        trusts_pickles: bool = False,
    ) -> None:
        """Create a call; users call a ``TaskFunction`` instead."""
        _check_signature(function, args, kwargs)
        self.function = function
        self.args = tuple(args)
        self.kwargs = dict(kwargs)
        self.facets = facets
        self.trusts_pickles = trusts_pickles
        """Whether pickles of tasks with a different isolation are read as arguments."""
        self._name = ""
        self._layout: ProjectLayout | None = None
        self._workflow = ""

    def build_in(self, layout: ProjectLayout, isolate: Isolation | None = None) -> Workflow:
        """Build the workflow of this call and its predecessors, and write their files."""
        return _build_workflow([self], self.function.__name__, layout, isolate)

    def result(self, *, trust_pickle: bool = False, **how: Any) -> Any:
        """Return the result of the call; tasks without a stored result are run first.

        ``how``: options of ``weft.run``. ``trust_pickle``: also read the pickle of an isolated task, which
        can run code of the task in this process; otherwise such a pickle raises UntrustedValue. An exception
        of the function is raised here; its cause is the traceback of the other process.
        """
        return _compute_results([self], self, how, trust_pickle=trust_pickle)[0]

    @property
    def name(self) -> str:
        """Return the name of the task; empty until ``result`` or ``build_in`` was called."""
        return self._name

    def __repr__(self) -> str:
        return f"{self.function.__name__}(...)"

    def _repr_html_(self) -> str:
        done = "not run yet" if self._layout is None else f"task {self._name} of {self._layout.project}"
        return f"<code>{escape(repr(self))}</code> <i>{escape(done)}</i>"


class CallGroup:
    """Several calls that run as one workflow."""

    def __init__(self, calls: Sequence[TaskCall]) -> None:
        self.calls = tuple(calls)

    def build_in(self, layout: ProjectLayout, isolate: Isolation | None = None) -> Workflow:
        """Build the workflow of these calls and their predecessors, and write their files."""
        return _build_workflow(self.calls, "gathered", layout, isolate)

    def result(self, *, trust_pickle: bool = False, **how: Any) -> list[Any]:
        """Return the results of the calls in their order; tasks are run as by ``TaskCall.result``."""
        return _compute_results(self.calls, self, how, trust_pickle=trust_pickle)


def gather(*calls: TaskCall) -> CallGroup:
    """Combine calls into one workflow: ``gather(*[f(x) for x in range(8)]).result()``."""
    if not calls or not all(isinstance(each, TaskCall) for each in calls):
        raise InvalidInput("arguments of gather(...)", rule="must be calls of tasks, at least one")
    return CallGroup(calls)


def _check_signature(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError if the arguments do not match the signature of the function."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: {error}") from None


def _compute_results(
    calls: Sequence[TaskCall], source: TaskCall | CallGroup, how: Mapping[str, Any], *, trust_pickle: bool
) -> list[Any]:
    missing = object()

    def load(call: TaskCall) -> Any:
        stored = call._layout, call._workflow, call.name  # noqa: SLF001
        return load_value(*stored, missing, trust_pickle=trust_pickle)

    found = [missing] if how.get("fresh") else [load(each) for each in calls]
    if all(each is not missing for each in found):
        return found
    from weft.api.run import run

    ran = run(source, **how)
    if not ran.completed:
        error = load_exception(ran)
        raise error if error is not None else WeftError(f"{ran.outcome}\n{ran}")
    found = [load(each) for each in calls]
    if any(each is missing for each in found):
        raise WeftError("the result of a call was changed or removed after its task had completed")
    return found


def _build_workflow(
    roots: Sequence[TaskCall], name: str, layout: ProjectLayout, isolate: Isolation | None = None
) -> Workflow:
    """Return the workflow of calls and their predecessors, and write the files that describe them."""
    flow = Builder(name)
    places = [str(Path(each or ".").resolve()) for each in sys.path]
    save_text(json.dumps(places), _function_file(layout, "places.json"))
    texts: dict[int, dict[str, Any]] = {}
    seen: Counter[str] = Counter()
    for call in _sort_calls(roots):
        needed = list(dict.fromkeys(_find_calls((call.args, call.kwargs))))
        if (described := texts.get(id(call.function))) is None:
            described = texts[id(call.function)] = describe_function(call.function)
        untrusted = [f"{each.name}{VALUE}" for each in needed if not _is_trusted(each, call, isolate)]
        if untrusted and not call.trusts_pickles:
            described = {**described, "untrusted": untrusted}
        arguments = _replace_calls([list(call.args), call.kwargs])
        sent = _encode(arguments, f"an argument of {call.function.__name__!r}")
        content = json.dumps(described, sort_keys=True).encode() + b"\n" + sent
        key = hash_call(content)
        plain = f"{call.function.__name__}-{key[:KEY_LENGTH]}"
        seen[plain] += 1
        call._name = plain if seen[plain] == 1 else f"{plain}-{seen[plain]}"  # noqa: SLF001
        call._layout, call._workflow = layout, name  # noqa: SLF001
        write_file(Path(_function_file(layout, f"{key}{CALL}")), content)
        described_in = {"file": f"{call.name}{CALL}", "from": f"{_FOLDER}/{key}{CALL}"}
        value = f"{call.name}{VALUE}"
        flow.task(
            call.name,
            call=_CHILD,
            inputs=[described_in, *(f"{each.name}{VALUE}" for each in needed)],
            # Values of intermediate calls stay in the sandbox; only those of the roots are copied.
            outputs={value: {"to": f".weft/values/{value}"}} if call in roots else [value],
            attributes={"program": call.function.__name__},
            **call.facets,
        )
    return flow.build()


def _is_trusted(producer: TaskCall, reader: TaskCall, isolate: Isolation | None) -> bool:
    """Return whether ``reader`` may read a pickle of ``producer``.

    It may if the producer is not isolated, or if both calls have the same isolation.
    """
    written, read = (_isolation(call, isolate) for call in (producer, reader))
    return written is None or written == read


def _isolation(call: TaskCall, isolate: Isolation | None) -> Isolation | None:
    stated = call.facets.get("isolate")
    found = isolate if stated is None else make_isolation(stated)
    return None if found is None or found.tool not in ISOLATED_BY else found


def _function_file(layout: ProjectLayout, name: str) -> str:
    folder = layout.project / _FOLDER
    make_folder(folder)
    return str(folder / name)


def _find_calls(value: Any) -> Iterator[TaskCall]:
    """Yield the task calls that a value contains in lists, tuples and dictionaries."""
    if isinstance(value, TaskCall):
        yield value
    elif type(value) in (list, tuple):
        for item in value:
            yield from _find_calls(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _find_calls(item)


def _replace_calls(value: Any) -> Any:
    if isinstance(value, TaskCall):
        return ValueReference(f"{value.name}{VALUE}")
    if type(value) in (list, tuple):
        return type(value)(map(_replace_calls, value))
    return {key: _replace_calls(item) for key, item in value.items()} if type(value) is dict else value


def _sort_calls(roots: Sequence[TaskCall]) -> list[TaskCall]:
    """Return calls and all their predecessors, predecessors first."""
    found: dict[int, TaskCall] = {}
    todo: list[tuple[TaskCall, bool]] = [(root, False) for root in reversed(roots)]
    while todo:
        call, ready = todo.pop()
        if id(call) in found:
            continue
        if ready:
            found[id(call)] = call
        else:
            todo.append((call, True))
            todo += [(each, False) for each in _find_calls((call.args, call.kwargs))]
    return list(found.values())


_P = ParamSpec("_P")
_R = TypeVar("_R")

_RESERVED = (
    "after",
    "attributes",
    "call",
    "command",
    "from",
    "inputs",
    "kind",
    "outputs",
    "sweep",
    "to",
    "zip",
)
"""Task keys that users may not set, because the call determines them."""


class TaskFunction(Generic[_P, _R]):
    """A function whose calls are tasks."""

    def __init__(
        self, function: Callable[_P, _R], facets: Mapping[str, Any], *, trusts_pickles: bool = False
    ) -> None:
        self.function = function
        """The undecorated function."""
        self.facets = facets
        """Keys of the file format and their values, for the tasks of this function."""
        self.trusts_pickles = trusts_pickles
        functools.update_wrapper(self, function)

    @property
    def __weft_function__(self) -> Callable[_P, _R]:
        """Return the undecorated function; read by the task process."""
        return self.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a TaskCall; inside a task process, call the function and return its result."""
        if os.environ.get("WEFT_TASK"):
            return self.function(*args, **kwargs)
        return TaskCall(self.function, args, kwargs, self.facets, trusts_pickles=self.trusts_pickles)

    def __repr__(self) -> str:
        return f"<task {self.function.__qualname__}>"


@overload
def task(function: Callable[_P, _R], /) -> TaskFunction[_P, _R]: ...


@overload
def task(
    *, trust_pickle: bool = False, **facets: Any
) -> Callable[[Callable[_P, _R]], TaskFunction[_P, _R]]: ...


def task(function: Callable[..., Any] | None = None, /, *, trust_pickle: bool = False, **facets: Any) -> Any:
    """Turn the calls of a function into tasks; keywords are the keys of a task in the file format.

    Examples: ``work``, ``nodes``, ``speedup``, ``memory``, ``cores``, ``retries``, ``time_limit``,
    ``requirements``, ``env``, ``isolate``, ``version``. If the function has changed, its calls run again.
    Increase ``version`` when code that the function calls has changed. With ``trust_pickle`` arguments may
    also be pickles of tasks with a different isolation; reading them can run code of those tasks in the
    process of the function.
    """
    for key in facets:
        if key in _RESERVED:
            rule = "this key is set by the call of the function"
            raise InvalidInput(f"task(..., {key}=...)", rule=rule, advice="omit it")
    if function is None:
        return lambda found: TaskFunction(found, facets, trusts_pickles=trust_pickle)
    return TaskFunction(function, facets, trusts_pickles=trust_pickle)
