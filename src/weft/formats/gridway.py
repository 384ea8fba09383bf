"""GridWay job templates (S3 section 6): read only.

A template is a workflow of one task. One that speaks of ``${TASK_ID}`` or ``${TOTAL_TASKS}``, or has the key
TOTAL_TASKS, is an array job: a sweep ``task_id: 0..total_tasks-1``. Its size is the parameter
``total_tasks``, so that ``-p total_tasks=50`` says what ``gwsubmit -n 50`` does.
"""

from __future__ import annotations

import re

from weft.documents import Document
from weft.errors import InvalidInput, Problem
from weft.formats.complaints import Complaints
from weft.formats.format import Source, damaged
from weft.formats.gridway_job import JobTemplate
from weft.formats.gridway_template import parse_template
from weft.formats.gridway_variables import COUNT
from weft.workflow.records.workflow import Workflow

__all__ = ["GridWay"]

_PROGRAM = re.compile(r"^[ \t]*EXECUTABLE[ \t]*=", re.MULTILINE)


class GridWay:
    """Job templates of GridWay."""

    name = "gridway"
    title = "GridWay job template"
    extensions: tuple[str, ...] = (".jt",)
    reads = True
    writes = False

    def recognises(self, source: Source) -> bool:
        """Say whether a file is plain text with a line ``EXECUTABLE = ...``."""
        head = source.head
        return not head.lstrip().startswith(("<", "{")) and _PROGRAM.search(head) is not None

    def read(self, source: Source) -> Workflow:
        """Read a workflow of one task. Raises InvalidInput."""
        if not source.data.strip():
            raise damaged(source, "the file is empty")
        complaints = Complaints(source)
        template = JobTemplate(parse_template(source.text(), complaints), complaints)
        name = entry.value if (entry := template.entries.get("NAME")) else source.stem
        task = template.task(name, as_parameter=True)
        complaints.finish()
        assert task is not None, "a template without a program is complained about"
        return Workflow(
            name=source.stem,
            tasks=(task,),
            params={COUNT: template.total_tasks} if template.is_array else {},
            document=Document(file=source.name),
        )

    def write(self, workflow: Workflow) -> str:
        """Refuse: a template holds one job, and nobody asks for new ones."""
        advice = "write weft or wfformat instead"
        raise InvalidInput(Problem(what=f"{workflow.name} cannot be written as {self.name}", advice=advice))
