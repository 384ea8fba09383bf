"""Fuzz every reader: ``python -m fuzz.long_form --minutes 10``, from the folder ``tests``.

Prints the number of cases by reader as JSON; exit code 1 if a case violated the contract of its reader.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import random
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.block_coverage import SeenBlocks, instrument_weft

if TYPE_CHECKING:
    from fuzz.campaign import Campaign

_TURN_S = 4.0


def main() -> int:
    """Run the campaigns and print their counts."""
    given = _parse()
    guided = given.minutes is not None or given.total is not None
    if guided:
        instrument_weft()
    from fuzz.campaign import STUCK_S, Campaign, limit_memory
    from fuzz.targets import all_targets

    warnings.simplefilter("error")  # a warning of NumPy is printed among the messages of a command
    if given.judge:
        return _judge(given.judge, given.cpu_s)
    rng = random.Random(given.seed)
    seen = SeenBlocks() if guided else None
    targets = [target for target in all_targets() if not given.only or target.name in given.only]
    campaigns = [Campaign(target, random.Random(rng.random()), seen) for target in targets]
    for campaign in campaigns:
        campaign.replay()
    limit_memory()
    end_s = time.monotonic() + 60.0 * given.minutes if given.minutes is not None else math.inf
    if not guided:
        for campaign in campaigns:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            campaign.run(cases=given.cases)
    while guided and time.monotonic() < end_s and _count(campaigns) < (given.total or math.inf):
        for campaign in campaigns:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            campaign.run(until_s=min(end_s, time.monotonic() + _TURN_S))
        if given.progress:
            Path(given.progress).write_text(json.dumps(_summary(campaigns), indent=1))
    faulthandler.cancel_dump_traceback_later()
    if given.grow:
        _grow(campaigns)
    summary = _summary(campaigns)
    sys.stdout.write(json.dumps(summary, indent=1) + "\n")
    return 1 if summary["findings"] else 0


def _parse() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, help="duration, guided by coverage")
    parser.add_argument("--total", type=int, help="cases of all readers, guided by coverage")
    parser.add_argument(
        "--cases", type=int, default=100, help="cases per reader, without coverage (default: 100)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="names of readers (default: all)")
    parser.add_argument("--grow", action="store_true", help="add inputs that execute new code to the corpus")
    parser.add_argument("--progress", help="file for the counts so far")
    parser.add_argument(
        "--judge", help="read one case for this reader from standard input, print its finding"
    )
    parser.add_argument("--cpu-s", type=float, help="maximal processor time of the case of --judge")
    return parser.parse_args()


def _judge(name: str, cpu_s: float) -> int:
    """Print the finding of one case as JSON, null if there is none."""
    from fuzz.campaign import judge
    from fuzz.targets import all_targets

    target = next(each for each in all_targets() if each.name == name)
    found = judge(target, sys.stdin.buffer.read(), cpu_s)
    sys.stdout.write(json.dumps(None if found is None else {"kind": found.kind, "text": found.text}))
    return 0


def _count(campaigns: list[Campaign]) -> int:
    return sum(campaign.cases for campaign in campaigns)


def _summary(campaigns: list[Campaign]) -> dict[str, Any]:
    cases = {campaign.target.name: campaign.cases for campaign in campaigns}
    findings = [
        {"reader": each.target, "error": each.kind, "input": repr(each.data[:20_000]), "traceback": each.text}
        for campaign in campaigns
        for each in campaign.found.values()
    ]
    return {
        "cases": _count(campaigns),
        "cases by reader": cases,
        "kept": sum(len(campaign.kept) for campaign in campaigns),
        "accepted": sum(campaign.accepted for campaign in campaigns),
        "judged again without tracing": sum(campaign.judged_again for campaign in campaigns),
        "slowest case (s)": round(max(campaign.slowest_s for campaign in campaigns), 3),
        "peak memory (MB)": _peak_bytes() // 1_000_000,
        "findings": findings,
    }


def _peak_bytes() -> int:
    """Return the peak memory of this process; ``ru_maxrss`` also counts the process that started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _grow(campaigns: list[Campaign]) -> None:
    """Store the smallest set of inputs that executes all known blocks, within the size of the corpus."""
    from fuzz.block_coverage import hits
    from fuzz.campaign import MOST_CORPUS_BYTES, save_corpus
    from fuzz.targets import run_case

    share = MOST_CORPUS_BYTES // (2 * len(campaigns))
    for campaign in campaigns:
        blocks = SeenBlocks()
        blocks.take_new()

        def measure(data: bytes, campaign: Campaign = campaign, blocks: SeenBlocks = blocks) -> int:
            hits[:] = bytes(len(hits))
            try:
                run_case(campaign.target, data)
            except Exception:
                return 0
            return blocks.take_new()

        save_corpus(campaign.target.name, campaign.minimised(measure, share))


if __name__ == "__main__":
    sys.exit(main())
