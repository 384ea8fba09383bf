"""Demands that a running application writes: requirement and rank (S3 section 2).

They come in GridWay's language or in ours. They are parsed and translated, never executed; what cannot be
read is reported and changes nothing. A line ``# optional`` says that the application may stay where it is.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.backends.jobs.problem import JobProblem
from weft.errors import InvalidInput, Problem, shorten
from weft.expressions import Expression, Kind, infer, parse
from weft.formats.complaints import Complaints
from weft.formats.format import Source
from weft.formats.gridway_expressions import translate_rank, translate_requirement
from weft.formats.gridway_template import Entry

__all__ = ["Demand", "parse_rank", "parse_requirement"]

_OPTIONAL = "optional"

Demand = tuple[str, bool]
"""The expression in our language ("": none), and whether it is mandatory."""


def parse_requirement(text: str, file: str) -> Demand:
    """Read a requirement; raises a JobProblem."""
    return _parsed(text, file, translate_requirement, Kind.BOOLEAN)


def parse_rank(text: str, file: str) -> Demand:
    """Read a rank; raises a JobProblem."""
    return _parsed(text, file, translate_rank, Kind.NUMBER)


def _parsed(
    text: str, file: str, translate: Callable[[Entry, Complaints], Expression | None], wanted: Kind
) -> Demand:
    lines = [line.strip() for line in text.split("\n")]
    comments = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    said = " ".join(line for line in lines if line and not line.startswith("#"))
    mandatory = _OPTIONAL not in comments
    if not said.rstrip(" ;"):
        return "", mandatory
    complaints = Complaints(Source(name=file, data=b""))
    found = translate(Entry(key=file, value=said, line=1, column=1), complaints)
    if found is not None:
        return str(found), mandatory
    try:
        # GridWay's language comes first: what is valid in both (SIZE_MEM_MB > 512) is meant in it.
        return str(_of_kind(parse(said), wanted)), mandatory
    except InvalidInput as error:
        why = complaints.problems[0] if "=" in said and "==" not in said else error.problems[0]
        reason = f"{why.what}; {why.rule}" if why.rule else why.what
        raise JobProblem(f"{file} says {shorten(repr(said))}: {reason}") from None


def _of_kind(expression: Expression, wanted: Kind) -> Expression:
    kind = infer(expression, {})
    if kind not in (wanted, Kind.UNKNOWN):
        raise InvalidInput(Problem(what=f"it gives a {kind.value}", rule=f"must give a {wanted.value}"))
    return expression
