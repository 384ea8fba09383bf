"""Run the command line: ``python -m weft`` is the same as ``weft``."""

from __future__ import annotations

from weft.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
