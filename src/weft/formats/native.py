"""Our own files: workflows and platforms in YAML (or JSON, which is YAML too), version 1.

What reads and writes YAML is loaded when asked for: files of other formats are recognised without it.
"""

from __future__ import annotations

import re

from weft.documents import Document
from weft.errors import InvalidInput, Problem
from weft.formats.format import Source
from weft.formats.plain_names import plainly_named
from weft.platform.platform import Platform
from weft.workflow.records.workflow import Workflow

__all__ = ["WeftYaml", "describes_platform", "platform_from", "platform_text"]

_VERSION_KEY = re.compile(r"""(^|[{,])\s*["']?weft["']?\s*:""", re.MULTILINE)


class WeftYaml:
    """The format of the files users write (docs: the reference of the file format)."""

    name = "weft"
    title = "weft's own YAML or JSON, version 1"
    extensions = (".yaml", ".yml")
    reads = True
    writes = True

    def recognises(self, source: Source) -> bool:
        """Look for the version key ``weft:``."""
        return _VERSION_KEY.search(source.head) is not None

    def read(self, source: Source) -> Workflow:
        """Read a workflow; every problem of the file and of what it says is reported at once."""
        from weft.formats.yaml_document import parse_document
        from weft.workflow.checks import problems_of
        from weft.workflow.reading.workflow_reader import read_workflow

        document = parse_document(source.text(), source.name)
        if _is_platform(document):
            what = "this file describes machines, not tasks"
            advice = "give it as the platform: --on FILE"
            raise InvalidInput(Problem(what=what, advice=advice, place=document.place(())))
        workflow, reader = read_workflow(document, default_name=source.stem)
        if reader.problems:
            raise InvalidInput(problems_of(workflow, reader.problems))
        return workflow

    def write(self, workflow: Workflow) -> str:
        """Write a workflow; task names that a key cannot hold are replaced."""
        from weft.formats.yaml_writing import write_document
        from weft.workflow.writing import workflow_document

        return write_document(workflow_document(plainly_named(workflow)))


def _is_platform(document: Document) -> bool:
    root = document.root.value if document.root is not None else None
    return isinstance(root, dict) and "machines" in root and "tasks" not in root


def describes_platform(source: Source) -> bool:
    """Say whether a file is one of ours and describes machines."""
    from weft.formats.yaml_document import parse_document

    if not WeftYaml().recognises(source):
        return False
    return _is_platform(parse_document(source.text(), source.name))


def platform_from(source: Source) -> Platform:
    """Read a platform file."""
    from weft.formats.yaml_document import parse_document
    from weft.platform.reading import read_platform

    document = parse_document(source.text(), source.name)
    root = document.root.value if document.root is not None else None
    if isinstance(root, dict) and "tasks" in root and "machines" not in root:
        what = "this file describes tasks, not machines"
        raise InvalidInput(
            Problem(what=what, advice="give a platform file after --on", place=document.place(()))
        )
    assert document.root is not None, "parse_document gives a root or raises"
    return read_platform(document.root, document)


def platform_text(platform: Platform) -> str:
    """Write a platform file."""
    from weft.formats.yaml_writing import write_document
    from weft.platform.writing import platform_document

    return write_document(platform_document(platform))
