"""Install bubblewrap for the tests of isolation, where we may: ``python3 .ci/bubblewrap.py STAMP``.

Without it those tests are skipped, and with CI=true they fail.
"""

import shutil
import sys
from pathlib import Path

import apt


def main(stamp: Path) -> None:
    """Look for bubblewrap, else install it; the stamp says that this was done."""
    if shutil.which("bwrap") is None:
        if not apt.possible():
            sys.stderr.write("no bwrap: tests of isolation are skipped (sudo apt-get install bubblewrap)\n")
            return
        sys.stderr.write("installing bubblewrap ...\n")
        if not apt.install("bubblewrap"):
            sys.stderr.write("apt-get could not install bubblewrap: tests of isolation cannot run\n")
            return
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
