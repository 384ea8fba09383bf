"""The program of the chaos tests' tasks: it checks that it runs alone, works for a time, and writes its
output.

Called as ``program.py KIND NAME OUTPUT SECONDS INPUT...``. The directory CHAOS_DIRECTORY contains ``log``
(one line per start and end) and a lock per task, which the kernel grants to one process at a time: the second
of two concurrent attempts detects the first. The output depends only on the name and the inputs. It is
written in two halves, so that a reader of an incomplete file gets a different result.

Kinds: ``plain``; ``stubborn`` ignores SIGTERM; ``mule`` does too, with a child that keeps the lock, and never
ends at its first start; ``steps`` writes a restart file; ``lines`` writes names for a sweep; ``halve`` halves
the number in its input; ``below`` exits with 0 if the number is below 1, else with 1.
"""

# ruff: noqa: PTH104, PTH123

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import sys
import time

_STEPS = 4


def main(kind: str, name: str, output: str, seconds: str, *inputs: str) -> int:
    directory = os.environ["CHAOS_DIRECTORY"]
    whole = f"{name}#{os.environ['WEFT_ITERATION']}"
    log = os.open(f"{directory}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    lock = os.open(f"{directory}/{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)

    def say(what: str) -> None:
        reported = f"{what} {whole} {os.environ['WEFT_ATTEMPT']} {os.getpid()} {time.monotonic():.4f}\n"
        os.write(log, reported.encode())

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("overlap")
    if kind in ("stubborn", "mule"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("start")
    if kind == "mule" and is_first(f"{directory}/{name}.once"):
        os.fork()
        time.sleep(1000)
    code = work(kind, name, output, float(seconds), inputs)
    say("end")
    return code


def is_first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return False
    return True


def work(kind: str, name: str, output: str, seconds: float, inputs: tuple[str, ...]) -> int:
    texts = []
    for each in inputs:
        with open(each) as file:
            texts.append(file.read())
    if kind == "below":
        time.sleep(seconds)
        return 0 if float(texts[0]) < 1.0 else 1
    first = begun() if kind == "steps" else 0
    for step in range(first, _STEPS):
        time.sleep(seconds / _STEPS)
        if kind == "steps":
            keep(step + 1)
    write(output, made(kind, name, texts))
    return 0


def made(kind: str, name: str, texts: list[str]) -> str:
    if kind == "lines":
        return "one\ntwo\nthree\n"
    if kind in ("halve", "steps") and texts:
        return f"{float(texts[0]) / 2.0}\n"
    return hashlib.sha256("\n".join([name, *texts]).encode()).hexdigest() + "\n"


def begun() -> int:
    try:
        with open("restart") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def keep(step: int) -> None:
    with open("restart.new", "w") as file:
        file.write(str(step))
    os.rename("restart.new", "restart")


def write(output: str, text: str) -> None:
    half = len(text) // 2
    with open(output, "w") as file:
        file.write(text[:half])
        file.flush()
        time.sleep(0.02)
        file.write(text[half:])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
