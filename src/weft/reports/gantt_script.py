"""The script of the chart's page: draws what is visible, zooms, moves, finds, explains.

Its parts share one scope, so their order counts: the plan as rows, drawing, handling. A row whose bars are
too narrow to be told apart, and every band of machines, is drawn as a skyline: per pixel column, the share
of nodes that each kind of task takes.
"""

from __future__ import annotations

from weft.reports.gantt_script_drawing import DRAWING
from weft.reports.gantt_script_handling import HANDLING
from weft.reports.gantt_script_rows import ROWS

__all__ = ["SCRIPT"]

SCRIPT = f"""
"use strict";
(async () => {{
{ROWS}
{DRAWING}
{HANDLING}
}})();
"""
