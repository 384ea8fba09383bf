"""The documentation is current: links resolve, files are valid, commands print what the page shows."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

import weft
from architecture.documents import Block, anchors, blocks, examples, links, matches, pages
from architecture.package import ROOT, environment
from cli.warm_process import program
from patience import PATIENCE_S
from weft.backends.simulation.scenario import Scenario
from weft.backends.simulation.scenario_reader import load_scenario
from weft.formats.files import load_platform, load_workflow, open_source
from weft.formats.profiles import load_profile
from weft.formats.services import read_services
from weft.formats.yaml_document import parse_document
from weft.planners.tuning import read_grid
from weft.workflow.unfold import unfold

ALL_PAGES = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
NAMED = re.compile(r"# (?P<name>[\w.-]+\.ya?ml)\n")
FULL_FILE = re.compile(r"(#[^\n]*\n)*weft: 1\b")


@ALL_PAGES
def test_links_of_the_documentation_resolve(page: Path) -> None:
    broken = []
    for target in links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = unquote(target).partition("#")
        goal = (page.parent / name).resolve() if name else page
        if not goal.exists() or (anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text())):
            broken.append(target)
    assert broken == []


def test_navigation_of_the_documentation_lists_every_page() -> None:
    folder = ROOT / "docs"
    written = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- .*: (\S+\.md)$", written[written.index("\nnav:") :], re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(folder)) for page in folder.rglob("*.md"))


@ALL_PAGES
def test_source_files_named_in_the_documentation_exist(page: Path) -> None:
    named = re.findall(r"`((?:src/weft|tests|benchmarks|\.ci)/[\w./-]+)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_version_is_stated_once() -> None:
    places = [ROOT / name for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CITATION.cff")]
    places += [*ROOT.glob("docs/**/*.md"), *ROOT.glob("src/weft/**/*.py"), *ROOT.glob("tests/**/*.py")]
    version = re.compile(rf"(?<![\w.]){re.escape(weft.__version__)}(?![\w.])")
    stating = [path for path in places if version.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in stating] == ["src/weft/__init__.py"]


@ALL_PAGES
def test_complete_files_in_the_documentation_are_valid(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language in ("yaml", "yml") and FULL_FILE.match(block.text):
            path = tmp_path / f"line-{block.line}.yaml"
            path.write_text(block.text, encoding="utf-8")
            if re.search(r"^machines:", block.text, re.MULTILINE):
                assert load_platform(path).machines
            elif re.search(r"^profile:", block.text, re.MULTILINE):
                assert load_profile(path).settings
            elif re.search(r"^grid:", block.text, re.MULTILINE):
                assert read_grid(parse_document(block.text, str(path))).count > 1
            elif re.search(r"^services:", block.text, re.MULTILINE):
                assert read_services(open_source(path))
            elif not re.search(r"^tasks:", block.text, re.MULTILINE):
                assert load_scenario(path) != Scenario(name=path.stem)
            else:
                assert len(unfold(load_workflow(path))) > 0


@ALL_PAGES
def test_documented_commands_print_the_documented_output(page: Path, tmp_path: Path) -> None:
    here = playground(tmp_path)
    for block in blocks(page.read_text(encoding="utf-8")):
        write_named_file(block, here)
        for example in examples(block) if block.language == "console" else ():
            if not example.command.startswith("weft "):
                continue
            place = f"{page.relative_to(ROOT)}:{example.line}: {example.command}"
            code, output = run(example.command, here)
            assert "Traceback" not in output, place
            if example.expected is None:
                assert code == 0, f"{place}\n{output}"
            else:
                assert matches(example.expected, output), (
                    f"{place}\nshown:\n{example.expected}\nactual:\n{output}"
                )


@ALL_PAGES
def test_python_imports_in_the_documentation_work(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(block.text)) if block.language == "python" else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "weft":
                statement = ast.unparse(node)
                exec(statement, {})  # an ImportError names the page's statement
                assert statement.startswith("from weft")


def playground(tmp_path: Path) -> Path:
    """Create a copy of the project's folder for commands that write files."""
    here = tmp_path / "project"
    here.mkdir()
    for name in ("examples", "docs", "README.md"):
        if (ROOT / name).exists():
            (here / name).symlink_to(ROOT / name)
    command = tmp_path / "bin" / "weft"
    command.parent.mkdir()
    command.write_text(program())
    command.chmod(0o755)
    return here


def write_named_file(block: Block, here: Path) -> None:
    """Write a block to the file named in its first line ``# NAME.yaml``, for the commands that follow."""
    named = NAMED.match(block.text)
    if block.language in ("yaml", "yml") and named:
        (here / named["name"]).write_text(block.text, encoding="utf-8")


def run(command: str, here: Path) -> tuple[int, str]:
    variables = environment(PATH=f"{here.parent / 'bin'}{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run(
        command, shell=True, cwd=here, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


PAGE = """\
# A page: `weft plan`

See [there](#two-words) and [code](x.py "title"); not `[this](no.md)`.

```console
$ weft --version
weft 1.2.3
$ weft plan \\
>   a.yaml
...
$ ls
```

## Two words

    ```yaml
    weft: 1
    ```
"""


def test_a_page_is_split_into_blocks_and_examples() -> None:
    console, yaml = blocks(PAGE)
    assert (console.language, console.line, yaml.language, yaml.text) == ("console", 5, "yaml", "weft: 1\n")
    found = [(example.command, example.expected, example.line) for example in examples(console)]
    assert found == [("weft --version", "weft 1.2.3", 6), ("weft plan a.yaml", "...", 8), ("ls", None, 11)]
    assert links(PAGE) == ["#two-words", "x.py"]
    assert anchors(PAGE) == {"a-page-weft-plan", "two-words"}


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\nc\n", False),
        ("a\n...\nd", "a\nb\nc\nd\n", True),
        ("a\n...\nd", "a\nd\n", True),
        ("a\n...", "a\n", True),
        ("took ... s", "took 0.12 s", True),
        ("took ... s", "took 0.12\n s", False),
        ("a\n...\nd", "a\nb\n", False),
        ("a.c", "abc", False),
    ],
)
def test_ellipsis_matches_omitted_output(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


def test_wrong_console_example_is_detected(tmp_path: Path) -> None:
    here = playground(tmp_path)
    assert run("weft --version", here) == (0, f"weft {weft.__version__}\n")
    code, output = run("weft check nothing.yaml", here)
    assert code == 2
    assert matches("error: no file 'nothing.yaml'...", output)
