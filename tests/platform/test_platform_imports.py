from __future__ import annotations

import subprocess
import sys

import weft.platform


def test_the_package_imports_without_numpy() -> None:
    program = "import sys, weft.platform; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_public_name_exists() -> None:
    assert sorted(weft.platform.__all__) == sorted(set(weft.platform.__all__))
    assert all(hasattr(weft.platform, name) for name in weft.platform.__all__)
