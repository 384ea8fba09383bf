"""WfFormat, the JSON of the WfCommons execution traces: reads 1.1 to 1.5, writes 1.5.

A task's id becomes its name, its measured runtime its work on a machine of speed 1 (a task without one has no
known work), its parents and files the edges by the rules of ``trace``. Cores and memory were measured, not
asked for: they are kept as attributes and demand nothing.
"""

from __future__ import annotations

import re

from weft.formats.format import Source
from weft.workflow.records.workflow import Workflow

__all__ = ["WfFormat"]

_MARK = re.compile(r'"schemaVersion"\s*:|"workflow"\s*:\s*\{')
_OURS = re.compile(r'"weft"\s*:')  # the version key of our own files, which may be JSON too


class WfFormat:
    """Execution traces of WfCommons."""

    name = "wfformat"
    title = "WfCommons execution trace (WfFormat JSON)"
    extensions: tuple[str, ...] = (".json",)
    reads = True
    writes = True

    def recognises(self, source: Source) -> bool:
        """Say whether a file is a JSON object that names the schema or holds a ``workflow`` object."""
        head = source.head
        if not head.lstrip().startswith("{") or _OURS.search(head[:2000]):
            return False
        return _MARK.search(head) is not None

    def read(self, source: Source) -> Workflow:
        """Read a trace. Raises InvalidInput."""
        from weft.formats.collection import collection_paused
        from weft.formats.complaints import Complaints
        from weft.formats.json_values import load_json
        from weft.formats.wfformat_reader import read_trace

        with collection_paused():
            document = load_json(source)
            trace = read_trace(document, Complaints(source))
            name, description = document.get("name"), document.get("description")
            return trace.workflow(
                source,
                name=name if isinstance(name, str) and name else None,
                description=description if isinstance(description, str) and description else None,
            )

    def write(self, workflow: Workflow) -> str:
        """Write the unfolded workflow. Raises InvalidInput for what the format cannot say."""
        from weft.formats.wfformat_writer import write_wfformat

        return write_wfformat(workflow)
