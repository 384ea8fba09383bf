"""Install a browser for the tests of our pages, where none is and we may: ``python3 .ci/browser.py STAMP``.

Without one those tests are skipped, and with CI=true they fail.
"""

import shutil
import sys
from pathlib import Path

import apt

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main(stamp: Path) -> None:
    """Look for a browser, else install one; the stamp says that this was done."""
    if not any(map(shutil.which, BROWSERS)):
        if not apt.possible():
            sys.stderr.write("no browser: tests of pages are skipped (sudo apt-get install chromium)\n")
            return
        sys.stderr.write("installing chromium ...\n")
        if not apt.install("chromium"):
            sys.stderr.write("apt-get could not install chromium: tests of pages cannot run\n")
            return
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
