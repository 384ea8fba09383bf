"""A journal with a plan, a loop and made-up products, written to a database step by step.

Run as a program (``python journal_writer.py FOLDER TRIAL...``) it writes one database per trial, each in a
forked child that dies as the trial states: ``commit:3`` and ``committed:3`` by the failpoint, ``kill:0.02``
by SIGKILL after this many seconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import cache
from pathlib import Path

from weft.backends.backend import Product
from weft.backends.file_record import FileRecord
from weft.backends.simulation.scenario import UNDISTURBED, Arrival
from weft.engine.state.compiled import WorkflowLibrary
from weft.formats.files import load_platform, load_workflow
from weft.instance.compilation import compile_instance
from weft.policies.policy import make_policy
from weft.repository import journal_store
from weft.repository.database import open_database
from weft.repository.journal import Journal, JournalHeader
from weft.repository.journal_store import JournalStore
from weft.repository.products import ProductTable
from weft.runtime.simulation import Simulation
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import DEFAULTS

__all__ = ["COMMIT_EVERY", "header", "journal", "product", "write"]

EXAMPLES = Path(__file__).parents[1] / "examples"
COMMIT_EVERY = 8
"""Number of entries that ``write`` writes in one commit."""


def header() -> JournalHeader:
    """Return the header of the journal of the loop example."""
    return journal().header


@cache
def journal() -> Journal:
    """Return the journal of a simulation of the loop example."""
    platform, entries = load_platform(EXAMPLES / "grid.yaml"), []
    flow = load_workflow(EXAMPLES / "wien2k.yaml")
    simulation = Simulation(
        library=WorkflowLibrary({"wien2k": compile_instance(check_and_unfold(flow), platform)}),
        arrivals=[Arrival(workflow="wien2k")],
        policy=make_policy("plan"),
        settings=DEFAULTS,
        scenario=UNDISTURBED,
        planner="heft",
    )
    engine = simulation.run(record=entries.append)
    stated = JournalHeader(
        policy="plan",
        settings=simulation.settings.base,
        seed=simulation.seed,
        planner="heft",
        platform=platform,
        workflows={"wien2k": flow},
        folders={"wien2k": "."},
        owner="ada",
        command=("weft", "run", "wien2k.yaml"),
        started_at_s=1.5e9,
    )
    return Journal(header=stated, plans=dict(engine.state.plans), entries=tuple(entries))


def product(number: int, **facets) -> Product:
    """Return a made-up product of two files."""
    files = tuple(
        FileRecord(name=f"out-{part}", size_bytes=part, digest=f"{number:02x}", modified_ns=10**18 + number)
        for part in range(2)
    )
    stated = {
        "execution": 1,
        "run": 0,
        "task": number,
        "name": f"t[{number}]",
        "kind": "t",
        "workflow": "wien2k",
        "attempt": number,
        "files": files,
        "fingerprint": f"f{number}",
        "parts": {"command": "c", "inputs": '{"a": "1"}'},
        "result": {"delta": 0.5, "n": number},
        "machine": "m0",
        "directory": f"/sandbox/{number}",
        "seconds": 1.25,
    }
    return Product(**stated | facets)


def write(folder: Path, *, watch=lambda store: None) -> None:
    """Write the journal, a product before each entry; ``watch`` is called after every commit."""
    read = journal()
    with open_database(folder / ".weft" / "weft.db", create=True) as database:
        store, products = JournalStore(database), ProductTable(database)
        store.begin(read.header)
        engine = read.engine()
        engine.state.plans.update(read.plans)
        for entry in read.entries:
            products.add(product(entry.sequence))
            engine.apply(entry.event, entry.now, entry.commands)
            store.append(entry, engine.state)
            if entry.sequence % COMMIT_EVERY == COMMIT_EVERY - 1:
                store.commit()
                watch(store)
        store.commit()
        watch(store)


def _dies(folder: Path, trial: str) -> None:
    """Write in a child process that is killed as the trial states; wait for its end."""
    how, _, when = trial.partition(":")
    if how != "kill":
        os.environ["WEFT_FAILPOINT"] = trial
    child = os.fork()
    if not child:
        write(folder / trial.replace(":", "-"))
        os._exit(0)
    if how == "kill":
        time.sleep(float(when))
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


if __name__ == "__main__":
    journal_store.SNAPSHOT_EVERY = 10
    journal()  # before the forks, so that they share it
    for each in sys.argv[2:]:
        _dies(Path(sys.argv[1]), each)
