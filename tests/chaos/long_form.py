"""The long form of the chaos tests: ``make chaos``, or ``python -m chaos.long_form`` in ``tests/``.

Runs are disturbed one after the other until a number of engines was killed; each is audited as in the short
form. Prints progress, and a summary as one line of JSON; exits with 1 if there are findings, and keeps their
directories.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from architecture.package import environment
from chaos.disturbances import ALL, ENGINE_ONLY, disturb
from chaos.engines import Stable
from chaos.scene import EVERYTHING, Scene, undisturbed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="so many engines are killed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep every directory")
    requested = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="weft-chaos-"))
    stable = Stable(environment())
    done: Counter[str] = Counter()
    findings: list[dict[str, object]] = []
    began_s = time.monotonic()
    try:
        every_write = _every_write(folder, stable, findings)
        expected = undisturbed(folder / "peace", stable, EVERYTHING)
        for number in itertools.count():
            if done["engine"] >= requested.kills:
                break
            seed = f"{requested.seed}-{number}"
            rnd = random.Random(seed)
            kinds = rnd.choice((ENGINE_ONLY, ALL))
            policy = rnd.choice(("fcfs", "plan"))
            scene = Scene(folder / seed, stable, EVERYTHING, policy=policy)
            happened = disturb(scene, rnd, kills=rnd.randint(3, 25), kinds=kinds)
            found = _judged(scene, lambda: scene.audit(expected, once=kinds == ENGINE_ONLY))  # noqa: B023
            done += happened
            done["runs"] += 1
            if found:
                findings.append({"seed": seed, "policy": policy, "kept": str(folder / seed), "found": found})
            elif not requested.keep:
                shutil.rmtree(folder / seed)
            print(f"{seed} {policy} {dict(happened)}: {found or 'well'}", flush=True)
    finally:
        stable.close()
    if not findings and not requested.keep:
        shutil.rmtree(folder)
    summary = {
        "benchmark": "chaos", "seed": requested.seed, "every_write": every_write, **done,
        "minutes": round((time.monotonic() - began_s) / 60.0, 1), "findings": findings,
    }  # fmt: skip
    print(json.dumps(summary))
    return 1 if findings else 0


def _every_write(folder: Path, stable: Stable, findings: list[dict[str, object]]) -> int:
    """Kill the engine of a small workflow before and after each of its writes; return their number."""
    expected = undisturbed(folder / "small", stable, ["small"])
    count = 0
    for place in ("commit", "committed"):
        for number in itertools.count(1):
            name = f"{place}-{number}"
            scene = Scene(folder / name, stable, ["small"])
            died = scene.live(failpoint=f"{place}:{number}").wait(60.0) != 0
            found = _judged(scene, lambda: scene.audit(expected, once=True))  # noqa: B023
            if found:
                findings.append({"failpoint": name, "kept": str(folder / name), "found": found})
            print(f"{name}: {found or 'well'}", flush=True)
            if not died:
                break
            count += 1
    return count


def _judged(scene: Scene, audit: object) -> list[str]:
    try:
        scene.finish()
        found: list[str] = audit()  # type: ignore[operator]
    except AssertionError as error:
        found = [str(error)]
    if found:
        scene.tidy()
    return found


if __name__ == "__main__":
    sys.exit(main())
