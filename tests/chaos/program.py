"""The program of the chaos tests' tasks: it leaves evidence of its run, works for a time, and writes its output.

Called as ``program.py KIND NAME OUTPUT SECONDS INPUT...``. The directory CHAOS_DIRECTORY is outside the
project. It contains ``evidence``, to which every start and end is appended as one line of JSON (see
``evidence.py``), and a lock per task, which the kernel grants to one process at a time: the second of two
concurrent attempts records that it was not alone. The output depends only on the name and the inputs. It is
written in two halves, so that a reader of an incomplete file gets a different result.

Kinds: ``plain``; ``stubborn`` ignores SIGTERM; ``mule`` does too, with a child that keeps the lock, and never
ends at its first start; ``steps`` writes a restart file; ``lines`` writes names for a sweep; ``halve`` halves
the number in its input; ``below`` exits with 0 if the number is below 1, else with 1; ``quiet`` has no
output; ``gate`` has none either, and ends when the file ``open`` exists in CHAOS_DIRECTORY; ``silent`` writes nothing if its input is "silence". With CHAOS_JITTER set,
the time is multiplied by a random factor between 0 and 2, so that attempts end in a different order each time.
"""

# ruff: noqa: PTH104, PTH109, PTH110, PTH123

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import sys
import time

_STEPS = 4
FAILED = 74
"""Exit code: an input could not be read, or the output not be written."""
_BOOT = "/proc/sys/kernel/random/boot_id"


def main(kind: str, name: str, output: str, seconds: str, *inputs: str) -> int:
    directory = os.environ["CHAOS_DIRECTORY"]
    witness = Witness(directory)
    alone = takes_lock(f"{directory}/{name}.lock")
    try:
        contents = {each: read(each) for each in inputs}
    except OSError:
        contents = None
    witness.begin(alone, contents or {})
    if kind in ("stubborn", "mule"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "mule" and is_first(f"{directory}/{name}.once"):
        os.fork()
        time.sleep(1000)
    factor = 2.0 * os.urandom(1)[0] / 255.0 if "CHAOS_JITTER" in os.environ else 1.0
    code, made = FAILED, dict[str, str]()
    if contents is not None:
        texts = [text.decode() for text in contents.values()]
        try:
            code = work(kind, name, output, float(seconds) * factor, texts)
            made = {output: digest(read(output))} if code == 0 and writes(kind, texts) else {}
        except OSError:
            code = FAILED
    witness.end(code, made)
    return code


class Witness:
    """Appends what this process does to the evidence."""

    def __init__(self, directory: str) -> None:
        self._file = os.open(f"{directory}/evidence", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        execution, identity = os.getcwd().split("/")[-2:]
        self._who = {
            "task": os.environ["WEFT_TASK"],
            "iteration": int(os.environ["WEFT_ITERATION"]),
            "execution": execution,
            "identity": identity,
            "pid": os.getpid(),
            "group": os.getpgid(0),
            "boot": read(_BOOT).decode().strip(),
            "started_s": start_time_s(os.getpgid(0)),
        }

    def begin(self, alone: bool, contents: dict[str, bytes]) -> None:
        inputs = {name: digest(content) for name, content in contents.items()}
        self._say({"what": "begin", **self._who, "alone": alone, "inputs": inputs})

    def end(self, code: int, made: dict[str, str]) -> None:
        self._say({"what": "end", **self._who, "code": code, "outputs": made})

    def _say(self, record: dict[str, object]) -> None:
        os.write(self._file, (json.dumps({**record, "at": time.monotonic()}) + "\n").encode())


def start_time_s(pid: int) -> float:
    """Return the seconds since boot at which a process started; 0.0 if it has ended."""
    try:
        after_name = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return int(after_name[19]) / os.sysconf("SC_CLK_TCK")


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def digest(content: bytes) -> str:
    """Return the hash that the database has for a file of this content."""
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def takes_lock(path: str) -> bool:
    """Take the task's lock until this process and its children have ended; return whether it was free."""
    try:
        fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def writes(kind: str, texts: list[str]) -> bool:
    """Return whether a program that succeeds has an output."""
    return kind not in ("below", "quiet", "gate") and (kind != "silent" or texts != ["silence\n"])


def is_first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return False
    return True


def work(kind: str, name: str, output: str, seconds: float, texts: list[str]) -> int:
    if kind == "below":
        time.sleep(seconds)
        return 0 if float(texts[0]) < 1.0 else 1
    first = begun() if kind == "steps" else 0
    for step in range(first, _STEPS):
        time.sleep(seconds / _STEPS)
        if kind == "steps":
            keep(step + 1)
    while kind == "gate" and not os.path.exists(f"{os.environ['CHAOS_DIRECTORY']}/open"):
        time.sleep(0.01)
    if writes(kind, texts):
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
    # At once: the interpreter changes the exit code if it cannot flush a stream.
    os._exit(main(*sys.argv[1:]))
