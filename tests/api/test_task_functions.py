"""Functions as tasks: results, transfer to another process, and exceptions."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from api.called_functions import OFFSET, double, fails, total, where
from architecture.package import environment
from weft.api import gather, task
from weft.api.functions.call import RemoteTraceback, TaskFailed, describe_function
from weft.api.functions.values import UnsupportedValue, ValueReference, decode_value, encode_value
from weft.errors import InvalidInput


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Odd(Exception):
    pass


def test_task_functions_build_a_workflow_and_run_in_other_processes(here: Path) -> None:
    value = total([double(1), double(2, by=Decimal(3))], extra={"deep": [(double(5),)]}).result()
    assert value == (2.0 + 6.0 + OFFSET, {"deep": [(10,)]})
    pid, name = where().result()
    assert pid != os.getpid()
    assert name.startswith("where-")
    assert [path.name for path in here.iterdir()] == [".weft"]


def test_values_are_returned_and_reused_by_the_next_run() -> None:
    first = gather(double(7), double(8), double(8))
    assert first.result() == [14, 16, 16]
    ran = weft.run(gather(double(7), double(9)))
    assert ran.completed
    assert ran.report.executed.taken_over == 1
    assert [kind.kind for kind in ran.report.executed.kinds] == ["double"]
    assert "double" in ran._repr_html_()
    handle = double(9)
    assert weft.run(handle).report.executed.taken_over == 1
    assert handle.result() == 18  # without running again
    assert len(weft.run(double(9)).runs) == 1
    assert handle.name in handle._repr_html_()


def test_exceptions_are_raised_with_the_remote_traceback() -> None:
    with pytest.raises(KeyError, match="no") as caught:
        fails(double(1)).result()
    assert caught.value.args == ("no", 2)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in fails" in str(caught.value.__cause__)
    assert "raise KeyError" in str(caught.value.__cause__)


def test_exception_that_cannot_be_sent_is_reported_by_name(here: Path) -> None:
    (here / "own_errors.py").write_text(
        "from weft.api import task\nclass Odd(Exception):\n    pass\n"
        "@task(retries=0)\ndef odd():\n    raise Odd('very')\n"
    )
    (here / "main.py").write_text(
        "import own_errors\nfrom weft.api.functions.call import TaskFailed\n"
        "try:\n    own_errors.odd().result()\nexcept TaskFailed as error:\n    print(error, error.__cause__)\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"], env=environment(), capture_output=True, text=True, check=True
    )
    assert "Odd: very" in done.stdout
    assert "own_errors.py" in done.stdout
    assert issubclass(TaskFailed, weft.WeftError)


def test_functions_of_the_main_program_are_sent_as_source(here: Path) -> None:
    (here / "main.py").write_text(
        "import json as js\nfrom weft.api import task\nLIMIT = {'most': 3}\n"
        "def inner(x, *, power=2):\n    return x ** power\n"
        "@task(memory='100MB', version=2)\n"
        "def outer(x: int, y=LIMIT) -> str:\n    return js.dumps([inner(x), inner(x, power=3), y])\n"
        "print(outer(4).result())\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == '[16, 64, {"most": 3}]\n'


def test_closures_and_recursive_functions_are_sent() -> None:
    factor = 5

    @task
    def down(n):
        return factor if n == 0 else down(n - 1) + 1

    assert down(3).result() == 8


def _layout():
    from weft.api.project import find_project

    return find_project()


def test_functions_that_cannot_be_sent_are_rejected_and_advice_is_printed() -> None:
    @dataclass
    class Local:
        x: int

    @task
    def uses_class():
        return Local(1)

    with pytest.raises(InvalidInput, match=r"uses 'Local'.*move the class into a module"):
        uses_class().build_in(_layout())
    with pytest.raises(InvalidInput, match=r"Local.*another process cannot import"):
        double(Local(1)).build_in(_layout())
    with pytest.raises(InvalidInput, match="lambdas"):
        task(lambda x: x)(1).build_in(_layout())
    with pytest.raises(InvalidInput, match="cannot be pickled"):
        double(threading.Lock()).build_in(_layout())
    with pytest.raises(InvalidInput, match="set by the call"):
        task(command="ls")
    with pytest.raises(InvalidInput, match="workk"):
        task(workk=3)(double.function)(1).build_in(_layout())
    with pytest.raises(TypeError, match="double: "):
        double()


def test_a_result_that_cannot_be_pickled_is_an_error() -> None:
    @task
    def lock():
        import threading

        return threading.Lock()

    with pytest.raises(TypeError, match="the returned value"):
        lock().result()


def test_result_file_that_was_modified_is_not_read(here: Path) -> None:
    handle = double(Decimal(2))
    assert handle.result() == 4
    (kept,) = here.glob(".weft/sandbox/*/*/*/*/*.value")
    kept.chmod(0o644)
    kept.write_bytes(b"weft pickle 1\n" + b"cos\nsystem\n(S'touch owned'\ntR.")
    assert handle.result() == 4  # computed again
    assert not (here / "owned").exists()


def test_task_functions_run_inside_an_event_loop_and_in_another_thread() -> None:
    async def inside() -> int:
        return double(3).result()

    assert asyncio.run(inside()) == 6
    found = []
    thread = threading.Thread(target=lambda: found.append(double(4).result()))
    thread.start()
    thread.join(60)
    assert found == [8]


def test_a_function_of_a_module_is_sent_by_name() -> None:
    assert describe_function(math.fsum) == {"import": "math:fsum", "text": ""}
    assert describe_function(subprocess.list2cmdline)["import"] == "subprocess:list2cmdline"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(PLAIN)
def test_values_are_unchanged_by_serialisation(value) -> None:
    back = decode_value(encode_value(value), lambda _: None)
    assert back == value
    assert repr(back) == repr(value)


@given(PLAIN)
def test_references_are_resolved_at_any_depth(value) -> None:
    back = decode_value(
        encode_value([value, {"deep": ValueReference("f")}, (ValueReference("g"),)]),
        lambda file: f"value of {file}",
    )
    assert back == [value, {"deep": "value of f"}, ("value of g",)]


def test_result_files_of_other_programs_are_not_read() -> None:
    with pytest.raises(UnsupportedValue, match="not written by weft"):
        decode_value(b"cos\nsystem\n(S'true'\ntR.", lambda _: None)
