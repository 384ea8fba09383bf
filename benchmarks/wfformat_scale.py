"""Reading at scale: a WfFormat file down to its task graph, against ``json.load`` of the same file.

For each size a file of that many tasks (2 parents and 3 files each) is generated and read. Prints one JSON
line: the ratio of CPU seconds (median of 5, baseline and measurement alternating in one process), the
memory per task beyond the parsed JSON, and how the time per task grows from the smallest size to the largest.

    python benchmarks/wfformat_scale.py [--sizes 10000,100000,300000] [--repeat 5]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measurement import calibration_s

__all__ = ["compile_file", "main", "write_trace"]


def write_trace(path: Path, tasks: int) -> None:
    """Write a WfFormat 1.5 file: task i reads two files of earlier tasks and writes one of its own."""
    specified, executed, files = [], [], []
    for index in range(tasks):
        # Two deterministic parents, one near and one far.
        parents = sorted({max(0, index - 1 - index % 7), index // 2} - {index}) if index else []
        specified.append(
            {
                "name": f"program{index % 20}",
                "id": f"task{index:07d}",
                "parents": [f"task{parent:07d}" for parent in parents],
                "children": [],
                "inputFiles": [f"file{parent:07d}.dat" for parent in parents],
                "outputFiles": [f"file{index:07d}.dat"],
            }
        )
        executed.append(
            {
                "id": f"task{index:07d}",
                "runtimeInSeconds": 1.0 + index % 100 / 10,
                "command": {"program": f"program{index % 20}", "arguments": ["--index", str(index)]},
                "coreCount": 1,
                "avgCPU": 98.5,
                "memoryInBytes": 104857600,
                "machines": ["node1"],
            }
        )
        files.append({"id": f"file{index:07d}.dat", "sizeInBytes": 1000000 + index})
    children: list[list[str]] = [[] for _ in range(tasks)]
    for index, task in enumerate(specified):
        for parent in task["parents"]:
            children[int(parent[4:])].append(f"task{index:07d}")
    for task, below in zip(specified, children, strict=True):
        task["children"] = below
    trace = {
        "name": f"scale-{tasks}",
        "createdAt": "2026-01-01T00:00:00Z",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": specified, "files": files},
            "execution": {
                "makespanInSeconds": 1.0,
                "executedAt": "2026-01-01T00:00:00Z",
                "tasks": executed,
                "machines": [{"nodeName": "node1"}],
            },
        },
    }
    path.write_text(json.dumps(trace))


def compile_file(path: Path) -> int:
    """Read, check and unfold a file; return the number of tasks."""
    from weft.formats.files import read_workflow_file
    from weft.workflow.checks import check_and_unfold

    return len(check_and_unfold(read_workflow_file(path)))


def _cpu_s(function: object, *arguments: object) -> float:
    gc.collect()
    started = time.process_time()
    function(*arguments)  # type: ignore[operator]
    return time.process_time() - started


def _load_json(path: Path) -> None:
    with path.open() as file:
        json.load(file)


def measure(path: Path, tasks: int, repeat: int) -> dict[str, float]:
    """Measure one file in this process."""
    compile_file(path)  # fill caches
    baseline, compiled = [], []
    for _ in range(repeat):
        baseline.append(_cpu_s(_load_json, path))
        compiled.append(_cpu_s(compile_file, path))
    base, ours = statistics.median(baseline), statistics.median(compiled)
    return {
        "tasks": tasks,
        "json_load_s": round(base, 4),
        "compile_s": round(ours, 4),
        "ratio": round(ours / base, 2),
        "microseconds_per_task": round(1e6 * ours / tasks, 1),
        "kilobytes_per_task": round(_memory_per_task(path, tasks), 2),
    }


_PEAK = """
import json, sys
from pathlib import Path
sys.path.insert(0, {here!r})
import weft.formats.files, weft.formats.wfformat, weft.workflow.unfold
if {whole}:
    from wfformat_scale import compile_file
    compile_file(Path({path!r}))
else:
    data = Path({path!r}).read_bytes()
    parsed = json.loads(data)
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


def _memory_per_task(path: Path, tasks: int) -> float:
    """Return the peak resident KB per task beyond reading and parsing the JSON, each in a new process."""
    peaks = []
    for whole in (True, False):
        code = _PEAK.format(here=str(Path(__file__).parent), whole=whole, path=str(path))
        peaks.append(
            int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        )
    return (peaks[0] - peaks[1]) / tasks


def main() -> None:
    """Run and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000,300000")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for tasks in map(int, options.sizes.split(",")):
            path = Path(folder) / f"trace-{tasks}.json"
            write_trace(path, tasks)
            rows.append(measure(path, tasks, options.repeat))
            path.unlink()
    growth = rows[-1]["microseconds_per_task"] / rows[0]["microseconds_per_task"]
    print(
        json.dumps(
            {
                "benchmark": "wfformat_scale",
                "baseline": "json.load of the same file",
                "rows": rows,
                "growth_of_time_per_task": round(growth, 2),
                "calibration_s": round(calibration_s(), 4),
                "limits": {"ratio": 6, "kilobytes_per_task": 3},
            }
        )
    )


if __name__ == "__main__":
    main()
