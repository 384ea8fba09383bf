"""Compare the decisions of two checkouts: plans and simulated journals for the same seeds and steps.

    .venv/bin/python .ci/compare_decisions.py OLD [--data DIR]

OLD is a checkout with its own .venv. Both checkouts plan the examples, and a sample of the benchmark data,
with every planner, and simulate the examples with every policy and preset. Plans must be equal assignment by
assignment. Journals are compared entry by entry, event by event and command by command, after the older one
was read through the conversion of old journals; texts for people may differ. Prints the counts as JSON; the
exit code is 1 if something differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
TEXT_FIELDS = {"reason", "text", "problem", "story"}
"""Fields of messages that hold text for people."""

DECIDE = r'''
import json, sys, warnings
from pathlib import Path
import weft
from weft.planners import PLANNERS
from weft.policies import POLICIES

root, data, output = map(Path, sys.argv[1:4])
grid = str(root / "examples" / "grid.yaml")
names = ("hello", "wien2k", "docking", "pipeline", "moldable")
examples = [root / "examples" / f"{name}.yaml" for name in names]
sample = [(path, grid) for path in examples]
if data.is_dir():
    found = sorted(data.glob("dax/*_2[45].xml")) + sorted(data.glob("dax/*_30.xml"))
    found += sorted(data.glob("stg/sample/*.stg"))[:3] + sorted(data.glob("comm-delay-optimal/*.dot"))[:6]
    found += sorted(data.glob("wfcommons/v1.5/*.json"), key=lambda path: path.stat().st_size)[:3]
    sample += [(path, on) for path in found for on in ("identical:4", "random:6")]
plans = {}
for path, on in sample:
    for planner in PLANNERS:
        key = f"{path.name} {on.rsplit('/')[-1]} {planner}"
        try:
            planned = weft.plan(path, on=on, planner=planner, seed=1, plan_steps=300)
        except weft.WeftError as error:
            plans[key] = type(error).__name__
            continue
        rows = planned.as_record()["schedule"] if hasattr(planned, "as_record") else None
        plans[key] = [planned.makespan_s, rows if rows is not None else len(planned.graph)]
(output / "plans.json").write_text(json.dumps(plans))
scenario = output / "scenario.yaml"
scenario.write_text("""weft: 1
durations: {noise: 0.2}
perturbations: [{machines: "altix*", at: 20s, slowdown: 4, lasting: 60s}]
failures: [{machine: cloud, at: 40s, repair: 100s}]
""")
for path in examples:
    for policy in POLICIES:
        for preset in ("default", "s1", "s3"):
            for true_course in (None, scenario):
                name = f"{path.stem}-{policy}-{preset}-{'noise' if true_course else 'exact'}.jsonl"
                try:
                    weft.simulate(path, on=grid, policy=policy, preset=preset, scenario=true_course, seed=1,
                                  plan_steps=50, journal=output / name)
                except weft.WeftError as error:
                    (output / name).write_text(type(error).__name__)
'''
"""Run by the Python of each checkout; uses only names that every version has."""


def decide(checkout: Path, data: Path, output: Path) -> None:
    """Write the plans and journals of a checkout to a folder."""
    output.mkdir()
    python = checkout / ".venv" / "bin" / "python"
    subprocess.run(
        [python, "-W", "ignore", "-c", DECIDE, str(ROOT), str(data), str(output)], cwd=output, check=True
    )


def normalised(path: Path) -> list[Any]:
    """Read a journal into plain entries without texts; a refusal is its error's name."""
    from weft.engine.journal import encode_message
    from weft.repository.journal_store import read_journal_file

    text = path.read_text(encoding="utf-8")
    if not text.startswith("{"):
        return [text]
    entries = read_journal_file(path).entries
    return [
        (
            entry.sequence,
            entry.now,
            *(without_texts(encode_message(m)) for m in (entry.event, *entry.commands)),
        )
        for entry in entries
    ]


def without_texts(message: list[Any]) -> list[Any]:
    """Drop the fields of an encoded message that hold text for people."""
    name, fields = message
    return [name, {key: value for key, value in fields.items() if key not in TEXT_FIELDS}]


def main() -> int:
    """Compare the two checkouts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        decide(arguments.old.resolve(), arguments.data, old)
        decide(ROOT, arguments.data, new)
        before, after = (json.loads((side / "plans.json").read_text()) for side in (old, new))
        plans = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        names = sorted({path.name for side in (old, new) for path in side.glob("*.jsonl")})
        journals, entries, commands = [], 0, 0
        for name in names:
            first, second = normalised(old / name), normalised(new / name)
            entries += len(second)
            commands += sum(len(entry) - 3 for entry in second if isinstance(entry, tuple))
            if first != second:
                journals.append(name)
    result = {
        "plans": len(after),
        "plans_that_differ": plans,
        "journals": len(names),
        "entries": entries,
        "commands": commands,
        "journals_that_differ": journals,
    }
    print(json.dumps(result, indent=2))
    return bool(plans or journals)


if __name__ == "__main__":
    sys.exit(main())
