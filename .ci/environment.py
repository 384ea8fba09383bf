"""Make ``.venv`` and install the pinned packages of the requirement files named, and weft itself, into it.

Called by the Makefile as ``python3 .ci/environment.py STAMP REQUIREMENTS``. The stamp is written at the end;
one that is newer than every file it rests on means that there is nothing to do. A lock keeps two runs apart.
"""

# An old Python must get as far as this message: use only syntax of Python 3.6 here.
import sys

if sys.version_info < (3, 11):
    sys.exit(
        "weft needs Python 3.11 or newer; this is %d.%d (%s).\n"
        "Install a newer one and name it: make PYTHON=python3.12 ..."
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )

import fcntl
import importlib.util
import subprocess
from pathlib import Path

import apt

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"


def main(stamp: Path, requirements: Path) -> None:
    """Bring the environment up to date, unless another run has just done so."""
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = [requirements, ROOT / "requirements.txt", ROOT / "pyproject.toml", Path(__file__)]
        if works() and is_newer(stamp, sources):
            return
        if not works():
            create()
        say(f"installing {requirements.name}")
        pip("install", "--requirement", str(requirements))
        # Without isolation, the pinned setuptools builds it and nothing else is fetched.
        pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
        stamp.touch()


def is_newer(stamp: Path, sources: list[Path]) -> bool:
    """Say whether the stamp was written after the last change of every source."""
    return stamp.exists() and all(stamp.stat().st_mtime >= source.stat().st_mtime for source in sources)


def works() -> bool:
    """Say whether there is an environment whose Python runs and is new enough."""
    if not PYTHON.exists():
        return False
    asked = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([PYTHON, "-c", asked], stderr=subprocess.DEVNULL, check=False).returncode == 0


def create() -> None:
    """Create an empty environment in place of a missing or a broken one."""
    if importlib.util.find_spec("ensurepip") is None:
        install_venv_package()
    say(f"creating .venv with Python {sys.version.split()[0]}")
    done = subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=False)
    if done.returncode:
        sys.exit(f"`{sys.executable} -m venv .venv` failed; its message is above.")


def install_venv_package() -> None:
    """Debian and Ubuntu split venv off Python: fetch it where we may, say what to do where we may not."""
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if not apt.possible():
        sys.exit(f"Python's venv is not installed. On Debian or Ubuntu: sudo apt-get install {package}")
    say(f"installing {package}")
    if not apt.install(package):
        sys.exit(f"apt-get could not install {package}; install it by hand and try again.")


def pip(*arguments: str) -> None:
    """Run the environment's pip: no questions, no colours, no progress bars."""
    options = ["--disable-pip-version-check", "--no-input", "--no-color", "--quiet", "--quiet"]
    done = subprocess.run([PYTHON, "-m", "pip", *options, *arguments], check=False)
    if done.returncode:
        sys.exit("pip failed; its message is above. Is there a network, or a package index it can reach?")


def say(text: str) -> None:
    """Print a message about a step that takes time."""
    sys.stderr.write(f"{text} ...\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
