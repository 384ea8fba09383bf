"""Imports of the platform."""

from __future__ import annotations

import subprocess
import sys


def test_platforms_are_read_without_numpy() -> None:
    modules = "weft.platform.file_format, weft.platform.short_forms"
    program = f"import sys, {modules}; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
