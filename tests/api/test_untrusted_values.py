"""A task that writes a value file of its own runs no code in the caller or in other tasks."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from api.called_functions import double
from isolation_tools import need_isolation
from weft.api import task
from weft.api.functions.call import TaskFailed, UntrustedValue
from weft.api.functions.child import call, hash_call
from weft.api.functions.values import encode_value


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Marker:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


@pytest.fixture
def marker(here: Path) -> Path:
    return here / "marker"


def forging(**facets: Any) -> Any:
    """Return a task that writes its value file instead of weft, and ends at once."""

    @task(**facets)
    def forge(head, body):
        import os
        import pathlib

        nonce = os.environ["WEFT_MARK"].split(".")[3]
        file = pathlib.Path(os.environ["WEFT_TASK"] + ".value")
        file.write_bytes(head.format(nonce=nonce).encode() + b"\n" + body)
        os._exit(0)

    return forge


def ordering(**facets: Any) -> Any:
    """Return a task whose value needs a pickle."""

    @task(**facets)
    def order(**items):
        import collections

        return collections.OrderedDict(items)

    return order


def counting(**facets: Any) -> Any:
    """Return a task that reads a value."""

    @task(**facets)
    def count(items):
        return len(items)

    return count


def value_file(folder: Path, name: str) -> Path:
    (found,) = (folder / ".weft" / "sandbox").rglob(f"{name}.value")
    return found


def overwrite(file: Path, content: bytes) -> None:
    file.chmod(0o644)
    file.write_bytes(content)


def test_value_file_overwritten_after_the_end_of_its_task_is_not_read(here: Path, marker: Path) -> None:
    handle = ordering()(a=1)
    assert handle.result() == OrderedDict(a=1)
    file = value_file(here, handle.name)
    head, _, _ = file.read_bytes().partition(b"\n")
    assert head.startswith(b"weft pickle 2 ")
    overwrite(file, head + b"\n" + pickle.dumps(Marker(marker)))
    assert handle.result() == OrderedDict(a=1)  # computed again
    assert not marker.exists()


def test_value_file_overwritten_by_another_task_is_not_read(here: Path, marker: Path) -> None:
    handle = ordering()(a=1)
    handle.result()
    file = str(value_file(here, handle.name))
    evil = pickle.dumps(Marker(marker))

    @task
    def replace(file, evil):
        import pathlib

        victim = pathlib.Path(file)
        victim.chmod(0o644)
        victim.write_bytes(victim.read_bytes().partition(b"\n")[0] + b"\n" + evil)

    assert replace(file, evil).result() is None
    assert handle.result() == OrderedDict(a=1)
    assert not marker.exists()


@pytest.mark.parametrize("head", ["weft pickle 1", "weft pickle 2 ", "weft pickle 2 0123456789abcdef"])
def test_pickle_without_the_nonce_of_its_attempt_is_not_read(marker: Path, head: str) -> None:
    handle = forging()(head, pickle.dumps(Marker(marker)))
    with pytest.raises(UntrustedValue, match="without the identity of the attempt"):
        handle.result()
    with pytest.raises(UntrustedValue, match="without the identity of the attempt"):
        handle.result(trust_pickle=True)
    assert not marker.exists()


def test_pickle_of_an_isolated_task_is_read_only_with_consent(marker: Path) -> None:
    need_isolation("bubblewrap")
    evil = forging(isolate="bubblewrap")("weft pickle 2 {nonce}", pickle.dumps(Marker(marker)))
    with pytest.raises(UntrustedValue, match=r"isolated task.*trust_pickle=True"):
        evil.result()
    assert not marker.exists()
    handle = ordering(isolate="bubblewrap")(a=1)
    assert handle.result(trust_pickle=True) == OrderedDict(a=1)
    assert counting(isolate="bubblewrap")({"a": (1, b"x")}).result() == 1, "no pickle is needed"
    evil.result(trust_pickle=True)
    assert marker.exists(), "consent means that code of the task runs here"


def test_pickle_of_an_isolated_task_is_not_read_by_another_task(marker: Path) -> None:
    need_isolation("bubblewrap")
    evil = forging(isolate="bubblewrap")("weft pickle 2 {nonce}", pickle.dumps(Marker(marker)))
    with pytest.raises(TaskFailed, match=r"exit code 2.*different isolation") as caught:
        counting(retries=0)(evil).result()
    assert "different isolation" in str(caught.value.__cause__)
    assert not marker.exists()
    handle = ordering(isolate="bubblewrap")(a=1)
    assert counting(isolate="bubblewrap")(handle).result() == 1
    assert counting(trust_pickle=True)(handle).result() == 1


@pytest.mark.parametrize(
    "record",
    [
        '{"module": "builtins", "name": "ExceptionGroup", "text": "x", "args": ["x", [1]]}',
        '{"module": "builtins", "name": "SystemExit", "text": "x", "args": [0]}',
        '{"module": "builtins", "name": "eval", "text": "x", "args": ["1"]}',
        '{"module": "os", "name": "system", "text": "x", "args": ["touch marker"]}',
        "[" * 100_000,
        "not JSON",
    ],
)
def test_forged_exception_of_a_task_is_raised_only_as_task_failed(marker: Path, record: str) -> None:
    @task(retries=0)
    def fail(record):
        import sys

        sys.stderr.write(f"weft-exception: {record}\n")
        sys.exit(1)

    with pytest.raises(TaskFailed):
        fail(record).result()
    assert not marker.exists()


def test_isolated_function_needs_read_access_to_the_folder_of_its_module() -> None:
    need_isolation("bubblewrap")
    with pytest.raises(TaskFailed) as caught:
        task(isolate="bubblewrap", retries=0)(double.function)(2).result()
    assert "No module named 'api'" in str(caught.value.__cause__)
    visible = {"with": "bubblewrap", "read": [str(Path(__file__).parents[1])]}
    assert task(isolate=visible)(double.function)(2).result() == 4


def test_call_file_that_does_not_match_its_digest_is_not_read(here: Path, marker: Path) -> None:
    described = b'{"import": "builtins:len", "text": ""}\n'
    content = described + encode_value([[OrderedDict()], {}])
    name = f"len-{hash_call(content)[:12]}.call"
    changed = described + encode_value([[Marker(marker)], {}])
    Path(name).write_bytes(changed)
    with pytest.raises(SystemExit) as ended:
        call([name], [str(here / "value")])
    assert ended.value.code == 2
    assert not marker.exists()
    Path(name).write_bytes(content)
    call([name], [str(here / "value")])
    assert (here / "value").read_bytes() == b"weft json 1\n0"
