"""A comparison as one self-contained page: the standings and every result."""

from __future__ import annotations

from html import escape

from weft.reports.comparison import Comparison
from weft.reports.comparison_tables import Table, refusal_lines, result_table, standing_table, title_of

__all__ = ["comparison_html"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; }}
h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ border-bottom: 1px solid color-mix(in srgb, currentcolor 20%, transparent); padding: .2rem .8rem; }}
th {{ text-align: left; position: sticky; top: 0; background: Canvas; }}
.number {{ text-align: right; }}
</style>
</head>
<body>
<h1>{title}</h1>
<h2>Standings</h2>
{standings}
<p>Wins: workflows for which nobody had a shorter plan; all that tie win. Mean ratio: geometric mean of
makespan over best makespan. Time: of the planner alone, on an instance compiled beforehand.</p>
<h2>Results</h2>
{results}
<p>Gap: the plan is at most this much above the optimum. An asterisk marks the best makespan.</p>
{refusals}
</body>
</html>
"""


def comparison_html(comparison: Comparison) -> str:
    """Render the page."""
    lines = refusal_lines(comparison)
    listed = "".join(f"<li>{escape(line)}</li>\n" for line in lines)
    return _PAGE.format(
        title=escape(title_of(comparison)),
        standings=_table(standing_table(comparison)),
        results=_table(result_table(comparison)),
        refusals=f"<h2>Without a plan</h2>\n<ul>\n{listed}</ul>" if lines else "",
    )


def _table(table: Table) -> str:
    head = _row("th", table.heading, table.texts)
    body = "\n".join(_row("td", row, table.texts) for row in table.rows)
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _row(tag: str, cells: tuple[str, ...], texts: int) -> str:
    written = "".join(
        f"<{tag}>{escape(cell)}</{tag}>"
        if column < texts
        else f'<{tag} class="number">{escape(cell)}</{tag}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{written}</tr>"
