"""Self-contained HTML pages, rendered from the Jinja2 templates of this package."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from weft.units import format_count

if TYPE_CHECKING:
    from jinja2 import BytecodeCache, Environment
    from jinja2.bccache import Bucket
    from markupsafe import Markup


_TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: str, **values: object) -> str:
    """Return a template as an HTML page; values are escaped, styles and scripts are embedded."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    # Only commands that write a page load Jinja2.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        bytecode_cache=_bytecode_cache(_TEMPLATES / "__pycache__"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.globals.update(format_count=format_count, source=_read_source)
    return found


def _bytecode_cache(directory: Path) -> BytecodeCache:
    """Return a cache of compiled templates in ``directory``, which is used only if its files are accessible.

    Compiling the templates of a report takes a tenth of the processor time of a short run.
    """
    from pickle import UnpicklingError  # what Jinja2 raises for a damaged file

    from jinja2 import FileSystemBytecodeCache

    class OptionalCache(FileSystemBytecodeCache):
        """Cache that compiles a template again if its file cannot be read, and ignores failed writes."""

        def load_bytecode(self, bucket: Bucket) -> None:
            try:
                super().load_bytecode(bucket)
            except (OSError, EOFError, ValueError, UnpicklingError):
                bucket.reset()

        def dump_bytecode(self, bucket: Bucket) -> None:
            if sys.dont_write_bytecode:
                return
            with suppress(OSError):
                directory.mkdir(exist_ok=True)
                super().dump_bytecode(bucket)

    return OptionalCache(str(directory))


def _read_source(name: str) -> Markup:
    """Return the text of a style sheet or script of this package, to be embedded unescaped."""
    from markupsafe import Markup

    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 -- a file of this package
