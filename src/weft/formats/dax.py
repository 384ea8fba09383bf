"""DAX, the XML of Pegasus (2.1 to 3.x), read only."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from weft.errors import shorten
from weft.formats.format import ProblemCollector, ReadOnlyFormat, SourceFile
from weft.formats.graph import RecordedWorkflow, escape_braces
from weft.formats.xml_document import parse_xml
from weft.urls import local_path
from weft.workflow.task import JobSpec
from weft.workflow.workflow import Workflow

_ROOT = re.compile(r"<(?:\w+:)?adag[\s>/]")
_COUNT = re.compile(r"[0-9]{1,9}")


class Dax(ReadOnlyFormat):
    """Abstract workflows of Pegasus.

    A job's id becomes its name and ``runtime`` its work on a machine of speed 1. ``child``/``parent``
    elements and used files become edges by the rules of ``graph``. ``cores`` is the fixed node count of a
    task: one core of the file counts as one node. The command of a job is the program that its name states,
    or the path of the ``executable`` of that name, with its arguments, streams and environment (profiles of
    namespace ``env``). The ``pfn`` of a ``file`` is the location of an input. Sub-workflows (``dag`` and
    ``dax`` elements) are refused.
    """

    name = "dax"
    title = "Pegasus abstract workflow (DAX XML)"
    extensions: tuple[str, ...] = (".xml", ".dax")

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file is XML whose first element is ``adag``."""
        head = source.head
        return head.lstrip().startswith("<") and _ROOT.search(head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow of a file. Raises InvalidInput."""
        jobs = _DaxHandler(ProblemCollector(source))
        parse_xml(source, jobs)
        jobs.finish()
        return jobs.trace.workflow(source, name=jobs.title)


class _DaxHandler(ContentHandler):
    """SAX handler that fills a RecordedWorkflow."""

    def __init__(self, problems: ProblemCollector) -> None:
        super().__init__()
        self.problems = problems
        self.trace = RecordedWorkflow()
        self._locator: Locator | None = None
        self.title: str | None = None
        self._depth = 0
        self._index_of: dict[str, int] = {}
        self._edges: list[tuple[str, str, int]] = []
        self._inside_job = False
        self._reads: list[str] = []
        self._writes: list[str] = []
        self._child: str | None = None
        self._text: list[str] | None = None
        self._variable = ""
        """Name of the environment variable whose value is being read."""
        self._named: tuple[str, str] | None = None
        """(element, name) of the ``file`` or ``executable`` whose location is being read."""
        self._jobs: dict[str, JobSpec] = {}
        self._paths: dict[str, str] = {}
        """Paths of executables, by name."""

    def _line(self) -> int | None:
        return None if self._locator is None else self._locator.getLineNumber()

    def _add_problem(self, what: str, *, rule: str = "", advice: str = "") -> None:
        self.problems.add(what, rule=rule, advice=advice, line=self._line())

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802 -- named by xml.sax
        """Store the locator, which has the current line."""
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl[str]) -> None:  # noqa: N802 -- named by xml.sax
        """Process the start of an element."""
        self._start(name.rpartition(":")[2], dict(attrs.items()))

    def _start(self, element: str, attrs: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._start_root(element, attrs)
        elif element == "job" and not self._inside_job:
            self._start_job(attrs)
        elif element in ("dag", "dax") and not self._inside_job:
            advice = "read each workflow separately"
            self._add_problem(
                f"the file has a sub-workflow (element {element})",
                rule="sub-workflows are not supported",
                advice=advice,
            )
        elif element in ("file", "executable") and not self._inside_job:
            self._named = element, attrs.get("name", "")
        elif element == "pfn" and self._named is not None:
            self._locate(*self._named, attrs.get("url", ""))
        elif element == "child":
            self._child = self._required("child", attrs, "ref")
        elif element == "parent" and self._child is not None:
            parent = self._required("parent", attrs, "ref")
            self._edges.append((parent, self._child, self._line() or 0))
        elif self._inside_job:
            self._start_part(element, attrs)

    def endElement(self, name: str) -> None:  # noqa: N802 -- named by xml.sax
        """Process the end of an element."""
        element = name.rpartition(":")[2]
        self._depth -= 1
        if element == "job":
            self._inside_job = False
        elif element in ("file", "executable") and not self._inside_job:
            self._named = None
        elif element == "child":
            self._child = None
        elif element in ("argument", "profile") and self._text is not None:
            self._end_text(element, "".join(self._text))
            self._text = None

    def characters(self, content: str) -> None:
        """Store the text of elements whose text is used."""
        if self._text is not None:
            self._text.append(content)

    def finish(self) -> None:
        """Add the edges between the jobs; raise InvalidInput if problems were found."""
        if not self.trace.names and not self.problems.found:
            self.problems.add("the file has no jobs", rule="a workflow must have at least one job")
        self._replace_programs()
        known = self._index_of
        for parent, child, line in self._edges:
            if parent in known and child in known:
                self.trace.parents[known[child]].append(known[parent])
                continue
            name = child if parent in known else parent
            advice = self.problems.suggest(name, known, "name the id of a job in this file")
            self.problems.add(f"no job {shorten(name)!r}", advice=advice, line=line)
        self.problems.finish()

    def _start_root(self, element: str, attrs: Mapping[str, str]) -> None:
        if element != "adag":
            what = f"the first element is {shorten(element)!r}"
            self._add_problem(what, rule="a DAX file must have the root element adag")
            self.problems.finish()
        self.title = attrs.get("name") or None

    def _start_job(self, attrs: Mapping[str, str]) -> None:
        ident = self._required("job", attrs, "id")
        index = len(self.trace.names)
        if self._index_of.setdefault(ident, index) != index:
            self._add_problem(f"two jobs have the id {shorten(ident)!r}", rule="ids of jobs must be unique")
        self._inside_job = True
        self._reads, self._writes = [], []
        trace = self.trace
        trace.names.append(ident)
        trace.parents.append([])
        trace.reads.append(self._reads)
        trace.writes.append(self._writes)
        trace.work.append(self._number("runtime", attrs.get("runtime")))
        program = attrs.get("name")
        trace.jobs.append(self._job(program) if program else None)
        kept = {"program": program, "namespace": attrs.get("namespace")}
        trace.attributes.append({key: value for key, value in kept.items() if value})
        if (cores := attrs.get("cores")) is not None:
            if _COUNT.fullmatch(cores) and int(cores) >= 1:
                trace.nodes[index] = int(cores)
            else:
                self._add_problem(f"cores={shorten(cores)!r}", rule="must be a whole number, at least 1")

    def _start_part(self, element: str, attrs: Mapping[str, str]) -> None:
        """Process the start of an element inside a job: a used file, a stream, arguments or a profile."""
        if element == "uses":
            self._use(attrs)
        elif element in ("stdin", "stdout", "stderr"):
            if file := attrs.get("name") or attrs.get("file"):
                self._change_job(**{element: escape_braces(file)})
        elif element == "profile" and attrs.get("namespace") == "env":
            self._text, self._variable = [], attrs.get("key", "")
        elif element == "argument" or (element == "profile" and attrs.get("key") == "runtime"):
            self._text = []
        elif element in ("file", "filename") and self._text is not None:
            self._text.append(attrs.get("name") or attrs.get("file") or "")

    def _use(self, attrs: Mapping[str, str]) -> None:
        link = attrs.get("link", "none")
        if link not in ("input", "output", "inout", "none", "checkpoint"):
            self._add_problem(f"link={shorten(link)!r}", rule="must be input, output, inout or none")
        if link not in ("input", "output", "inout"):
            return  # programs and checkpoints, which other jobs do not read
        file = attrs.get("file") or attrs.get("name")
        if not file:
            self._add_problem("a used file has no name", rule="`uses` must have the attribute file or name")
            return
        if link != "output":
            self._reads.append(file)
        if link != "input":
            self._writes.append(file)
        size = self._number("size", attrs.get("size"))
        # The size stated by the writer of a file overrides sizes stated by its readers.
        if size is not None and (link == "output" or file not in self.trace.sizes):
            self.trace.sizes[file] = size

    def _end_text(self, element: str, text: str) -> None:
        trace, job = self.trace, self.trace.jobs[-1]
        if element == "argument" and job is not None:
            words = [escape_braces(word) for word in _split_arguments(text)]
            self._change_job(command=(*(job.command or ())[:1], *words))
        elif self._variable:
            self._change_job(env={**(job.env if job is not None else {}), self._variable: text.strip()})
            self._variable = ""
        elif trace.work[-1] is None:
            trace.work[-1] = self._number("runtime", text.strip())

    def _job(self, program: str) -> JobSpec:
        """Return the job that calls a program without arguments, cached because many jobs are equal."""
        if (job := self._jobs.get(program)) is None:
            job = self._jobs[program] = JobSpec(command=(escape_braces(program),))
        return job

    def _change_job(self, **keys: Any) -> None:
        """Change attributes of the current job; do nothing if the job has no program."""
        if (job := self.trace.jobs[-1]) is not None:
            self.trace.jobs[-1] = replace(job, **keys)

    def _locate(self, element: str, name: str, url: str) -> None:
        """Store the location of a file or executable, unless an earlier ``pfn`` already stated one."""
        if element == "file" and url:
            self.trace.sources.setdefault(name, url)
        elif (path := local_path(url)) is not None:
            self._paths.setdefault(name, path)

    def _replace_programs(self) -> None:
        """Replace a program's name in commands by the path of the executable with this name, if stated."""
        for index, job in enumerate(self.trace.jobs):
            path = self._paths.get(str(self.trace.attributes[index].get("program", "")))
            if job is not None and path is not None:
                command = (escape_braces(path), *(job.command or ())[1:])
                self.trace.jobs[index] = replace(job, command=command)

    def _required(self, element: str, attrs: Mapping[str, str], key: str) -> str:
        if not (value := attrs.get(key)):
            self._add_problem(
                f"a {element} has no attribute {key}", rule=f"every {element} must have the attribute {key}"
            )
        return value or ""

    def _number(self, key: str, text: str | None) -> float | None:
        if text is None:
            return None
        try:
            number = float(text) if len(text) < 400 and "_" not in text else math.nan
        except ValueError:
            number = math.nan
        if 0 <= number < math.inf:
            return number
        self._add_problem(f"{key}={shorten(text)!r}", rule="must be a number, at least 0")
        return None


def _split_arguments(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe that is not a quote
        return arguments.split()
