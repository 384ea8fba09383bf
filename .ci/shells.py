"""Install the shells with which commands are tested, where we may: ``python3 .ci/shells.py STAMP``.

Without them those tests are skipped, and with CI=true they fail.
"""

import shutil
import sys
from pathlib import Path

import apt

SHELLS = ("bash", "busybox", "dash")


def main(stamp: Path) -> None:
    """Look for the shells, else install them; the stamp says that this was done."""
    for shell in SHELLS:
        if shutil.which(shell) is not None:
            continue
        if not apt.possible():
            sys.stderr.write(f"no {shell}: tests of commands are skipped (sudo apt-get install {shell})\n")
            return
        sys.stderr.write(f"installing {shell} ...\n")
        if not apt.install(shell):
            sys.stderr.write(f"apt-get could not install {shell}: tests of commands cannot run\n")
            return
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
