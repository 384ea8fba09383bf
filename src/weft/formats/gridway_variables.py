"""GridWay's variables in a job template: ``${GW_ARCH}`` and its kin become names that weft fills in.

They are resolved at run time, for the chosen machine and the job (S3 section 6). ``$NAME`` is ``${NAME}``,
and every name may carry ``GW_`` in front. A variable of the template's own ENVIRONMENT has its value. What
nobody knows is left to the shell in arguments, and an error in file names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.errors import nearest
from weft.formats.complaints import Complaints
from weft.formats.gridway_template import Entry
from weft.formats.trace import literal

__all__ = ["COUNT", "INDEX", "Variables", "speaks_of_array"]

INDEX = "task_id"
"""The sweep variable of an array job: 0 for its first task."""

COUNT = "total_tasks"
"""The parameter that says how many tasks an array job has."""

_VARIABLE = re.compile(r"\$\{([^{}]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_ARRAY_NAMES = ("TASK_ID", "TOTAL_TASKS")
_BULK_NAMES = ("PARAM", "MAX_PARAM")
_RESTART = "RESTARTED"


def _plain(match: re.Match[str]) -> str:
    return (match[1] if match[1] is not None else match[2]).removeprefix("GW_")


def speaks_of_array(entries: Mapping[str, Entry]) -> bool:
    """Say whether a template is meant for an array job: by its key, or by the variables it uses."""
    return "TOTAL_TASKS" in entries or any(
        _plain(match) in _ARRAY_NAMES
        for entry in entries.values()
        for match in _VARIABLE.finditer(entry.value)
    )


class Variables:
    """What the variables of one template mean."""

    def __init__(self, complaints: Complaints, *, name: str, swept: bool, count: str) -> None:
        """``count``: how many tasks the array has, as text for a name; without a sweep the index is 0."""
        index = f"{{{INDEX}}}" if swept else "0"
        self.complaints = complaints
        self.swept = swept
        self.environment: dict[str, str] = {}
        """Variables of the template's own, their values translated already."""
        self._known = {
            "ARCH": "{machine.arch}",
            "HOSTNAME": "{machine.name}",
            "TASK_ID": index,
            "TOTAL_TASKS": count,
            "ARRAY_ID": literal(name),
            # A number that the daemon gives; the name of the task makes files unique just as well.
            "JOB_ID": f"{literal(name)}.{index}" if swept else literal(name),
        }

    def unique(self, name: str) -> str:
        """Give a file a name of its own in every task of an array."""
        return name if not self.swept or f"{{{INDEX}}}" in name else f"{name}.{{{INDEX}}}"

    def in_name(self, entry: Entry, text: str) -> str:
        """Translate the name of a file; a variable that nobody knows is complained about."""
        return self._translated(entry, text, in_line=False)

    def in_command(self, entry: Entry, text: str) -> str:
        """Translate a part of a command line; what nobody knows is for the shell."""
        return self._translated(entry, text, in_line=True)

    def _translated(self, entry: Entry, text: str, *, in_line: bool) -> str:
        parts: list[str] = []
        end = 0
        for match in _VARIABLE.finditer(text):
            parts += [_braced(text[end : match.start()]), self._value(entry, match, in_line=in_line)]
            end = match.end()
        return "".join([*parts, _braced(text[end:])])

    def _value(self, entry: Entry, match: re.Match[str], *, in_line: bool) -> str:
        name = _plain(match)
        own = self.environment.get(match[1] if match[1] is not None else match[2])
        if own is not None:
            return own
        if name in self._known:
            return self._known[name]
        if name in _BULK_NAMES:
            rule = "it belongs to an option of the bulk submission, which a template does not hold"
            self.complaints.add(
                f"${{{name}}} in {entry.key}", rule=rule, advice="use ${TASK_ID}", line=entry.line
            )
        elif name == _RESTART and in_line:
            return "${WEFT_RESTART:-0}"
        elif not in_line:
            known = [*self._known, *self.environment]
            close = nearest(name, known)
            advice = f"did you mean ${{{close}}}?" if close else f"known: {', '.join(known)}"
            what = f"no variable ${{{name}}} for the name of a file in {entry.key}"
            self.complaints.add(what, advice=advice, line=entry.line)
        return match[0]


def _braced(text: str) -> str:
    """Double the braces of a text in which no variable stands."""
    return text.replace("{", "{{").replace("}", "}}")
