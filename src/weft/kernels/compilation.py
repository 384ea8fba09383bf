"""Run kernels as plain Python for small work, as machine code otherwise, and cache the machine code.

``WEFT_KERNELS`` overrides the choice: ``plain`` never compiles, ``compiled`` always does, ``auto`` is the
default.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from weft.errors import InvalidInput
from weft.private_files import open_in_place

_COMPILING_PAYS_S = 0.4
"""If work takes more seconds than this in plain Python, loading numba and machine code is faster."""
_CHOICE = "WEFT_KERNELS"

_Function = TypeVar("_Function", bound=Callable[..., Any])
_marked: set[FunctionType] = set()
_inlined: set[FunctionType] = set()
_compiled: dict[FunctionType, Any] = {}
_callees: dict[FunctionType, Any] = {}
_plain_s: dict[FunctionType, float] = {}
"""Per kernel: estimated seconds of all its uncompiled calls so far; many small calls justify compilation."""
CompilationListener = Callable[[str], Callable[[], None] | None]
"""Called with a kernel's name before it is compiled; may return a function to be called after compilation."""
_listeners: list[CompilationListener] = []


def kernel(function: _Function) -> _Function:
    """Mark a function as a kernel and return it unchanged; ``run_kernel`` may compile a copy.

    A kernel is a function marked ``@kernel``. It reads and writes flat arrays by index and calls nothing but
    other kernels and built-in arithmetic. ``run_kernel`` chooses the form: importing numba and compiling take
    longer than a small job, so small work runs uncompiled on lists (plain Python reads lists three times
    faster than arrays). Both forms must return the same bits, so a kernel uses no ``exp``, ``log`` or
    ``pow``, no array methods, no slices, no negative indices and no division by a number that may be 0.
    """
    assert isinstance(function, FunctionType)
    _marked.add(function)
    return function


def inlined_kernel(function: _Function) -> _Function:
    """Mark a kernel whose machine code is copied into its callers.

    A call passes every array of a named tuple, used or not, which may take longer than the body of the
    kernel. Mark kernels that are called in a loop, or from one place only.
    """
    assert isinstance(function, FunctionType)
    _inlined.add(function)
    return kernel(function)


def run_kernel(
    function: Callable[..., Any], inputs: tuple[Any, ...], outputs: tuple[Any, ...], *, work_s: float
) -> Any:
    """Return ``function(*inputs, *outputs)``, run compiled or as plain Python, whichever takes less time.

    The function writes its results to ``outputs``. Inputs and outputs are numbers, arrays or named tuples of
    them; scratch arrays are inputs. ``work_s`` is the estimated time of the call in plain Python.
    """
    assert isinstance(function, FunctionType)
    if _pays_to_compile(function, work_s):
        if function not in _compiled and _needs_compilation(function):
            _compile_once(function, (*inputs, *outputs))
        return compile_kernel(function)(*inputs, *outputs)
    lists = tuple(_to_lists(array) for array in outputs)
    value = function(*map(_to_lists, inputs), *lists)
    _fill(outputs, lists)
    return value


def _fill(outputs: tuple[Any, ...], lists: tuple[Any, ...]) -> None:
    for array, filled in zip(outputs, lists, strict=True):
        if isinstance(array, tuple):
            _fill(array, filled)
        elif isinstance(array, np.ndarray):
            array[...] = filled


def _pays_to_compile(function: FunctionType, work_s: float) -> bool:
    choice = os.environ.get(_CHOICE, "auto")
    if choice in ("plain", "compiled"):
        return choice == "compiled"
    if choice != "auto":
        what = f"{_CHOICE}={choice!r} in the environment"
        raise InvalidInput(what, rule="must be auto, plain or compiled")
    if function in _compiled:
        return True
    _plain_s[function] = _plain_s.get(function, 0.0) + work_s
    return _plain_s[function] > _COMPILING_PAYS_S


def _to_lists(value: Any) -> Any:
    """Return arrays as lists, which plain Python reads faster; named tuples are converted field by field."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return type(value)(*map(_to_lists, value))
    return value


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Return the compiled form of a kernel; the kernels it calls are compiled with it."""
    assert isinstance(function, FunctionType)
    if function not in _compiled:
        _compiled[function] = _compile(function, called_from_python=True)
    return _compiled[function]


def _compile_once(function: FunctionType, arguments: tuple[Any, ...]) -> None:
    """Compile a kernel for these arguments and call the listeners.

    Of several processes that need the same kernel at once, one compiles it; the others wait and load it.
    """
    import numba

    after = [listener(function.__name__) for listener in _listeners]
    with _lock_cache(function.__name__):
        compile_kernel(function).compile(tuple(map(numba.typeof, arguments)))
    for call in after:
        if call is not None:
            call()


def _callee(function: FunctionType) -> Any:
    if function not in _callees:
        _callees[function] = _compile(function, called_from_python=False)
    return _callees[function]


def _compile(function: FunctionType, *, called_from_python: bool) -> Any:
    import numba

    # In the copy, the names of other kernels refer to their compiled forms.
    others = {name: _callee(other) for name, other in _called_kernels(function)}
    copy = FunctionType(
        function.__code__, {**function.__globals__, **others}, function.__name__, function.__defaults__
    )
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    with _use_cache() as possible:
        return numba.njit(
            # Cache entry points only: their machine code includes the kernels they call.
            cache=possible and called_from_python,
            # The wrapper that unpacks dozens of arrays from Python tuples is larger than most kernels.
            no_cpython_wrapper=not called_from_python,
            no_cfunc_wrapper=True,
            nogil=True,
            forceinline=function in _inlined and not called_from_python,
            # Do not check every division for 0. fastmath stays off because it changes bits.
            error_model="numpy",
            # Kernels allocate no arrays, so reference counts are not needed.
            _nrt=False,
        )(copy)


def _called_kernels(function: FunctionType) -> Iterator[tuple[str, FunctionType]]:
    for name in function.__code__.co_names:
        other = function.__globals__.get(name)
        if isinstance(other, FunctionType) and other in _marked:
            yield name, other


def _needs_compilation(function: Callable[..., Any]) -> bool:
    """Return whether a kernel has no cached machine code, so that its first call takes seconds."""
    return not _is_cached(function.__name__)


@contextmanager
def report_compilation(listener: CompilationListener) -> Iterator[None]:
    """Call a listener for every kernel that is compiled without a cache entry inside the ``with`` block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@cache
def _cache_folder() -> Path | None:
    """Return the folder for machine code of this version on this processor; None if none is writable."""
    for base in (_user_cache(), _temporary_cache()):
        if base is not None:
            found = base / "kernels" / _kernel_digest()
            if _is_writable(found):
                return found
    return None


def _user_cache() -> Path | None:
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(named) if named else Path.home() / ".cache") / "weft"
    except RuntimeError:  # no home directory
        return None


def _temporary_cache() -> Path | None:
    """Return a temporary folder that only this user can access; None if there is none.

    Machine code that another user may have written must not be loaded.
    """
    base = Path(tempfile.gettempdir()) / f"weft-{os.getuid()}"
    try:
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return base if private else None


def _is_writable(path: Path) -> bool:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


def _kernel_digest() -> str:
    """Return the name of the cache folder.

    Numba's own cache notices a change only in the file of the compiled function, not in the kernels it calls.
    The cache folder is therefore named by a digest of *all* kernel files, the version of numba and the
    processor type. It is in the user's cache directory; if that is not writable, in a private temporary
    directory; if neither is, every process compiles anew.
    """
    import llvmlite.binding
    import numba

    found = hashlib.sha256(f"{numba.__version__} {llvmlite.binding.get_host_cpu_name()}".encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _is_cached(name: str) -> bool:
    """Return whether the cache folder contains machine code of a kernel."""
    found = _cache_folder()
    return found is not None and any(found.rglob(f"*.{name}-*.nbi"))


@contextmanager
def _lock_cache(name: str) -> Iterator[None]:
    """Hold the lock of a kernel's machine code in the ``with`` block; without a lock if locking fails."""
    folder = _cache_folder()
    with ExitStack() as stack:
        if folder is not None:
            with suppress(OSError):
                lock = stack.enter_context(os.fdopen(open_in_place(folder / f"{name}.lock"), "wb"))
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _use_cache() -> Iterator[bool]:
    """Let numba use the cache folder inside the ``with`` block; yield whether there is one."""
    import numba

    found = _cache_folder()
    before = numba.config.CACHE_DIR
    if found is not None:
        numba.config.CACHE_DIR = str(found)
    try:
        yield found is not None
    finally:
        numba.config.CACHE_DIR = before
