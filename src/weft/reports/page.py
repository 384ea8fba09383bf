"""Self-contained HTML pages, rendered from the Jinja2 templates of this package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from weft.units import format_count

if TYPE_CHECKING:
    from jinja2 import Environment
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
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.globals.update(format_count=format_count, source=_read_source)
    return found


def _read_source(name: str) -> Markup:
    """Return the text of a style sheet or script of this package, to be embedded unescaped."""
    from markupsafe import Markup

    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 -- a file of this package
