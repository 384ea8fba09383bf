"""The ports of DIET tasks as files and values of programs: data files, shell text, conditions.

The data of a port are in a file: the text of a number, character or string, or the numbers of a vector or
matrix. A container is a folder with one entry per item, numbered from 0. ``PortSetup`` builds the shell text
that precedes the command of a service. For a port ``p`` the text sets the variables ``port_p_file`` (path),
``port_p_value`` (content of a single value) and ``port_p``, which is one of these two, depending on the type
of the port.

Conditions of loops and branches are a part of XQuery: comparisons, arithmetic, ``and``, ``or``, ``not``,
numbers, texts, ``$port`` and entries of containers (``$port/array/item[1]/text()``). They are evaluated by
awk, which compares texts that look like numbers as numbers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.errors import shorten
from weft.formats.files import STDIN, open_source
from weft.formats.format import ProblemCollector, SourceFile
from weft.formats.xml_document import XmlElement, read_xml_tree
from weft.workflow.templates import TemplateField, split_template

_UNNAMEABLE = re.compile(r"\W")
_FILE_TYPES = ("DIET_FILE", "DIET_VECTOR", "DIET_MATRIX")

_COUNT = re.compile(r"[0-9]{1,9}")
_BYTES: Mapping[str, float] = {
    "DIET_CHAR": 1, "DIET_SHORT": 2, "DIET_INT": 4, "DIET_LONGINT": 8, "DIET_FLOAT": 4, "DIET_DOUBLE": 8,
    "DIET_SCOMPLEX": 8, "DIET_DCOMPLEX": 16,
}  # fmt: skip
_COUNTS = {"DIET_VECTOR": ("size",), "DIET_MATRIX": ("nb_rows", "nb_cols")}
"""Attributes whose product is the number of values of a vector or matrix, by type."""


def port_bytes(attributes: Mapping[str, str]) -> float | None:
    """Return the size of a port's data in bytes; None if it varies (strings, files, containers)."""
    kind = attributes.get("type", "")
    if attributes.get("depth", "0") != "0":
        return None
    if kind not in _COUNTS:
        return _BYTES.get(kind)
    total = _BYTES.get(attributes.get("base_type", ""))
    for key in _COUNTS[kind]:
        count = attributes.get(key, "")
        if total is None or not _COUNT.fullmatch(count):
            return None
        total *= int(count)
    return total


Data = str | list["Data"]
"""One item of a source: a text, or a container as a list of items."""


def name_port(name: str) -> str:
    """Return the name of a port; characters that the name of a shell variable cannot contain are replaced."""
    return _UNNAMEABLE.sub("_", name)


def is_file_port(port: XmlElement) -> bool:
    """Return whether programs get the data of a port as a file or folder rather than as a value."""
    return port.attributes.get("type", "") in _FILE_TYPES or port.attributes.get("depth", "0") != "0"


def quote_template(name: str) -> str:
    """Return a file name as one quoted word of a shell command; fields (``P#o.{i}``) are kept."""
    return "./" + "".join(
        f"{{{piece.name}}}" if isinstance(piece, TemplateField) else shlex.quote(piece)
        for piece in split_template(name)
    )


def _quote_text(text: str) -> str:
    return shlex.quote(text).replace("{", "{{").replace("}", "}}")


_GATHER = """\
gather() (
  mkdir -p "$2"; n=0; to=0
  last=$(for f in "$1".*; do f=${f#"$1".}; echo "${f%%.*}"; done | sort -n | tail -n 1)
  while [ "$n" -le "$last" ]; do
    if [ "$3" -gt 1 ]; then gather "$1.$n" "$2/$to" $(($3 - 1)); to=$((to + 1));
    elif [ -e "$1.$n" ]; then cp -R "$1.$n" "$2/$to"; to=$((to + 1)); fi
    n=$((n + 1))
  done
)"""


@dataclass(slots=True)
class PortSetup:
    """Builds the shell text that sets the variables of all ports of a task."""

    names: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _inputs: list[str] = field(default_factory=list)
    _outputs: list[str] = field(default_factory=list)

    def read_file(self, port: XmlElement, path: str) -> None:
        """Add a port that reads a file; ``path`` is its path as one word of shell text."""
        self._set(port, path)

    def read_constant(self, port: XmlElement, data: Data, *, is_file: bool = False) -> None:
        """Add a port that reads a constant. ``is_file`` states whether the constant names files."""
        target = self._target(port)
        self._write(data, target, is_file=is_file)
        self._set(port, target)

    def read_items(
        self,
        port: XmlElement,
        items: Sequence[Data],
        variables: Sequence[str],
        source: str,
        *,
        is_file: bool = False,
    ) -> None:
        """Add a port that reads one item of a source.

        ``variables`` are the sweep variables that select the item, one for each level of nesting. ``is_file``
        states whether the items name files.
        """
        target = self._target(port)
        selector = ".".join(f"{{{variable}}}" for variable in variables)
        self.lines.append(f"case {selector} in")
        for index, item in _walk_items(items, len(variables)):
            self.lines.append(f"{index})")
            self._write(item, target, is_file=is_file)
            self.lines.append(";;")
        message = _quote_text(f"source {source} has no item of this number")
        self.lines.append(f"*) echo {message} >&2; exit 1;;\nesac")
        self._set(port, target)

    def read_parts(self, port: XmlElement, parts: PortParts) -> None:
        """Add a port that reads a container into which the files and folders ``parts`` are copied."""
        target = self._target(port)
        self._copy_parts(parts, target)
        self._set(port, target)

    def gather(self, port: XmlElement, prefix: str, levels: int) -> None:
        """Add a port that reads all files ``PREFIX.0``, ``PREFIX.1``, ... as one container.

        ``levels`` is the number of indices in the file names: 2 for ``PREFIX.0.0``.
        """
        if _GATHER not in self.lines:
            self.lines.insert(0, _GATHER)
        target = self._target(port)
        self.lines.append(f"gather {prefix} {target} {levels}")
        self._set(port, target)

    def write(self, port: XmlElement, path: str, *, reads: bool = False) -> None:
        """Add a port that writes a file.

        If ``reads``, the file is initially a copy of the data that the port reads.
        """
        name = name_port(port.attributes.get("name", ""))
        is_container = port.attributes.get("depth", "0") != "0"
        if reads:
            self.lines.append(f'cp -R "$port_{name}_file" {path}')
        elif is_container:
            self.lines.append(f"mkdir -p {path}")
        self.lines.append(f"export port_{name}_file={path}")
        if not reads or is_file_port(port):
            self.lines.append(f"export port_{name}={path}")
        self._outputs.append(name)
        if name not in self.names:
            self.names.append(name)

    def text(self) -> str:
        """Return the shell text."""
        return "\n".join(self.lines)

    def ports(self) -> dict[str, object]:
        """Return the names and the shell text of the ports, for ``attributes.ports`` of a task.

        Because DIET matches the ports of a service by position, ports also have names by position
        (``input1``, ``output1``), unless a port is named so.
        """
        lines, names = list(self.lines), list(self.names)
        for side, ports in (("input", self._inputs), ("output", self._outputs)):
            for number, port in enumerate(ports, 1):
                if (alias := f"{side}{number}") not in names:
                    names.append(alias)
                    forms = ("", "_file", "_value") if side == "input" else ("", "_file")
                    lines += [f'export port_{alias}{form}="${{port_{port}{form}:-}}"' for form in forms]
        return {"names": names, "setup": "\n".join(lines)}

    def _target(self, port: XmlElement) -> str:
        self.lines.append("mkdir -p .ports")
        return f".ports/{name_port(port.attributes.get('name', ''))}"

    def _set(self, port: XmlElement, path: str) -> None:
        name = name_port(port.attributes.get("name", ""))
        self.names.append(name)
        self._inputs.append(name)
        self.lines.append(f"export port_{name}_file={path}")
        if port.attributes.get("depth", "0") == "0" and port.attributes.get("type") != "DIET_FILE":
            self.lines.append(f'port_{name}_value=$(cat "$port_{name}_file"); export port_{name}_value')
        form = "file" if is_file_port(port) else "value"
        self.lines.append(f'export port_{name}="$port_{name}_{form}"')

    def _write(self, data: Data, target: str, *, is_file: bool) -> None:
        if isinstance(data, str):
            copy = f"cp -R ./{_quote_text(data)} {target}"
            self.lines.append(copy if is_file else f"printf '%s\\n' {_quote_text(data)} > {target}")
            return
        self.lines.append(f"mkdir -p {target}")
        for index, item in enumerate(data):
            self._write(item, f"{target}/{index}", is_file=is_file)

    def _copy_parts(self, parts: PortParts, target: str) -> None:
        if isinstance(parts, str):
            self.lines.append(f"cp -R {parts} {target}")
            return
        self.lines.append(f"mkdir -p {target}")
        for index, part in enumerate(parts):
            self._copy_parts(part, f"{target}/{index}")


PortParts = str | list["PortParts"]
"""The data of a port: a path as shell text, or a container as a list of such data."""


def _walk_items(items: Sequence[Data], levels: int, prefix: str = "") -> list[tuple[str, Data]]:
    found: list[tuple[str, Data]] = []
    for index, item in enumerate(items):
        if levels > 1 and isinstance(item, list):
            found += _walk_items(item, levels - 1, f"{prefix}{index}.")
        else:
            found.append((f"{prefix}{index}", item))
    return found


def load_data_beside(source: SourceFile) -> dict[str, list[Data]]:
    """Return the items in the data file beside a workflow, by source; {} if there is no such file.

    The file is ``STEM.data.xml``, ``data_STEM.xml`` or ``data.xml``. Raises InvalidInput.
    """
    folder = Path(source.name).parent
    for name in (f"{source.stem}.data.xml", f"data_{source.stem}.xml", "data.xml"):
        if source.name != STDIN and (folder / name).is_file():
            return _read_data(open_source(folder / name))
    return {}


def _read_data(source: SourceFile) -> dict[str, list[Data]]:
    root, problems = read_xml_tree(source), ProblemCollector(source)
    if root.name != "data":
        what = f"the first element is {shorten(root.name, 40)!r}"
        problems.add(what, rule="a data file has one element data", line=root.line)
    found: dict[str, list[Data]] = {}
    for element in root.children:
        name = element.attributes.get("name", "")
        lists = [child for child in element.children if child.name == "list"]
        if element.name != "source" or not name or len(lists) != 1 or len(element.children) != 1:
            rule = 'data consist of elements <source name="..."><list>...</list></source>'
            problems.add(f"element {shorten(element.name, 40)}", rule=rule, line=element.line)
            continue
        if name in found:
            problems.add(f"a second source {shorten(name, 40)!r}", rule="names are unique", line=element.line)
        items = _read_items(lists[0], problems)
        if not items:
            what = f"the list of source {shorten(name, 40)!r} is empty"
            problems.add(what, rule="a source has at least one item", line=lists[0].line)
        depths = {_depth(item) for item in items}
        if len(depths) > 1:
            what = f"source {shorten(name, 40)!r} mixes items and lists"
            problems.add(what, rule="all items of a source have the same nesting", line=element.line)
        found[name] = items
    problems.finish()
    return found


def _read_items(element: XmlElement, problems: ProblemCollector, level: int = 0) -> list[Data]:
    found: list[Data] = []
    for child in element.children:
        if child.name == "item":
            found.append(child.attributes.get("value", child.text.strip()))
        elif child.name == "list" and level < _MOST_LEVELS:
            found.append(_read_items(child, problems, level + 1))
        else:
            rule = f"a list consists of items and lists, nested at most {_MOST_LEVELS} times"
            problems.add(f"element {shorten(child.name, 40)}", rule=rule, line=child.line)
    return found


_MOST_LEVELS = 10


def _depth(data: Data) -> int:
    return 0 if isinstance(data, str) else 1 + max(map(_depth, data), default=0)


def count_items(items: Sequence[Data], depth: int) -> list[int] | None:
    """Return the lengths of the nested lists of ``items``, one length per level, the outermost first.

    The innermost ``depth`` levels are not counted: they belong to the items. Return None if there are too few
    levels, or if lists on one level have different lengths.
    """
    levels = 1 + max(map(_depth, items), default=0) - depth
    if levels < 1:
        return None
    sizes: list[int] = []
    here: list[Data] = [list(items)]
    for _ in range(levels):
        counts = {len(each) for each in here}
        if len(counts) != 1 or any(isinstance(each, str) for each in here):
            return None
        sizes.append(counts.pop())
        here = [item for each in here for item in each]
    return sizes


_WHOLE = dict.fromkeys(
    ("DIET_SHORT", "DIET_INT", "DIET_LONGINT"), (re.compile(r"[+-]?\d+"), "a whole number")
)
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)
_FORMS = _WHOLE | dict.fromkeys(("DIET_FLOAT", "DIET_DOUBLE"), (_REAL, "a number"))
"""Pattern and description of the values of a port, by type."""


_SEPARATORS = re.compile(r"[\s,;()\[\]]+")
"""Texts between the numbers of a vector or matrix."""


def find_wrong_value(data: Data, attributes: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first value that is invalid for the type of a port, and type and rule; None: all are valid.

    ``attributes`` are those of the port. Each number of a vector or matrix is checked against ``base_type``.

    >>> find_wrong_value(["1", "abc"], {"type": "DIET_INT"})
    ('abc', 'DIET_INT: must be a whole number')
    >>> find_wrong_value("1 2.5 3", {"type": "DIET_VECTOR", "base_type": "DIET_INT"})
    ('2.5', 'DIET_VECTOR of DIET_INT: each element must be a whole number')
    """
    kind, base = attributes.get("type", ""), attributes.get("base_type", "")
    is_array = kind in _COUNTS
    if (base if is_array else kind) not in _FORMS:
        return None
    if not isinstance(data, str):
        return next((found for each in data if (found := find_wrong_value(each, attributes))), None)
    pattern, rule = _FORMS[base if is_array else kind]
    values = filter(None, _SEPARATORS.split(data)) if is_array else (data,)
    wrong = next((value for value in values if not pattern.fullmatch(value.strip())), None)
    if wrong is None:
        return None
    full = f"{kind} of {base}: each element" if is_array else f"{kind}:"
    return wrong, f"{full} must be {rule}"


class ConditionError(ValueError):
    """A condition or assignment that cannot be evaluated."""


_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>"[^"]*"|'[^']*')|\$(?P<port>[A-Za-z_][\w.-]*)(?P<path>(?:/array/item\[\d+\])*(?:/text\(\))?)"""
    r"""|(?P<word>[A-Za-z][\w:]*)|(?P<mark><=|>=|!=|[()<>=+*-]))"""
)
_COMPARISONS = {
    "le": "<=", "lt": "<", "ge": ">=", "gt": ">", "eq": "==", "ne": "!=",
    "<=": "<=", "<": "<", ">=": ">=", ">": ">", "=": "==", "!=": "!=",
}  # fmt: skip
_CASTS = dict.fromkeys(("xs:decimal", "xs:integer", "xs:int", "xs:double", "xs:float", "number"), "(%s + 0)")
_CASTS |= {"xs:string": '(%s "")', "string": '(%s "")', "not": "(!%s)"}
_MOST_NESTED = 50


class _ConditionParser:
    """Translates one condition into an expression of awk, by recursive descent."""

    def __init__(self, text: str, ports: Mapping[str, XmlElement]) -> None:
        self._ports = ports
        self._tokens: list[re.Match[str]] = []
        self._next = 0
        self._nested = 0
        self.reads: dict[str, str] = {}
        """Path of the file with the value, as shell text, by environment variable."""
        position = 0
        while position < len(text.rstrip()):
            if (match := _TOKEN.match(text, position)) is None:
                raise ConditionError(f"unknown text {shorten(text[position:].strip(), 30)!r}")
            self._tokens.append(match)
            position = match.end()

    def parse(self) -> str:
        """Return the expression of awk."""
        found = self._or()
        if self._next < len(self._tokens):
            raise ConditionError(f"unexpected {self._tokens[self._next][0].strip()!r}")
        return found

    def _peek(self) -> str:
        return self._tokens[self._next][0].strip() if self._next < len(self._tokens) else ""

    def _take(self, words: Sequence[str]) -> str:
        found = self._peek()
        if found not in words:
            return ""
        self._next += 1
        return found

    def _chain(self, operand: Callable[[], str], operators: Mapping[str, str]) -> str:
        found = operand()
        while word := self._take(tuple(operators)):
            found = f"({found} {operators[word]} {operand()})"
        return found

    def _or(self) -> str:
        return self._chain(self._and, {"or": "||"})

    def _and(self) -> str:
        return self._chain(self._comparison, {"and": "&&"})

    def _comparison(self) -> str:
        found = self._sum()
        if word := self._take(tuple(_COMPARISONS)):
            found = f"({found} {_COMPARISONS[word]} {self._sum()})"
        return found

    def _sum(self) -> str:
        return self._chain(self._product, {"+": "+", "-": "-"})

    def _product(self) -> str:
        return self._chain(self._unit, {"*": "*", "div": "/", "mod": "%"})

    def _unit(self) -> str:
        self._nested += 1
        if self._next >= len(self._tokens) or self._nested > _MOST_NESTED:
            raise ConditionError("it ends too early" if self._nested <= _MOST_NESTED else "nested too deeply")
        token = self._tokens[self._next]
        self._next += 1
        found = self._value(token)
        self._nested -= 1
        return found

    def _value(self, token: re.Match[str]) -> str:
        text = token[0].strip()
        if token["number"]:
            return token["number"]
        if token["text"]:
            return '"' + re.sub(r'[\\"]', r"\\\g<0>", token["text"][1:-1]) + '"'
        if token["port"]:
            return self._reference(token["port"], token["path"])
        if text == "-":
            return f"(-{self._unit()})"
        if text in ("true", "false") and self._take(("(",)):
            self._close()
            return "1" if text == "true" else "0"
        if text in _CASTS and self._take(("(",)):
            inside = self._or()
            self._close()
            return _CASTS[text] % inside
        if text == "(":
            inside = self._or()
            self._close()
            return f"({inside})"
        raise ConditionError(f"unexpected {shorten(text, 30)!r}")

    def _close(self) -> None:
        if not self._take((")",)):
            raise ConditionError(f"a closing parenthesis is missing before {self._peek()!r}")

    def _reference(self, port: str, path: str) -> str:
        if port not in self._ports:
            raise ConditionError(f"no port ${port}; known: {', '.join(self._ports)}")
        entries = [int(number) - 1 for number in re.findall(r"item\[(\d+)\]", path)]
        depth = self._ports[port].attributes.get("depth", "0")
        if str(len(entries)) != depth or min(entries, default=0) < 0:
            raise ConditionError(f"${port}{path} is no single value; the port has depth {depth}")
        name = name_port(port)
        variable = "_".join(["operand", name, *map(str, entries)])
        self.reads[variable] = f'"$port_{name}_file"' + "".join(f"/{entry}" for entry in entries)
        return f'ENVIRON["{variable}"]'


def evaluate_text(expression: str, ports: Mapping[str, XmlElement], form: str) -> str:
    """Return shell text that evaluates an expression over ports.

    ``form`` is a statement of awk in which ``%s`` stands for the expression. Raises ConditionError.
    """
    parser = _ConditionParser(expression, ports)
    program = form % parser.parse()
    reads = [f"{name}=$(cat {path}); export {name}" for name, path in parser.reads.items()]
    return "\n".join([*reads, f"awk {_quote_text(f'BEGIN {{ {program} }}')}"])


def assign_ports(text: str, ports: Mapping[str, XmlElement], targets: Mapping[str, str]) -> list[str]:
    """Return shell lines that execute assignments such as ``out=in; other=$in + 1``.

    ``targets`` maps each port that must be assigned to its path. Raises ConditionError.
    """
    lines, assigned = list[str](), set[str]()
    for statement in filter(None, (part.strip() for part in text.split(";"))):
        name, mark, value = (part.strip() for part in statement.partition("="))
        if not mark or name not in targets:
            raise ConditionError(f"{shorten(statement, 40)!r} assigns no port; known: {', '.join(targets)}")
        if (plain := value.removeprefix("$")) in ports:
            lines.append(f'rm -rf {targets[name]}; cp -R "$port_{name_port(plain)}_file" {targets[name]}')
        else:
            lines.append(f"{evaluate_text(value, ports, 'print %s')} > {targets[name]}")
        assigned.add(name)
    if missing := [name for name in targets if name not in assigned]:
        raise ConditionError(f"{', '.join(missing)} gets no value")
    return lines
