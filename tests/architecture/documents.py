"""The documentation as data for its tests: pages, fenced blocks, links, headings and console examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from architecture.package import ROOT

__all__ = ["Block", "Example", "anchors", "blocks", "examples", "links", "matches", "pages", "prose"]

FENCE = re.compile(
    r"^(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=marks) *$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
CUT = "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A command of a console block and the output the page shows for it (None: nothing is shown)."""

    command: str
    expected: str | None
    line: int


def pages() -> list[Path]:
    """Return the existing pages of the documentation."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGES.md")]
    return [path for path in top if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for found in FENCE.finditer(text):
        indent = len(found["indent"])
        body = "".join(
            line[indent:] if line[:indent].isspace() else line for line in found["body"].splitlines(True)
        )
        language = found["info"].split()[0] if found["info"].strip() else ""
        yield Block(language=language, text=body, line=text.count("\n", 0, found.start()) + 1)


def prose(text: str) -> str:
    """Return a page without fenced blocks and inline code, in which brackets are not links."""
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", FENCE.sub("", text))


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures."""
    return LINK.findall(prose(text)) + DEFINITION.findall(prose(text))


def anchors(text: str) -> set[str]:
    """Return the names under which a page's headings can be linked to."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip())
        # A second heading of the same text gets a number.
        found.add(next(name for name in (slug, *(f"{slug}-{n}" for n in range(1, 100))) if name not in found))
    return found


def examples(block: Block) -> Iterator[Example]:
    """Yield each command (from ``$ ``, continued by a backslash) of a console block with its output."""
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].startswith("$ "):
            at += 1
            continue
        start, command = at, lines[at][2:]
        while command.endswith("\\") and at + 1 < len(lines):
            at += 1
            command = command[:-1] + lines[at].removeprefix("> ").lstrip()
        at += 1
        shown = at
        while at < len(lines) and not lines[at].startswith("$ "):
            at += 1
        expected = "\n".join(lines[shown:at]).strip("\n")
        yield Example(command=command, expected=expected or None, line=block.line + 1 + start)


def matches(expected: str, actual: str) -> bool:
    """Return whether outputs agree; a line ``...`` matches any lines, ``...`` within a line any text."""
    pattern = ""
    for line in expected.strip("\n").splitlines():
        if line.strip() == CUT:
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += "[^\n]*?".join(re.escape(part) for part in line.rstrip().split(CUT)) + r"[ \t]*\n"
    return (
        re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in actual.strip("\n").splitlines()))
        is not None
    )
