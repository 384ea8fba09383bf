"""DAX, the XML of Pegasus (2.1 to 3.x): read only.

A job's id becomes its name, ``runtime`` its work on a machine of speed 1, ``child``/``parent`` and the
files it uses its edges by the rules of ``trace``. ``cores`` makes a rigid parallel task: a processor of
the file is a node of ours. Sub-workflows (``dag`` and ``dax`` elements) are refused.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from weft.errors import InvalidInput, Problem, nearest, shorten
from weft.formats.format import ProblemCollector, SourceFile
from weft.formats.graph import RecordedWorkflow, escape_braces
from weft.formats.xml_document import parse_xml
from weft.workflow.task import JobSpec
from weft.workflow.workflow import Workflow

__all__ = ["Dax"]

_ROOT = re.compile(r"<(?:\w+:)?adag[\s>/]")
_COUNT = re.compile(r"[0-9]{1,9}")
_HINTS = 3
"""Complaints that get a "did you mean": the search looks at thousands of names."""


class Dax:
    """Abstract workflows of Pegasus."""

    name = "dax"
    title = "Pegasus abstract workflow (DAX XML)"
    extensions: tuple[str, ...] = (".xml", ".dax")
    reads = True
    writes = False

    def recognises(self, source: SourceFile) -> bool:
        """Say whether a file is XML whose first element is ``adag``."""
        head = source.head
        return head.lstrip().startswith("<") and _ROOT.search(head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Read a workflow. Raises InvalidInput."""
        jobs = _DaxHandler(ProblemCollector(source))
        parse_xml(source, jobs)
        jobs.finish()
        return jobs.trace.workflow(source, name=jobs.title)

    def write(self, workflow: Workflow) -> str:
        """Refuse: nobody asks for new ones."""
        advice = "write wfformat or dot instead"
        raise InvalidInput(Problem(what=f"{workflow.name} cannot be written as {self.name}", advice=advice))


class _DaxHandler(ContentHandler):
    """Fills a trace from the elements as they pass by."""

    def __init__(self, complaints: ProblemCollector) -> None:
        super().__init__()
        self.complaints = complaints
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

    def _line(self) -> int | None:
        return None if self._locator is None else self._locator.getLineNumber()

    def _complain(self, what: str, *, rule: str = "", advice: str = "") -> None:
        self.complaints.add(what, rule=rule, advice=advice, line=self._line())

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802 -- named by xml.sax
        """Keep what knows the current line."""
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl[str]) -> None:  # noqa: N802 -- named by xml.sax
        """Take in one element; its attributes say nearly everything."""
        self._start(name.rpartition(":")[2], dict(attrs.items()))

    def _start(self, element: str, attrs: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._start_root(element, attrs)
        elif element == "job" and not self._inside_job:
            self._start_job(attrs)
        elif element in ("dag", "dax") and not self._inside_job:
            advice = "read each workflow of its own"
            self._complain(
                f"a sub-workflow (element {element})", rule="sub-workflows are not read", advice=advice
            )
        elif element == "child":
            self._child = self._required("child", attrs, "ref")
        elif element == "parent" and self._child is not None:
            parent = self._required("parent", attrs, "ref")
            self._edges.append((parent, self._child, self._line() or 0))
        elif self._inside_job:
            self._start_part(element, attrs)

    def endElement(self, name: str) -> None:  # noqa: N802 -- named by xml.sax
        """Leave an element."""
        element = name.rpartition(":")[2]
        self._depth -= 1
        if element == "job":
            self._inside_job = False
        elif element == "child":
            self._child = None
        elif element in ("argument", "profile") and self._text is not None:
            self._end_text(element, "".join(self._text))
            self._text = None

    def characters(self, content: str) -> None:
        """Keep the text of the elements that are read for it."""
        if self._text is not None:
            self._text.append(content)

    def finish(self) -> None:
        """Tie the edges, when all jobs are known, and raise what was found."""
        if not self.trace.names and not self.complaints.problems:
            self.complaints.add("no jobs", rule="a workflow has at least one job")
        known = self._index_of
        for parent, child, line in self._edges:
            if parent in known and child in known:
                self.trace.parents[known[child]].append(known[parent])
                continue
            name = child if parent in known else parent
            close = nearest(name, known) if len(self.complaints.problems) < _HINTS else None
            advice = f"did you mean {close!r}?" if close else "name the id of a job in this file"
            self.complaints.add(f"no job {shorten(name)!r}", advice=advice, line=line)
        self.complaints.finish()

    def _start_root(self, element: str, attrs: Mapping[str, str]) -> None:
        if element != "adag":
            what = f"the first element is {shorten(element)!r}"
            self._complain(what, rule="a DAX file holds one adag element")
            self.complaints.finish()
        self.title = attrs.get("name") or None

    def _start_job(self, attrs: Mapping[str, str]) -> None:
        ident = self._required("job", attrs, "id")
        index = len(self.trace.names)
        if self._index_of.setdefault(ident, index) != index:
            self._complain(f"job {shorten(ident)!r} again", rule="ids of jobs are unique")
        self._inside_job = True
        self._reads, self._writes = [], []
        trace = self.trace
        trace.names.append(ident)
        trace.parents.append([])
        trace.reads.append(self._reads)
        trace.writes.append(self._writes)
        trace.work.append(self._number("runtime", attrs.get("runtime")))
        trace.jobs.append(None)
        kept = {"program": attrs.get("name"), "namespace": attrs.get("namespace")}
        trace.attributes.append({key: value for key, value in kept.items() if value})
        if (cores := attrs.get("cores")) is not None:
            if _COUNT.fullmatch(cores) and int(cores) >= 1:
                trace.nodes[index] = int(cores)
            else:
                self._complain(f"cores={shorten(cores)!r}", rule="must be a whole number, at least 1")

    def _start_part(self, element: str, attrs: Mapping[str, str]) -> None:
        """Take in a part of a job: a file it uses, its arguments, a profile."""
        if element == "uses":
            self._use(attrs)
        elif element == "argument" or (element == "profile" and attrs.get("key") == "runtime"):
            self._text = []
        elif element in ("file", "filename") and self._text is not None:
            self._text.append(attrs.get("name") or attrs.get("file") or "")

    def _use(self, attrs: Mapping[str, str]) -> None:
        link = attrs.get("link", "none")
        if link not in ("input", "output", "inout", "none", "checkpoint"):
            self._complain(f"link={shorten(link)!r}", rule="must be input, output, inout or none")
        if link not in ("input", "output", "inout"):
            return  # programs and checkpoints are listed too, but no other job reads them
        file = attrs.get("file") or attrs.get("name")
        if not file:
            self._complain("a used file without a name", rule="uses has file or name")
            return
        if link != "output":
            self._reads.append(file)
        if link != "input":
            self._writes.append(file)
        size = self._number("size", attrs.get("size"))
        # The first writer knows the size best; readers' words count where nobody writes the file.
        if size is not None and (link == "output" or file not in self.trace.sizes):
            self.trace.sizes[file] = size

    def _end_text(self, element: str, text: str) -> None:
        trace = self.trace
        if element == "profile":
            if trace.work[-1] is None:
                trace.work[-1] = self._number("runtime", text.strip())
            return
        program = trace.attributes[-1].get("program")
        if isinstance(program, str):
            trace.jobs[-1] = JobSpec(
                command=tuple([escape_braces(word) for word in [program, *_split_arguments(text)]])
            )

    def _required(self, element: str, attrs: Mapping[str, str], key: str) -> str:
        value = attrs.get(key)
        if not value:
            self._complain(f"a {element} without {key}", rule=f"every {element} has the attribute {key}")
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
        self._complain(f"{key}={shorten(text)!r}", rule="must be a number, at least 0")
        return None


def _split_arguments(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # an apostrophe in a text is no quote
        return arguments.split()
