"""Install an ssh server for the tests of ssh hosts, where we may: ``python3 .ci/ssh_server.py STAMP``.

Without it those tests are skipped, and with CI=true they fail.
"""

import os
import shutil
import sys
from pathlib import Path

import apt

PACKAGES = {"sshd": "openssh-server", "ssh-keygen": "openssh-client", "ip": "iproute2"}
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def main(stamp: Path) -> None:
    """Look for the programs, else install them; the stamp says that this was done."""
    for program, package in PACKAGES.items():
        if shutil.which(program, path=PATH) is not None:
            continue
        if not apt.possible():
            sys.stderr.write(
                f"no {program}: tests of ssh hosts are skipped (sudo apt-get install {package})\n"
            )
            return
        sys.stderr.write(f"installing {package} ...\n")
        if not apt.install(package):
            sys.stderr.write(f"apt-get could not install {package}: tests of ssh hosts cannot run\n")
            return
    stamp.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
