"""Write the JSON Schemas and the tables of the reference pages from the fields of the file formats.

.venv/bin/python .ci/reference.py

A table is between the lines ``<!-- fields: RECORD KEY ... -->`` and ``<!-- end -->``; without keys it has all
fields of the record. Keys that no table lists are printed, and the exit code is 1.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.backends.simulation.scenario_reader import SCENARIO_RECORDS
from weft.fields import Field, Record
from weft.formats.profiles import PROFILE_RECORDS
from weft.formats.schema import KINDS, build_schema
from weft.planners.tuning import TUNING_RECORDS
from weft.platform.file_format import PLATFORM_RECORDS
from weft.workflow.file_format import WORKFLOW_RECORDS
from weft.workflow.settings import SETTING_RECORDS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
SCHEMAS = ROOT / "src" / "weft" / "formats" / "schema"
PAGES: dict[str, Mapping[str, Record]] = {
    "file-format.md": {**WORKFLOW_RECORDS, **PLATFORM_RECORDS},
    "scenario.md": SCENARIO_RECORDS,
    "settings.md": {**SETTING_RECORDS, **PROFILE_RECORDS},
    "tuning.md": TUNING_RECORDS,
}


def replace_tables(page: str, records: Mapping[str, Record]) -> str:
    """Return a Markdown page with its tables of fields regenerated."""

    def replace(match: re.Match[str]) -> str:
        name, *keys = match[2].split()
        fields = {each.key: each for each in records[name].fields}
        lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
        lines += [row(fields[key]) for key in keys or fields]
        return "\n".join([match[1], "", *lines, "", match[3]])

    return re.sub(r"(<!-- fields: ([^>]*) -->)\n.*?(<!-- end -->)", replace, page, flags=re.DOTALL)


def row(field: Field) -> str:
    """Return the Markdown row of a field."""
    label = f"{field.type.label} ({field.type.unit})" if field.type.unit else field.type.label
    default = "required" if field.required else field.default_text or format_default(field.default)
    cells = (f"`{field.key}`", label, default, field.help)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def format_default(value: Any) -> str:
    """Return a default as Markdown; empty for none."""
    if value is None or value in ((), {}):
        return ""
    return f"`{str(value).lower()}`" if isinstance(value, str | bool) else f"{value:g}"


def find_unlisted(page: str, records: Mapping[str, Record]) -> list[str]:
    """Return the keys, as ``RECORD KEY``, that no table of the page lists."""
    listed: dict[str, set[str]] = {name: set() for name in records}
    for name, *keys in (found.split() for found in re.findall(r"<!-- fields: ([^>]*) -->", page)):
        listed[name].update(keys or records[name].help)
    every = [(name, key) for name, record in records.items() for key in record.help]
    return [f"{name} {key}" for name, key in every if key not in listed[name]]


def write_schemas(folder: Path) -> None:
    """Write the schemas of all kinds of files."""
    for kind in KINDS:
        text = json.dumps(build_schema(kind), indent=2, ensure_ascii=False) + "\n"
        (folder / f"{kind}.json").write_text(text, encoding="utf-8")


def main() -> int:
    """Write everything; return the exit code."""
    write_schemas(SCHEMAS)
    unlisted = 0
    for name, records in PAGES.items():
        page = FOLDER / name
        text = replace_tables(page.read_text(encoding="utf-8"), records)
        page.write_text(text, encoding="utf-8")
        for each in find_unlisted(text, records):
            record, key = each.split()
            advice = f"add it to a line <!-- fields: {record} ... -->"
            sys.stdout.write(f"docs/reference/{name}: no table lists the key {key!r}; {advice}\n")
            unlisted += 1
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
