"""Reader of DAGMan files, whose jobs are described by GridWay job templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.documents import Document
from weft.errors import InvalidInput, shorten, suggest
from weft.formats.files import open_source
from weft.formats.format import ProblemCollector, ReadOnlyFormat, SourceFile, file_error
from weft.formats.graph import check_acyclic, escape_braces
from weft.formats.gridway import JobTemplate
from weft.formats.gridway_template import parse_template
from weft.workflow.task import Dependency, Input, JobSpec, Task, TaskKind
from weft.workflow.workflow import Workflow

_JOB = re.compile(r"^[ \t]*JOB[ \t]+\S+[ \t]+\S+", re.MULTILINE | re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,9}")
_IGNORED = ("CONFIG", "DOT", "NODE_STATUS_FILE", "JOBSTATE_LOG")
"""Statements that only configure DAGMan itself; they are ignored."""
_REFUSED = {
    "SUBDAG": "nested graphs are not supported",
    "SPLICE": "nested graphs are not supported",
    "INCLUDE": "other files are not included",
    "FINAL": "a job that runs after every outcome has no equivalent",
    "SERVICE": "a job that runs beside all others has no equivalent",
    "PROVISIONER": "a job that prepares all others has no equivalent",
    "ABORT-DAG-ON": "exit codes that end the whole workflow are not supported",
    "VARS": "GridWay templates have no variables of this kind",
    "MAXJOBS": "limits for categories of jobs are not supported",
    "CATEGORY": "limits for categories of jobs are not supported",
    "PRIORITY": "planners determine the order of tasks",
    "PRE_SKIP": "exit codes that skip a job are not supported",
}


class Dagman(ReadOnlyFormat):
    """Graphs of GridWay jobs.

    ``JOB A a.jt`` names a template; its path is relative to the folder of the file. ``PARENT A B CHILD C``
    makes edges; a file that one job writes and another reads is an edge, too. A job that is DONE or NOOP
    becomes a virtual task. ``SCRIPT PRE`` becomes the job's prolog, ``RETRY`` its number of retries. DAGMan
    runs scripts on the submitting host; weft stages the script and runs it as a prolog on the machine of the
    job. Statements about nested graphs, exit codes and limits are errors, because ignoring them would change
    what is run.
    """

    name = "dagman"
    title = "DAGMan graph of GridWay job templates"
    extensions: tuple[str, ...] = (".dag",)

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file is plain text with a line ``JOB NAME FILE``."""
        head = source.head
        return not head.lstrip().startswith(("<", "{")) and _JOB.search(head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a graph and its templates. Raises InvalidInput."""
        if not source.data.strip():
            raise file_error(source, "the file is empty")
        graph = _DagmanReader(source)
        graph.parse()
        graph.problems.finish()
        tasks = graph.tasks()
        graph.problems.finish()
        return Workflow(name=source.stem, tasks=tuple(tasks), document=Document(file=source.name))


@dataclass(slots=True, kw_only=True)
class _DagmanNode:
    """One job of the graph."""

    name: str
    file: str
    line: int
    idle: bool
    """Whether the job is marked DONE or NOOP."""
    parents: list[int] = field(default_factory=list)
    retries: int | None = None
    script: tuple[str, ...] = ()


class _DagmanReader:
    """Reads a file statement by statement."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.problems = ProblemCollector(source)
        self.nodes: list[_DagmanNode] = []
        self._index_of: dict[str, int] = {}
        self._statements: list[tuple[int, str, list[str]]] = []

    def parse(self) -> None:
        """Read all jobs, then the statements about jobs, because a statement may precede its job."""
        readers: Mapping[str, Callable[[list[str], int], None]] = {
            "PARENT": self._parent,
            "SCRIPT": self._script,
            "RETRY": self._retry,
        }
        for number, line in enumerate(self.source.text().split("\n"), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if (keyword := words[0].upper()) == "JOB":
                self._job(words[1:], number)
            elif keyword in readers:
                self._statements.append((number, keyword, words[1:]))
            elif keyword not in _IGNORED:
                self._refuse(keyword, number, ("JOB", *readers))
        for number, keyword, words in self._statements:
            readers[keyword](words, number)
        if not self.nodes:
            self.problems.add("no jobs", rule="a graph must have at least one line JOB NAME FILE")

    def tasks(self) -> list[Task]:
        """Return one task per job; a job whose template is invalid is left out and adds problems."""
        names = [node.name for node in self.nodes]
        check_acyclic(self.source, names, [node.parents for node in self.nodes])
        tasks = [self._task(node) for node in self.nodes]
        found = [task for task in tasks if task is not None]
        self._check_names(found)
        return found

    def _job(self, words: list[str], line: int) -> None:
        if len(words) < 2:
            self.problems.add("JOB without a name or a file", rule="must be JOB NAME FILE", line=line)
            return
        name, file, *rest = words
        marks = [word.upper() for word in rest]
        for mark in marks:
            if mark not in ("DONE", "NOOP"):
                rule = "the file of a job may be followed by DONE or NOOP"
                self.problems.add(f"{shorten(repr(mark), 40)} in JOB {name}", rule=rule, line=line)
        index = len(self.nodes)
        if self._index_of.setdefault(name.upper(), index) != index:
            self.problems.add(
                f"a second job {shorten(name, 40)}", rule="names of jobs must be unique", line=line
            )
            return
        self.nodes.append(_DagmanNode(name=name, file=file, line=line, idle=bool(marks)))

    def _refuse(self, keyword: str, line: int, known: Sequence[str]) -> None:
        if keyword in _REFUSED:
            self.problems.add(f"a statement {keyword}", rule=_REFUSED[keyword], line=line)
            return
        advice = suggest(keyword, known, f"known: {', '.join(known)}")
        self.problems.add(f"unknown statement {shorten(repr(keyword), 40)}", advice=advice, line=line)

    def _parent(self, words: list[str], line: int) -> None:
        upper = [word.upper() for word in words]
        cut = upper.index("CHILD") if "CHILD" in upper else len(words)
        parents, children = words[:cut], words[cut + 1 :]
        if not parents or not children:
            rule = "must be PARENT NAME ... CHILD NAME ..."
            self.problems.add("PARENT without parents or children", rule=rule, line=line)
        above = [self._find(name, line) for name in parents]
        for child in (self._find(name, line) for name in children):
            if child is not None:
                child.parents += [self._index_of[node.name.upper()] for node in above if node is not None]

    def _script(self, words: list[str], line: int) -> None:
        kind = words[0].upper() if words else ""
        if kind != "PRE" or len(words) < 3:
            what = f"SCRIPT {shorten(' '.join(words), 40)}"
            rule = "must be SCRIPT PRE JOB PROGRAM: a POST script would decide whether the job succeeded"
            self.problems.add(what, rule=rule, advice="make it a job of its own", line=line)
        elif (node := self._find(words[1], line)) is not None:
            node.script = tuple(words[2:])

    def _retry(self, words: list[str], line: int) -> None:
        if len(words) != 2 or not _COUNT.fullmatch(words[1]):
            what = f"RETRY {shorten(' '.join(words), 40)}"
            self.problems.add(what, rule="must be RETRY JOB NUMBER", line=line)
        elif (node := self._find(words[0], line)) is not None:
            node.retries = int(words[1])

    def _find(self, name: str, line: int) -> _DagmanNode | None:
        if (index := self._index_of.get(name.upper())) is not None:
            return self.nodes[index]
        advice = suggest(name, [node.name for node in self.nodes], "name a JOB of this file")
        self.problems.add(f"no job {shorten(name, 40)!r}", advice=advice, line=line)
        return None

    def _task(self, node: _DagmanNode) -> Task | None:
        task = Task(name=node.name, kind=TaskKind.VIRTUAL) if node.idle else self._read_template(node)
        if task is None:
            return None
        after = tuple(Dependency(task=self.nodes[index].name) for index in dict.fromkeys(node.parents))
        if node.retries is not None and not node.idle:
            task = replace(task, recovery=replace(task.recovery, retries=node.retries))
        return replace(_add_prolog(task, node) if node.script and not node.idle else task, after=after)

    def _read_template(self, node: _DagmanNode) -> Task | None:
        """Return the task that a job's template describes; None if the template is invalid.

        A problem has the file and line of the template if they are known, else the line of the job.
        """
        try:
            source = open_source(Path(self.source.name).parent / node.file)
            problems = ProblemCollector(source)
            template = JobTemplate(parse_template(source.text(), problems), problems)
            task = template.task(node.name, as_parameter=False)
            problems.finish()
        except InvalidInput as error:
            for problem in error.problems:
                if problem.location is not None:
                    self.problems.found.append(problem)
                else:
                    what = f"{problem.what}, the template of job {shorten(node.name, 40)}"
                    self.problems.add(what, rule=problem.rule, advice=problem.advice, line=node.line)
            return None
        return task

    def _check_names(self, tasks: Sequence[Task]) -> None:
        """Add a problem if a job reads an output of another job under a different file name."""
        writers = {output.file: task for task in tasks for output in task.outputs}
        for task in tasks:
            for given in task.inputs:
                if (writer := writers.get(given.source or "", task)) is not task:
                    read = f"{given.source!r} of {writer.name} under the name {given.file!r}"
                    rule = "a file of another job must keep its name"
                    advice = "remove the second name in INPUT_FILES"
                    line = self.nodes[self._index_of[task.name.upper()]].line
                    self.problems.add(f"{task.name} reads {read}", rule=rule, advice=advice, line=line)


def _add_prolog(task: Task, node: _DagmanNode) -> Task:
    """Return the task with the PRE script of its job inserted before the task's own prolog.

    The script is staged as an input unless its path is absolute.
    """
    program, *arguments = (escape_braces(word) for word in node.script)
    staged = not program.startswith("/")
    called = f"./{program}" if staged and "/" not in program else program
    own = task.job.prolog if task.job is not None else None
    prolog = " ".join([called, *arguments]) + (f" && {own}" if own else "")
    known = {given.file for given in task.inputs}
    more = (Input(file=program),) if staged and program not in known else ()
    return replace(task, job=replace(task.job or JobSpec(), prolog=prolog), inputs=(*task.inputs, *more))
