"""What PyYAML complains about, said again so that a user knows what to change."""

from __future__ import annotations

import re

import yaml

from weft.errors import InvalidInput, Place, Problem, shorten

__all__ = ["checked_text", "reworded"]

_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_REWORDED: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        "a ':' where no key can stand",
        "check the indentation, or put quotes around a text that holds ': '",
    ),
    (
        "could not find expected ':'",
        "a line without ':' among the keys",
        "write 'key: value', or check the indentation here and in the line before",
    ),
    (
        "found unexpected end of stream",
        "quotes that are opened here and never closed",
        "add the closing quote",
    ),
    (
        "expected ',' or ']'",
        "a list opened with '[' goes wrong here",
        "separate its items by ',' and close it with ']'",
    ),
    (
        "expected ',' or '}'",
        "a mapping opened with '{' goes wrong here",
        "separate its entries by ',' and close it with '}'",
    ),
    (
        "expected '-' indicator",
        "a line that is no item in the middle of a list",
        "start it with '- ' or change its indentation",
    ),
    (
        "block sequence entries are not allowed",
        "a list item '- ' where none can stand",
        "put the list on lines of its own below the key, or write [a, b]",
    ),
    (
        "expected key",
        "this is no 'key: value' of the mapping it stands in",
        "check the indentation and the quotes",
    ),
    (
        "expected <block end>",
        "this does not belong to the block it stands in",
        "check the indentation and the quotes",
    ),
    ("expected <document start>", "something is left after the end of the value", "check the indentation"),
    ("expected node content", "a value is missing or starts with a bracket", "put quotes around the text"),
    (
        "unknown escape character",
        "an unknown escape in a double-quoted text",
        "double the backslash or use single quotes",
    ),
    (
        "Unicode character escape code",
        "an escape that is no character",
        "write the character itself",
    ),
    ("undefined tag handle", "a tag that is not defined", "leave tags (words that start with '!') away"),
    (
        "expected alphabetic or numeric character",
        "'&' or '*' without a name",
        "put quotes around texts that start with '&' or '*'",
    ),
)
"""Part of PyYAML's text (alike in its C and its Python parser), what was found, what to do."""

_TAB_RULE = "YAML does not allow tabs for indentation"


def checked_text(text: str, file: str | None) -> str:
    """Give the text without byte order mark; a character that no text file holds is an error."""
    text = text.removeprefix("\ufeff")
    if bad := _UNREADABLE.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        raise InvalidInput(
            Problem(
                what=f"character U+{ord(bad[0]):04X} in the text",
                rule="control characters are not allowed",
                advice="remove it, or write it as an escape in double quotes",
                place=Place(file=file, line=line, column=column),
            )
        )
    return text


def reworded(error: yaml.YAMLError, text: str, file: str | None) -> Problem:
    """Make the problem for a syntax error, with the place a user should look at."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable as YAML")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if "unexpected end of stream" in problem:
        mark = getattr(error, "context_mark", None) or mark
    if mark is None:
        return Problem(what=shorten(problem), place=Place(file=file))
    place = Place(file=file, line=mark.line + 1, column=mark.column + 1)
    line = _line(text, mark.line)
    found = line[mark.column : mark.column + 1]
    if _is_tab(problem, line, found):
        return Problem(what="a tab in the indentation", rule=_TAB_RULE, advice="use blanks", place=place)
    if "cannot start any token" in problem:
        advice = f"put quotes around the text that starts with {found!r}"
        return Problem(what=f"a value cannot start with {found!r}", advice=advice, place=place)
    for part, what, advice in _REWORDED:
        if part in problem:
            return Problem(what=what + _opened(error, mark), advice=advice, place=place)
    return Problem(what=shorten(problem), place=place)


def _line(text: str, number: int) -> str:
    """Give one line of the text; nothing where PyYAML and we count lines differently (rare line breaks)."""
    lines = text.split("\n", number + 1)
    return lines[number] if number < len(lines) else ""


def _is_tab(problem: str, line: str, found: str) -> bool:
    if "tab character" in problem or found == "\t":
        return True
    indentation = line[: len(line) - len(line.lstrip())]
    return "\t" in indentation and ("mapping values" in problem or "expected ':'" in problem)


def _opened(error: yaml.YAMLError, mark: yaml.error.Mark) -> str:
    """Say in which line the thing that went wrong began, where that is another line."""
    context = getattr(error, "context_mark", None)
    if context is None or context.line == mark.line or "flow" not in str(getattr(error, "context", "")):
        return ""
    return f" (opened in line {context.line + 1})"
