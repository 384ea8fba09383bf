"""System packages through apt-get, where there is one and we are root."""

import os
import shutil
import subprocess

__all__ = ["install", "possible"]


def possible() -> bool:
    """Say whether packages can be installed at all."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install(package: str) -> bool:
    """Install a package without questions; say whether it worked."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    if subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode == 0:
        return True
    # The package lists of a fresh image are often missing or old.
    subprocess.run(["apt-get", "update", "-qq"], env=quiet, stdout=subprocess.DEVNULL, check=False)
    return subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode == 0
