"""Install a C compiler for the chaos tests, where we may: ``python3 .ci/compiler.py STAMP``.

Without it the tests of power cuts and failing calls are skipped, and with CI=true they fail.
"""

import shutil
import sys
from pathlib import Path

import apt


def main(stamp: Path) -> None:
    """Look for a compiler, else install one; the stamp says that this was done."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        if not apt.possible():
            sys.stderr.write("no C compiler: tests of power cuts are skipped (sudo apt-get install gcc)\n")
            return
        sys.stderr.write("installing gcc ...\n")
        if not apt.install("gcc") or not apt.install("libc6-dev"):
            sys.stderr.write("apt-get could not install gcc: tests of power cuts cannot run\n")
            return
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
