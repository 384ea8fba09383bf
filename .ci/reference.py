"""Write the JSON Schemas and the tables of the reference pages from the fields of the file formats.

.venv/bin/python .ci/reference.py
"""

from __future__ import annotations

from pathlib import Path

from weft.backends.simulation.scenario_reader import SCENARIO_RECORDS
from weft.fields import replace_tables
from weft.formats.schema import write_schemas
from weft.platform.file_format import PLATFORM_RECORDS
from weft.workflow.file_format import WORKFLOW_RECORDS

ROOT = Path(__file__).parents[1]
PAGES = {"file-format.md": {**WORKFLOW_RECORDS, **PLATFORM_RECORDS}, "scenario.md": SCENARIO_RECORDS}

write_schemas(ROOT / "src" / "weft" / "formats" / "schema")
for name, records in PAGES.items():
    page = ROOT / "docs" / "reference" / name
    page.write_text(replace_tables(page.read_text(encoding="utf-8"), records), encoding="utf-8")
