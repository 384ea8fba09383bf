"""weft's own workflow and platform files: YAML, or JSON as a subset of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from weft.documents import Document
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.platform.platform import Platform
from weft.workflow.task import Task
from weft.workflow.workflow import Workflow

_UNWRITABLE = re.compile(r"[\[\]{},\n]")


def replace_unwritable_names(workflow: Workflow) -> Workflow:
    """Return the workflow with new names for the tasks whose names cannot be keys of a file.

    ``lapw1[3]`` becomes ``lapw1_3_``; if this name is in use, a number is appended. Dependencies and loops
    refer to the new names.
    """
    taken = {task.name for task in workflow.tasks} | {loop.name for loop in workflow.loops}
    names: dict[str, str] = {}
    for task in workflow.tasks:
        if _UNWRITABLE.search(task.name) or not task.name:
            names[task.name] = _unused_name(_UNWRITABLE.sub("_", task.name) or "task", taken)
            taken.add(names[task.name])
    if not names:
        return workflow
    loops = tuple(
        replace(loop, first=names.get(loop.first, loop.first), last=names.get(loop.last, loop.last))
        for loop in workflow.loops
    )
    return replace(workflow, tasks=tuple(_rename_task(task, names) for task in workflow.tasks), loops=loops)


def _unused_name(name: str, taken: set[str]) -> str:
    number = 2
    found = name
    while found in taken:
        found = f"{name}_{number}"
        number += 1
    return found


def _rename_task(task: Task, names: dict[str, str]) -> Task:
    after = tuple(replace(d, task=names.get(d.task, d.task)) for d in task.after)
    return replace(task, name=names.get(task.name, task.name), after=after)


_VERSION_KEY = re.compile(r"""(^|[{,])\s*["']?weft["']?\s*:""", re.MULTILINE)


class WeftYaml:
    """The format of weft's own files; docs/reference/file-format.md describes it.

    The YAML parser is imported on use, so that files of other formats are recognised without it.
    """

    name = "weft"
    title = "weft's own YAML or JSON, version 1"
    extensions = (".yaml", ".yml")
    reads = True
    writes = True

    def recognises(self, source: SourceFile) -> bool:
        """Return whether the beginning of a file contains the version key ``weft:``."""
        return _VERSION_KEY.search(source.head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a file. Raises InvalidInput with every problem found."""
        from weft.formats.yaml_document import parse_document
        from weft.workflow.checks import find_problems
        from weft.workflow.file_format import read_workflow

        document = parse_document(source.text(), source.name)
        if _is_platform(document):
            what = "this file describes machines, not tasks"
            advice = "use it as the platform: --on FILE"
            raise InvalidInput(what, advice=advice, location=document.location(()))
        workflow, reader = read_workflow(document, default_name=source.stem)
        if reader.problems:
            raise InvalidInput(find_problems(workflow, reader.problems))
        if not workflow.predictions:
            return workflow
        from weft.formats.predictions import resolve_predictions

        return resolve_predictions(workflow, Path(source.name).parent)

    def write(self, workflow: Workflow) -> str:
        """Return a workflow as YAML; task names that cannot be keys are replaced."""
        from weft.formats.yaml_document import write_document
        from weft.workflow.file_format import workflow_document

        return write_document(workflow_document(replace_unwritable_names(workflow)))


def _is_platform(document: Document) -> bool:
    root = document.root.value if document.root is not None else None
    return isinstance(root, dict) and "machines" in root and "tasks" not in root


def describes_platform(source: SourceFile) -> bool:
    """Return whether a file is one of weft's own and describes machines."""
    from weft.formats.yaml_document import parse_document

    if not WeftYaml().recognises(source):
        return False
    return _is_platform(parse_document(source.text(), source.name))


def read_platform_file(source: SourceFile) -> Platform:
    """Return the platform of one of weft's own files. Raises InvalidInput."""
    from weft.formats.yaml_document import parse_document
    from weft.platform.file_format import read_platform

    document = parse_document(source.text(), source.name)
    root = document.root.value if document.root is not None else None
    if isinstance(root, dict) and "tasks" in root and "machines" not in root:
        what = "this file describes tasks, not machines"
        raise InvalidInput(what, advice="name a platform file after --on", location=document.location(()))
    assert document.root is not None, "parse_document returns a root or raises"
    platform = read_platform(document.root, document)
    if not platform.predictions:
        return platform
    from weft.formats.predictions import resolve_predictions

    return resolve_predictions(platform, Path(source.name).parent)


def write_platform(platform: Platform) -> str:
    """Return a platform as YAML."""
    from weft.formats.yaml_document import write_document
    from weft.platform.file_format import platform_document

    return write_document(platform_document(platform))
