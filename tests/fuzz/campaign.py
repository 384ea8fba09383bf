"""A fuzz campaign: draw cases for a target, hold the limits, keep inputs that execute new code.

A case that exceeds a limit while coverage is traced is judged again in a new process without tracing, and is a
finding only if it violates the contract there too.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import NamedTuple

from fuzz.block_coverage import SeenBlocks
from fuzz.mutation import Mutator
from fuzz.targets import Target, run_case

CORPUS = Path(__file__).parent / "corpus"
MOST_CPU_S = 5.0
"""Maximal processor time of a case."""
MOST_EXTRA_BYTES = 500_000_000
"""Maximal memory of a case."""
STUCK_S = 600.0
"""A case that takes so long without using so much processor time is blocked."""
MOST_CORPUS_BYTES = 2_000_000
_MOST_KEPT = 90_000
"""Maximal number of bytes of the corpus of one target."""


class CaseTimeout(BaseException):
    """A case took more processor time than allowed. Not an Exception: no reader may catch it."""


class Finding(NamedTuple):
    """A case that violates the contract of a reader."""

    target: str
    data: bytes
    kind: str
    """Type of the error and place in weft's code; the campaign keeps one finding of each kind."""
    text: str

    @classmethod
    def of(cls, target: str, data: bytes, error: BaseException) -> Finding:
        """Return the finding of a case that raised an error."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/weft/" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        # Cases that run into the time limit are cut at random places of the same loop.
        place = "time limit" if isinstance(error, CaseTimeout) else place
        text = "".join(traceback.format_exception(error)[-9:])
        return cls(target, data, f"{type(error).__name__} at {place}", text)


class Campaign:
    """The cases of one target; ``found`` holds one finding per kind of error."""

    def __init__(self, target: Target, rng: Random, seen: SeenBlocks | None = None) -> None:
        self.target = target
        self.corpus = list(dict.fromkeys((*target.seeds, *load_corpus(target.name))))
        self.kept: list[bytes] = []
        """Inputs of this campaign that executed new blocks."""
        self.found: dict[str, Finding] = {}
        self.cases = self.accepted = 0
        self.judged_again = 0
        """Number of cases that exceeded a limit while coverage was traced."""
        self.slowest_s = 0.0
        self._rng = rng
        self._mutator = Mutator(rng, self.corpus)
        self._seen = seen

    def replay(self) -> None:
        """Run every input of the corpus once."""
        for data in self.corpus:
            self._run(data)
        if self._seen is not None:
            self._seen.take_new()

    def run(self, *, cases: int | None = None, until_s: float | None = None) -> None:
        """Run a number of mutated cases, or until a time on the monotonic clock."""
        done = 0
        while (cases is None or done < cases) and (until_s is None or time.monotonic() < until_s):
            parent = self._rng.choice(self.kept if self.kept and self._rng.random() < 0.5 else self.corpus)
            data = self._mutator.mutate(parent, self.corpus)
            self._run(data)
            done += 1
            if self._seen is not None and self._seen.take_new() and len(data) <= _MOST_KEPT:
                self.kept.append(data)

    def _run(self, data: bytes) -> None:
        self.cases += 1
        began_s = time.process_time()
        finding: Finding | None = None
        try:
            with cpu_limit(MOST_CPU_S):
                self.accepted += run_case(self.target, data)
        except (CaseTimeout, MemoryError) as error:
            finding = Finding.of(self.target.name, data, error)
        except Exception as error:
            self._keep(Finding.of(self.target.name, data, error))
        self.slowest_s = max(self.slowest_s, time.process_time() - began_s)
        if finding is not None and self._seen is not None:
            self.judged_again += 1
            finding = judge_again(self.target.name, data)
        if finding is not None:
            self._keep(finding)

    def _keep(self, finding: Finding) -> None:
        known = self.found.get(finding.kind)
        if known is None or len(finding.data) < len(known.data):
            self.found[finding.kind] = finding

    def minimised(self, measure: Callable[[bytes], int], most_bytes: int) -> list[bytes]:
        """Return the kept inputs that execute blocks no smaller input executes, shortest first, within a size.

        ``measure`` runs an input and returns the number of blocks that no earlier call executed.
        """
        for data in self.target.seeds:
            measure(data)
        chosen: list[bytes] = []
        size = 0
        for data in sorted({*self.kept, *load_corpus(self.target.name)}, key=lambda each: (len(each), each)):
            if size + len(data) <= most_bytes and measure(data):
                chosen.append(data)
                size += len(data)
        return chosen


def judge(target: Target, data: bytes, cpu_s: float) -> Finding | None:
    """Run one case in this process, which has run no other; return a finding if it violates the contract."""
    for seed in target.seeds:
        run_case(target, seed)  # imports what the reader needs
    limit_memory()
    try:
        with cpu_limit(cpu_s):
            run_case(target, data)
    except (Exception, CaseTimeout) as error:
        return Finding.of(target.name, data, error)
    return None


def judge_again(target: str, data: bytes, cpu_s: float = MOST_CPU_S) -> Finding | None:
    """Run a case in a new process, without tracing; return a finding if it violates the contract there.

    Tracing makes a case take up to twice the time, and the memory of a long campaign is fragmented. The limits
    hold for a command that reads one file.
    """
    command = [sys.executable, "-m", "fuzz.long_form", "--judge", target, "--cpu-s", str(cpu_s)]
    try:
        done = subprocess.run(
            command, cwd=CORPUS.parents[1], input=data, capture_output=True, check=False, timeout=STUCK_S
        )
        verdict = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return Finding(target, data, "blocked in a new process", f"no result after {STUCK_S:g} s")
    except ValueError:
        return Finding(
            target, data, "no result of a new process", done.stderr.decode(errors="replace")[-3000:]
        )
    return None if verdict is None else Finding(target, data, **verdict)


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise CaseTimeout in the block after some seconds of processor time; other load does not count."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise CaseTimeout(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def limit_memory() -> None:
    """Let allocations fail with MemoryError that exceed the present size by MOST_EXTRA_BYTES."""
    status = Path("/proc/self/status").read_text()
    size = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmSize:"))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST_EXTRA_BYTES, hard))


def load_corpus(name: str, folder: Path = CORPUS) -> list[bytes]:
    """Return the stored inputs of a target."""
    file = folder / f"{name}.json"
    return [text.encode("latin-1") for text in json.loads(file.read_text())] if file.exists() else []


def save_corpus(name: str, inputs: list[bytes], folder: Path = CORPUS) -> None:
    """Store the inputs of a target, one per line."""
    lines = ",\n".join(json.dumps(data.decode("latin-1")) for data in inputs)
    (folder / f"{name}.json").write_text(f"[\n{lines}\n]\n")
