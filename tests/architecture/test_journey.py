"""The journey page names the files that a run enters, in the order of the first entry."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from architecture.package import PACKAGE, ROOT, environment

PAGE = (ROOT / "docs" / "journey-of-a-task.md").read_text(encoding="utf-8")
FILES = re.findall(r"^\d+\. `([\w/]+\.py)`", PAGE, re.MULTILINE)
WORKFLOW = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
TRACED = """
import json, sys, threading
package, output = sys.argv[1:3]
entered = []
def is_import(frame):
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(package)
def enter(frame, event, argument):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(package) and name not in entered and not is_import(frame):
        entered.append(name)
threading.setprofile(enter)
sys.setprofile(enter)
from weft.cli.main import main
try:
    main(["run", "one.yaml", "--quiet"])
except SystemExit as end:
    code = end.code
finally:
    sys.setprofile(None)
with open(output, "w") as file:
    json.dump([code, entered], file)
"""
"""Runs the workflow and writes the exit code and the files in the order of the first call, imports excluded."""


def test_run_enters_source_files_in_the_order_of_the_journey_page(tmp_path) -> None:
    (tmp_path / "one.yaml").write_text(WORKFLOW)
    output = tmp_path / "entered.json"
    command = [sys.executable, "-c", TRACED, str(PACKAGE), str(output)]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=300)
    code, entered = json.loads(output.read_text())
    assert code in (0, None)
    order = [name.removeprefix(f"{PACKAGE}/") for name in entered]
    assert [name for name in order if name in FILES] == FILES


def test_journey_page_names_at_most_twenty_files() -> None:
    assert 10 <= len(FILES) <= 20
    assert len(set(FILES)) == len(FILES)
    assert set(re.findall(r"`([\w/]+\.py)`", PAGE)) == set(FILES), "each named file has a number"
    assert [name for name in FILES if not (PACKAGE / name).exists()] == []
