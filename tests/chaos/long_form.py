"""The long form of the chaos tests: ``make chaos``, or ``python -m chaos.long_form`` in ``tests/``.

Rounds of disturbed runs follow each other until a number of faults was caused: engines, runners and programs
killed or stopped, power cuts, failing system calls, rollbacks, clocks set and reboots. Each run is judged as
in the short form. Prints progress, and a summary with the number of faults of each kind as one line of JSON; exits with 1
if there are findings, and keeps their directories.
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
from collections.abc import Callable
from pathlib import Path

from architecture.package import environment
from chaos.calls import fail_calls
from chaos.disk import MODELS
from chaos.disturbances import ALL, ENGINE_ONLY, disturb
from chaos.engines import Stable
from chaos.power import RecordedRun
from chaos.rollback import lose_tail, restore_copy
from chaos.scene import EVERYTHING, OUTSIDE, PLATFORM, Outcome, Scene, undisturbed
from chaos.shim import Control, library

_POINTS, _RESUMED = 1200, 6
"""Points of loss per recorded run that are judged, and those that are resumed by an engine."""
_DAY_NS = 86_400 * 10**9


class ChaosRounds:
    """Rounds of disturbed runs, with the faults and findings so far."""

    def __init__(self, folder: Path, seed: int, *, keep: bool = False) -> None:
        self.folder = folder
        self.faults: Counter[str] = Counter()
        self.runs = 0
        self.findings: list[dict[str, object]] = []
        self._seed, self._keep = seed, keep
        self.stable = Stable(environment(LD_PRELOAD=str(library())))
        self._small = undisturbed(folder / "small", self.stable, ["small"])
        self._all = undisturbed(folder / "all", self.stable, EVERYTHING)

    def every_write(self) -> None:
        """Kill the engine of a small workflow before and after each of its writes."""
        for place in ("commit", "committed"):
            for number in itertools.count(1):
                scene = self._scene(f"{place}-{number}", ["small"])
                died = scene.live(failpoint=f"{place}:{number}").wait(60.0) != 0
                self._judge(scene, lambda: self._finish(scene, self._small, once=True))  # noqa: B023
                if not died:
                    break
                self.faults["engine killed at a write"] += 1

    def round(self, number: int) -> None:
        """Cause faults of every kind once."""
        rnd = random.Random(f"{self._seed} {number}")
        steps = (
            self._kill,
            self._cut_power,
            self._fail_calls,
            self._roll_back,
            self._restore,
            self._set_clock,
        )
        for step in steps:
            name = f"{number}-{step.__name__.strip('_')}"
            step(name, rnd)

    def _kill(self, name: str, rnd: random.Random) -> None:
        for part, kinds in enumerate((ENGINE_ONLY, ALL)):
            scene = self._scene(f"{name}-{part}", EVERYTHING, policy=rnd.choice(("fcfs", "plan")))
            self.faults += _spelled(disturb(scene, rnd, kills=rnd.randint(8, 25), kinds=kinds))
            self._judge(scene, lambda: self._finish(scene, self._all, once=kinds == ENGINE_ONLY))  # noqa: B023

    def _cut_power(self, name: str, rnd: random.Random) -> None:
        scene = self._scene(name, EVERYTHING, policy=rnd.choice(("fcfs", "plan")))
        scene.environment["CHAOS_JITTER"] = "1"
        recorded = RecordedRun(scene)
        self._judge(scene, lambda: self._cut(recorded, rnd))
        for part in range(_RESUMED):
            cut, model = rnd.randint(1, recorded.disk.last), rnd.choice(MODELS)
            image = recorded.disk.image(cut, rnd.random(), model=model)
            self.faults["power cut, resumed"] += 1
            resumed = self._path(f"{name}-{part}")
            self._judge(
                Scene.adopt(resumed, self.stable, scene),
                lambda: recorded.resume(image, resumed, self.stable).audit(self._all),  # noqa: B023
            )

    def _cut(self, recorded: RecordedRun, rnd: random.Random) -> list[str]:
        found: list[str] = []
        for _ in range(_POINTS):
            cut, model, seed = rnd.randint(1, recorded.disk.last), rnd.choice(MODELS), rnd.random()
            image = recorded.disk.image(cut, seed, model=model)
            found += [f"{text} (cut {cut}, seed {seed}, {model})" for text in recorded.judge(image)]
        self.faults["power cut"] += _POINTS
        return found

    def _fail_calls(self, name: str, rnd: random.Random) -> None:
        for part in range(8):
            large = part == 0
            scene = self._scene(f"{name}-{part}", EVERYTHING if large else ["small"])
            self._judge(scene, lambda: self._fail(scene, rnd, self._all if large else self._small))  # noqa: B023

    def _fail(self, scene: Scene, rnd: random.Random, expected: Outcome) -> list[str]:
        failed = fail_calls(scene, rnd)
        self.faults.update({f"call failed with {name}": count for name, count in failed.items()})
        return scene.audit(expected)

    def _roll_back(self, name: str, rnd: random.Random) -> None:
        scene = self._scene(name, EVERYTHING, platform=rnd.choice((PLATFORM, OUTSIDE)))
        scene.environment["CHAOS_JITTER"] = "1"
        self.faults["tail of the journal lost"] += sum(
            [lose_tail(scene, rnd, whole=rnd.random() < 0.5) for _ in range(3)]
        )
        self._judge(scene, lambda: self._finish(scene, self._all))

    def _restore(self, name: str, rnd: random.Random) -> None:
        scene = self._scene(name, ["small"], platform=rnd.choice((PLATFORM, OUTSIDE)))
        recorded = RecordedRun(scene)
        self._judge(scene, lambda: self._restore_all(recorded))

    def _restore_all(self, recorded: RecordedRun) -> list[str]:
        found = recorded.scene.audit(self._small, once=True)
        for cut in recorded.commits():
            self.faults["copy restored"] += 1
            found += [f"{text} (copy at {cut})" for text in restore_copy(recorded, cut).audit(self._small)]
        return found

    def _set_clock(self, name: str, rnd: random.Random) -> None:
        scene = self._scene(name, EVERYTHING)
        control = Control(scene.notes.parent / "control")
        scene.environment.update(control.environment())
        for _ in range(5):
            control.set(clock_offset_ns=int(rnd.choice((-400.0, -0.01, 0.0, 0.1, 30.0)) * _DAY_NS))
            self.faults["clock set"] += 1
            self.faults += _spelled(disturb(scene, rnd, kills=1))
        self._judge(scene, lambda: self._finish(scene, self._all, once=True))
        control.close()

    # Judgement.

    def _path(self, name: str) -> Path:
        return self.folder / f"{self._seed}-{name}"

    def _scene(self, name: str, workflows: list[str] | tuple[str, ...], **more: str) -> Scene:
        return Scene(self._path(name), self.stable, workflows, **more)

    def _finish(self, scene: Scene, expected: Outcome, *, once: bool = False) -> list[str]:
        scene.finish()
        return scene.audit(expected, once=once)

    def _judge(self, scene: Scene, judgement: Callable[[], list[str]]) -> None:
        """Add the findings of a judgement; keep their directory."""
        folder = scene.notes.parent
        self.runs += 1
        try:
            found = judgement()
        except AssertionError as error:
            found = [str(error)]
        if found:
            scene.tidy()
            self.findings.append({"kept": str(folder), "found": found[:20]})
        elif not self._keep:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{folder.name}: {found[:5] or 'well'}", flush=True)


def _spelled(done: Counter[str]) -> Counter[str]:
    return Counter({"engine killed" if name == "engine" else name: count for name, count in done.items()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=10_000, help="so many faults are caused at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep every directory")
    requested = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="weft-chaos-"))
    began_s = time.monotonic()
    rounds = ChaosRounds(folder, requested.seed, keep=requested.keep)
    try:
        rounds.every_write()
        for number in itertools.count(1):
            if rounds.faults.total() >= requested.faults:
                break
            rounds.round(number)
            print(f"{rounds.faults.total()} faults", flush=True)
    finally:
        rounds.stable.close()
    if not rounds.findings and not requested.keep:
        shutil.rmtree(folder)
    summary = {
        "benchmark": "chaos", "seed": requested.seed, "faults": rounds.faults.total(), "by_kind": dict(rounds.faults),
        "runs": rounds.runs, "minutes": round((time.monotonic() - began_s) / 60.0, 1), "findings": rounds.findings,
    }  # fmt: skip
    print(json.dumps(summary))
    return 1 if rounds.findings else 0


if __name__ == "__main__":
    sys.exit(main())
