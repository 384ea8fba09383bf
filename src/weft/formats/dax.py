"""DAX, the XML of Pegasus (2.1 to 3.x), read only."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, Locator

from weft.errors import shorten
from weft.formats.format import ProblemCollector, ReadOnlyFormat, SourceFile
from weft.formats.graph import RecordedWorkflow, escape_braces
from weft.formats.xml_document import parse_xml
from weft.workflow.task import JobSpec
from weft.workflow.workflow import Workflow

_ROOT = re.compile(r"<(?:\w+:)?adag[\s>/]")
_COUNT = re.compile(r"[0-9]{1,9}")


class Dax(ReadOnlyFormat):
    """Abstract workflows of Pegasus.

    A job's id becomes its name and ``runtime`` its work on a machine of speed 1. ``child``/``parent``
    elements and used files become edges by the rules of ``graph``. ``cores`` makes a rigid parallel task: a
    processor of the file is a node. Sub-workflows (``dag`` and ``dax`` elements) are refused.
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
    """Fills a recorded workflow from parser events."""

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
                f"a sub-workflow (element {element})", rule="sub-workflows are not supported", advice=advice
            )
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
            self.problems.add("no jobs", rule="a workflow must have at least one job")
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
            self._add_problem(what, rule="a DAX file holds one adag element")
            self.problems.finish()
        self.title = attrs.get("name") or None

    def _start_job(self, attrs: Mapping[str, str]) -> None:
        ident = self._required("job", attrs, "id")
        index = len(self.trace.names)
        if self._index_of.setdefault(ident, index) != index:
            self._add_problem(f"a second job {shorten(ident)!r}", rule="ids of jobs must be unique")
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
                self._add_problem(f"cores={shorten(cores)!r}", rule="must be a whole number, at least 1")

    def _start_part(self, element: str, attrs: Mapping[str, str]) -> None:
        """Process a part of a job: a used file, its arguments, a profile."""
        if element == "uses":
            self._use(attrs)
        elif element == "argument" or (element == "profile" and attrs.get("key") == "runtime"):
            self._text = []
        elif element in ("file", "filename") and self._text is not None:
            self._text.append(attrs.get("name") or attrs.get("file") or "")

    def _use(self, attrs: Mapping[str, str]) -> None:
        link = attrs.get("link", "none")
        if link not in ("input", "output", "inout", "none", "checkpoint"):
            self._add_problem(f"link={shorten(link)!r}", rule="must be input, output, inout or none")
        if link not in ("input", "output", "inout"):
            return  # programs and checkpoints are listed too; other jobs do not read them
        file = attrs.get("file") or attrs.get("name")
        if not file:
            self._add_problem("a used file without a name", rule="uses must have the attribute file or name")
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
        if not (value := attrs.get(key)):
            self._add_problem(
                f"a {element} without {key}", rule=f"every {element} must have the attribute {key}"
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
