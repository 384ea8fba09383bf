"""The same runs in two processes that hash strings differently give the same journals, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

import engine_strategies
from weft.errors import WeftError

TESTS = Path(engine_strategies.__file__).parent
EXAMPLES = 12


def print_journals():
    """Print a digest of the journal of every drawn simulation, in order."""
    digests = []

    # Outside pytest, so without the profile of conftest.py.
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(engine_strategies.simulations())
    def simulate(simulation):
        summary = hashlib.sha256()

        def record(entry):
            summary.update(json.dumps(entry.as_record()).encode())
            if entry.sequence > 1000:
                raise WeftError("enough")

        try:
            simulation.run(record=record)
        except WeftError as error:
            summary.update(str(error).encode())
        digests.append(summary.hexdigest())

    simulate()
    sys.stdout.write("\n".join(digests))


def journals(hash_seed):
    """Return the digests that ``print_journals`` prints in a process with this hash seed."""
    code = "import test_engine_determinism as it; it.print_journals()"
    paths = os.pathsep.join((str(TESTS), str(TESTS / "properties")))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_journals_do_not_depend_on_the_hash_seed():
    first = journals("0")
    assert len(set(first)) >= EXAMPLES // 2
    assert journals("4242") == first
