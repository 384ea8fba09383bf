"""A connection without the token cannot stop the runner, whatever it sends."""

from __future__ import annotations

import json
import random
import socket

import pytest

from backends.runner.runner_bench import TOKEN, Bench, is_running

MALFORMED = {
    "nothing": b"\n",
    "no text": b"\xff\xfe\x00\n",
    "half a surrogate": b'{"do": "hello", "token": "\\ud800"}\n',
    "half a surrogate as a key": b'{"\\udfff": 1, "token": "\\udfff"}\n',
    "nested lists": b"[" * 200_000 + b"\n",
    "nested objects": b'{"token":' * 100_000 + b"\n",
    "nested and complete": b"[" * 100_000 + b"]" * 100_000 + b"\n",
    "a long number": b'{"token": ' + b"9" * 100_000 + b"}\n",
    "a huge exponent": b'{"token": 1e999999999}\n',
    "NaN": b'{"token": NaN, "do": Infinity}\n',
    "a list": b'["hello"]\n',
    "a number": b"7\n",
    "null": b"null\n",
    "a string": b'"hello"\n',
    "token of another type": b'{"token": {"a": [1]}}\n',
    "a wrong token of the same length": b'{"token": "' + b"x" * len(TOKEN) + b'"}\n',
    "the token in another script": '{"token": "sécret"}\n'.encode(),
    "the token elsewhere": json.dumps({"do": "hello", "env": {"token": TOKEN}}).encode() + b"\n",
    "the token without an object": json.dumps(TOKEN).encode() + b"\n",
    "zeros": b"\x00" * 1000 + b"\n",
    "many lines": b"{}\n" * 10_000,
    "no end of the line": b'{"token": "',
    "a long line": b"x" * 5_000_000,
}


def call(bench: Bench, content: bytes) -> bytes:
    """Send bytes to the runner's socket and return its answer."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(0.2)
        caller.connect(str(bench.directory / "socket"))
        try:
            caller.sendall(content)
            return caller.recv(1000)
        except OSError:
            return b""


@pytest.fixture
def program(bench: Bench) -> int:
    """Return the process number of a task that must survive."""
    bench.sh(1, "echo $$ > ready; sleep 1000")
    bench.wait_for("started", 1)
    return bench.wait_for_pid("ready")


def assert_unharmed(bench: Bench, program: int) -> None:
    assert is_running(program)
    pid = bench.link.pid
    bench.link.disconnect()
    here = bench.link.connect()
    assert (here["pid"], [each["attempt"] for each in here["running"]]) == (pid, [1])


@pytest.mark.parametrize("what", list(MALFORMED))
def test_malformed_greeting_has_no_effect(bench: Bench, program: int, what: str) -> None:
    assert call(bench, MALFORMED[what]) == b""
    assert_unharmed(bench, program)


def test_random_greetings_have_no_effect(bench: Bench, program: int) -> None:
    rng = random.Random(7)
    pieces = [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b":",
        b",",
        b"\\ud800",
        b"\\",
        b"token",
        b"null",
        b"1e9",
        b"-",
        b"\x00",
    ]
    for _ in range(600):
        parts = [
            rng.choice(pieces) if rng.random() < 0.7 else rng.randbytes(3) for _ in range(rng.randrange(60))
        ]
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(bench.directory / "socket"))
            caller.sendall(b"".join(parts) + b"\n")
    mutated = json.dumps({"do": "hello", "token": TOKEN[:-1], "env": {"A": "b"}, "cores": [0]}).encode()
    for _ in range(600):
        content = bytearray(mutated)
        for _ in range(rng.randrange(1, 6)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(bench.directory / "socket"))
            caller.sendall(bytes(content) + b"\n")
    assert_unharmed(bench, program)


def test_malformed_message_after_the_greeting_has_no_effect(bench: Bench, program: int) -> None:
    """The engine sends no such messages; a broken one must not end the tasks either."""
    deep = '{"do": "start", "attempt": ' + "[" * 5000 + "]" * 5000 + "}"
    for text in (
        deep,
        '{"do": "start", "attempt": NaN}',
        '{"do": ["start"]}',
        '{"do": "\\ud800"}',
        "[" * 100_000,
    ):
        bench.link._connection.send(text)
        bench.link.flush()
        assert bench.wait_for("problem")["attempt"] is None
    assert_unharmed(bench, program)
