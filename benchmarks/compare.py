"""Compare the speed of two checkouts of weft, measured alternately in one sitting.

Every figure is measured by the benchmarks and the Python of each checkout (``CHECKOUT/.venv/bin/python``),
first of one, then of the other, in every round; files are on a disk. Prints one JSON line per figure: the
medians of both, and ``ratio``, the median over rounds of new over old; above 1 the new checkout is slower.
The exit code is 1 if a ratio exceeds its limit: 1.05, and 0.7 for the CPU time of a one-task ``weft run``.

    python benchmarks/compare.py OLD NEW [--rounds 9] [--only planning,run] [--where DIR]

- planning: CPU seconds of HEFT on 10,000 tasks and 256 machines, and of the whole command ``weft plan``;
- search: CPU seconds of the two genetic searches of ``search.py``;
- engine: CPU seconds per event while 10,000 tasks wait, and of the whole command ``weft simulate``;
- execution: seconds per task in fan-out and chain over those of plain threads in the same round, and wall and
  CPU seconds per task of the whole process; beside other busy processes only the CPU seconds are meaningful;
- run, help: CPU seconds of a one-task ``weft run`` and of ``weft --help``.

CPU seconds of whole commands count all their processes, also runners, which outlive the command.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measurement import calibration_s, disk_folder, file_system, run_command

__all__ = ["Checkout", "main"]

_LIMIT = 1.05
_LIMITS = {"run/cpu_s": 0.7}
"""Largest allowed ratio of new over old, where it differs from ``_LIMIT``."""
_TASKS = 200
"""Tasks per measurement of execution."""
_WORKFLOW = "weft: 1\nname: one\ntasks:\n  hello:\n    command: 'true'\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A checkout with its own virtual environment, and a folder for temporary files."""

    root: Path
    folder: Path

    def python(self, *arguments: str, cwd: Path | None = None) -> tuple[float, float, str]:
        """Run Python of the checkout; return wall seconds, CPU seconds and standard output."""
        python = self.root / ".venv" / "bin" / "python"
        # Without byte code a checkout that was never imported would be compiled in every round.
        hidden = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        return run_command([str(python), *arguments], cwd=cwd or self.folder, environment=environment)

    def benchmark(self, name: str, *arguments: str) -> list[dict[str, float]]:
        """Run a benchmark of the checkout; return the JSON lines it prints."""
        _, _, stdout = self.python(str(self.root / "benchmarks" / name), *arguments)
        return [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]


def _planning(checkout: Checkout) -> dict[str, float]:
    [measured] = checkout.benchmark("planning.py", "--measure", "10000", "256", "0", "--repeat", "3")
    options = ["--on", "random:16", "--planner", "heft", "--no-chart"]
    _, command_s, _ = checkout.python("-m", "weft", "plan", str(_layers(checkout.folder)), *options)
    return {"heft_s": measured["seconds"], "command_cpu_s": command_s}


def _search(checkout: Checkout) -> dict[str, float]:
    return {
        f"{part}_s": checkout.benchmark("search.py", part, "--repeat", "5")[0]["run_s"]
        for part in ("s1", "s2")
    }


def _engine(checkout: Checkout) -> dict[str, float]:
    benchmarks = str(checkout.root / "benchmarks")
    script = f"import sys; sys.path.insert(0, {benchmarks!r}); import engine; print(engine._event_s(10_000))"
    _, _, event_s = checkout.python("-c", script)
    options = ["--on", "identical:64", "--policy", "fcfs", "--no-chart"]
    _, command_s, _ = checkout.python("-m", "weft", "simulate", str(_layers(checkout.folder)), *options)
    return {"event_us": 1e6 * float(event_s), "command_cpu_s": command_s}


def _execution(checkout: Checkout) -> dict[str, float]:
    found = {}
    for shape in ("fan_out", "chain"):
        rate = {}
        for contender in ("weft", "threads"):
            with tempfile.TemporaryDirectory(dir=checkout.folder) as folder:
                options = [
                    "--measure",
                    contender,
                    "--shape",
                    shape,
                    "--tasks",
                    str(_TASKS),
                    "--where",
                    folder,
                ]
                script = str(checkout.root / "benchmarks" / "execution.py")
                wall_s, cpu_s, stdout = checkout.python(script, *options)
            rate[contender] = json.loads(stdout.splitlines()[-1])["per_s"]
            if contender == "weft":
                found[f"{shape}_whole_s_per_task"] = wall_s / _TASKS
                found[f"{shape}_cpu_s_per_task"] = cpu_s / _TASKS
        found[f"{shape}_over_threads"] = rate["threads"] / rate["weft"]
    return found


def _run(checkout: Checkout) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=checkout.folder) as folder:
        (Path(folder) / "one.yaml").write_text(_WORKFLOW, encoding="utf-8")
        wall_s, cpu_s, _ = checkout.python("-m", "weft", "run", "one.yaml", cwd=Path(folder))
    return {"cpu_s": cpu_s, "wall_s": wall_s}


def _help(checkout: Checkout) -> dict[str, float]:
    wall_s, cpu_s, _ = checkout.python("-m", "weft", "--help")
    return {"cpu_s": cpu_s, "wall_s": wall_s}


def _layers(folder: Path) -> Path:
    """Write a workflow of 30 layers of 30 tasks, unless it is there, and return its file."""
    file = folder / "layers.json"
    if not file.exists():
        tasks = {
            f"l{layer}": {"sweep": {"k": "1..30"}, "work": f"1 + (k * {7 + layer}) % 13"}
            | ({"after": [f"l{layer - 1}[k]"]} if layer else {})
            for layer in range(30)
        }
        file.write_text(json.dumps({"weft": 1, "name": "layers", "tasks": tasks}), encoding="utf-8")
    return file


_PARTS: dict[str, Callable[[Checkout], dict[str, float]]] = {
    "planning": _planning,
    "search": _search,
    "engine": _engine,
    "execution": _execution,
    "run": _run,
    "help": _help,
}


def _compare(part: str, old: Checkout, new: Checkout, rounds: int) -> bool:
    """Measure a part of both checkouts alternately and print it; return whether it is within limits."""
    found: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(rounds + 1):
        # The first checkout of a round alternates, so that drift affects both equally.
        pair = {each: _PARTS[part](each) for each in ((old, new) if number % 2 else (new, old))}
        if number:  # round 0 fills caches of files and machine code
            found.append((pair[old], pair[new]))
    within = True
    for figure in found[0][0]:
        ratio = statistics.median(after[figure] / before[figure] for before, after in found)
        # Wall time of a short command depends on the load of the machine: printed, not judged.
        limit = float("inf") if figure == "wall_s" else _LIMITS.get(f"{part}/{figure}", _LIMIT)
        line = {
            "figure": f"{part}/{figure}",
            "old": round(statistics.median(before[figure] for before, _ in found), 6),
            "new": round(statistics.median(after[figure] for _, after in found), 6),
            "ratio": round(ratio, 3),
            "limit": None if figure == "wall_s" else limit,
            "within": ratio <= limit,
        }
        within = within and ratio <= limit
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return within


def main(arguments: list[str] | None = None) -> int:
    """Compare two checkouts; return 1 if a figure is outside its limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, help="checkout to compare with")
    parser.add_argument("new", type=Path, help="checkout to judge")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default=",".join(_PARTS), help="parts, separated by commas")
    parser.add_argument("--where", type=Path, help="folder on a disk for temporary files")
    given = parser.parse_args(arguments)
    parts = given.only.split(",")
    if unknown := sorted(set(parts) - set(_PARTS)):
        parser.error(f"unknown part {unknown[0]!r}; use one of {', '.join(_PARTS)}")
    where = disk_folder(given.where)
    with tempfile.TemporaryDirectory(prefix="weft-compare-", dir=where) as folder:
        old, new = (
            Checkout(root=root.resolve(), folder=Path(folder) / name)
            for name, root in (("old", given.old), ("new", given.new))
        )
        for each in (old, new):
            each.folder.mkdir()
        about = {"calibration_s": round(calibration_s(), 4), "file_system": file_system(where)}
        sys.stdout.write(json.dumps({"figure": "about", "rounds": given.rounds, **about}) + "\n")
        outcomes = [_compare(part, old, new, given.rounds) for part in parts]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
