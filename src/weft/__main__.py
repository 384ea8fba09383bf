"""``python -m weft`` is the command ``weft``."""

from __future__ import annotations

from weft.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
