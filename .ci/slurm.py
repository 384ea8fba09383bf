"""Install Slurm for the tests of its backend, where we may: ``python3 .ci/slurm.py STAMP``.

Without it those tests are skipped, and with CI=true they fail. The tests start clusters of their own.
"""

import os
import shutil
import sys
from pathlib import Path

import apt

PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "munged": "munge"}


def main(stamp: Path) -> None:
    """Look for the programs, else install their packages; the stamp says that this was done."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    for program, package in PACKAGES.items():
        if shutil.which(program, path=path) is not None:
            continue
        if not apt.possible():
            advice = f"sudo apt-get install {' '.join(PACKAGES.values())}"
            sys.stderr.write(f"no {program}: tests of Slurm are skipped ({advice})\n")
            return
        sys.stderr.write(f"installing {package} ...\n")
        if not apt.install(package):
            sys.stderr.write(f"apt-get could not install {package}: tests of Slurm cannot run\n")
            return
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
