"""Secrets reach programs and servers, and nothing that weft prints, reports or stores."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from backends.attempt.web_server import Site, serving
from cli.projects import Project
from cli.shell import refused
from weft import redaction
from weft.api import report
from weft.api.project import OpenProject
from weft.api.run import resume, run
from weft.cli import logs
from weft.cli import main as command
from weft.errors import InvalidInput
from weft.private_files import write_file
from weft.repository.products import ProductTable

TOKEN, KEY = "t0ken-in-the-environment", "k3y in a file/+="
FLOW = """\
weft: 1
name: flow
secrets: {TOKEN: , KEY: {file: secret/key}, ALIAS: {env: OTHER}}
tasks:
  show:
    command: 'echo "out $TOKEN"; echo "err $KEY" >&2; printf %s "$TOKEN$KEY$ALIAS" | cksum > sum; test -z "${OTHER-}"'
    outputs: [sum]
  fetch: {command: "cp x y", inputs: [{file: x, from: "URL/x?token={TOKEN}"}], outputs: [y]}
  send: {command: "echo sent > z", outputs: {z: {to: "URL/z?sig={TOKEN}"}}}
  without: {command: 'echo "${TOKEN-none} ${KEY-none} ${OTHER-none}" > none', outputs: [none], secrets: []}
  lost: {command: "cat x", inputs: [{file: x, from: "URL/lost?token={TOKEN}"}], retries: 0}
  failed: {command: 'echo "$TOKEN"; echo "Authorization: Bearer $TOKEN" >&2; exit 3', retries: 0}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Iterator[Project]:
    monkeypatch.setattr(redaction, "_declared", redaction._DeclaredValues())
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", TOKEN)
    monkeypatch.setenv("OTHER", TOKEN)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text(f"{KEY}\n")
    yield Project(tmp_path, capsys)
    logger = logging.getLogger("weft")
    logger.handlers, logger.level = [], logging.NOTSET


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as found:
        found.files[f"/x?token={TOKEN}"] = b"fetched\n"
        yield found


def stored(project: Project, *, logs: bool = False) -> dict[str, bytes]:
    """Return the files of weft's state; without the sandboxes and, unless ``logs``, what programs wrote."""
    home = project.folder / ".weft"
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and "sandbox" not in path.parts and (logs or path.name not in ("out", "err"))
    }


def commands() -> Iterator[tuple[str, ...]]:
    yield from (("status",), ("status", "--json"), ("watch",), ("watch", "--json"), ("ls", "--json"))
    for task in ("show", "fetch", "lost", "failed"):
        yield from (("explain", task), ("explain", task, "--json", "-v"), ("logs", task))
        yield from (("logs", task, "--stderr"), ("logs", task, "--json"))
    yield from (("report",), ("report", "--json"), ("replay", "."), ("check", "w.yaml"), ("show", "w.yaml"))
    yield from (("report", f"--{kind}", "-") for kind in ("html", "trace", "events", "wfformat"))
    yield ("plan", "w.yaml", "--json")


def run_everything(project: Project) -> Iterator[tuple[str, str]]:
    """Run the workflow and every command that shows something about it; yield the names and outputs."""
    for words in (
        ("--log-level", "debug", "run", "w.yaml", "--keep-going"),
        ("run", "w.yaml", "--keep-going", "--json"),
        *commands(),
    ):
        done = project.weft(*words)
        assert done.code in (0, 1), done
        yield " ".join(words), done.out + done.err


def test_declared_secrets_are_neither_printed_nor_stored_by_weft(project: Project, site: Site) -> None:
    project.write("w.yaml", FLOW.replace("URL", site.url))
    for name, output in run_everything(project):
        assert TOKEN not in output, name
        assert KEY not in output, name
    for name, content in stored(project).items():
        assert TOKEN.encode() not in content, name
        assert KEY.encode() not in content, name
    assert any(TOKEN.encode() in content for content in stored(project, logs=True).values())


ECHOED = """\
weft: 1
name: flow
secrets: [TOKEN]
settings: {retries: 0}
tasks:
  path: {command: cat x, inputs: [{file: x, from: "URL/e/{TOKEN}"}]}
  query: {command: cat x, inputs: [{file: x, from: "URL/e?id={TOKEN}"}]}
  shared: {command: cat x, inputs: [{file: x, from: "URL/e/{TOKEN}/x", shared: true}]}
  moved: {command: cat x, inputs: [{file: x, from: "URL/moved/e/{TOKEN}"}]}
  sent: {command: echo sent > z, outputs: {z: {to: "URL/e/{TOKEN}/z"}}}
"""


@pytest.mark.parametrize("token", ["abcd%2Fefgh%3Dxyz", "Tok%7Een-1234", "pa ss+wörd&x=1/zz"])
def test_secrets_rewritten_by_a_library_or_server_are_neither_printed_nor_stored(
    project: Project, site: Site, monkeypatch: Any, token: str
) -> None:
    site.echoing = True
    monkeypatch.setenv("TOKEN", token)
    project.write("w.yaml", ECHOED.replace("URL", site.url))
    shown = [project.weft("--log-level", "debug", "run", "w.yaml", "--keep-going")]
    shown += [project.weft(*words) for words in (("status", "--json"), ("report", "--html", "-"))]
    shown += [project.weft("report", "--events", "-"), project.weft("explain", "moved", "-v")]
    texts = [done.out + done.err for done in shown]
    assert f"'{site.url}/e/{{TOKEN}}' cannot be fetched: the server answered 500" in texts[0]
    texts += [content.decode(errors="replace") for content in stored(project).values()]
    for text in texts:
        assert unquote(token).lower() not in unquote(text).lower()


def test_programs_and_servers_receive_the_values_of_secrets(project: Project, site: Site) -> None:
    project.write("w.yaml", FLOW.replace("URL", site.url))
    project.weft("run", "w.yaml", "--keep-going")
    assert (project.folder / "y").read_text() == "fetched\n"
    assert site.files[f"/z?sig={TOKEN}"] == b"sent\n"
    assert (project.folder / "none").read_text() == "none none none\n"
    project.write("sum.yaml", 'weft: 1\ntasks: {a: {command: "printf %s \'' + TOKEN + KEY + TOKEN
                  + "' | cksum > expected\", outputs: [expected]}}")  # fmt: skip
    project.weft("run", "sum.yaml")
    assert (project.folder / "sum").read_text() == (project.folder / "expected").read_text()


def test_selector_receives_the_secrets_of_its_task_and_not_their_sources(project: Project) -> None:
    folder = Path.cwd()
    seen = 'echo "${ALIAS-none} ${OTHER-none} ${TOKEN-none}" > seen'
    project.write("select.sh", f"#!/bin/sh\n{seen}\necho local\n", 0o755)
    project.write(
        "w.yaml",
        "weft: 1\nname: flow\nsecrets: {TOKEN: , ALIAS: {env: OTHER}}\n"
        "tasks: {a: {command: 'true', selector: ./select.sh, secrets: [ALIAS]}}\n",
    )
    assert run(folder / "w.yaml", on="local", project=folder).completed
    assert (folder / "seen").read_text().split() == [TOKEN, "none", "none"]


def test_script_of_an_attempt_requires_its_secrets_in_the_environment(project: Project, site: Site) -> None:
    project.write("w.yaml", 'weft: 1\nsecrets: [TOKEN]\ntasks: {a: {command: "echo $TOKEN"}}')
    assert project.weft("run", "w.yaml").code == 0
    (script,) = (project.folder / ".weft" / "attempts").rglob("command.sh")
    assert ': "${TOKEN:?set this secret first}"' in script.read_text()


def test_undeclared_secrets_are_stored_only_in_the_workflow_and_in_scripts(
    project: Project, site: Site
) -> None:
    address = site.url.replace("://", "://me:passw0rd-l3aked@")
    text = FLOW.partition("secrets:")[0] + (
        "tasks:\n"
        f"  lost: {{command: cat x, inputs: [{{file: x, from: '{address}/x?sig=s1gn-l3aked'}}], retries: 0}}\n"
        f"  failed: {{command: 'echo {address}/?token=t0k-l3aked; exit 3', retries: 0}}\n"
        "  show: {command: 'echo Authorization: Bearer b3arer-l3aked >&2'}\n"
        "  fetch: {command: 'true'}\n"
    )
    project.write("w.yaml", text)
    for name, output in run_everything(project):
        assert "l3aked" not in output, name
    for name, content in stored(project).items():
        if not name.startswith("weft.db") and not name.endswith("command.sh"):
            assert b"l3aked" not in content, name
    with OpenProject.at(str(project.folder)) as opened:
        for table in ("product", "run", "execution"):
            columns = "*" if table != "execution" else "owner, command, state"
            assert "l3aked" not in str(opened.database.rows(f"SELECT {columns} FROM {table}")), table
        events = [
            json.loads(record)["event"] for (record,) in opened.database.rows("SELECT record FROM entry")
        ]
        assert "l3aked" not in str(events)


def test_a_command_line_is_stored_without_its_secrets(project: Project, monkeypatch: Any) -> None:
    project.write("w.yaml", "weft: 1\nparams: {api_token: '', a: ''}\ntasks: {a: {command: 'true'}}")
    given = ["run", "w.yaml", "-p", "api_token=l3aked", "-p", "a=http://h/?sig=l3aked"]
    monkeypatch.setattr(sys, "argv", ["weft", *given])
    assert project.weft(*given).code == 0
    with OpenProject.at(str(project.folder)) as opened:
        assert opened.database.rows("SELECT command FROM execution") == [
            ('["weft","run","w.yaml","-p","api_token=***","-p","a=http://h/?sig=***"]',)
        ]


def test_run_with_a_missing_secret_is_refused_before_anything_starts(
    project: Project, monkeypatch: Any
) -> None:
    project.write(
        "w.yaml",
        "weft: 1\nsecrets: {TOKEN: , KEY: {file: no/key}}\ntasks: {a: {command: touch made, outputs: [made]}}",
    )
    monkeypatch.delenv("TOKEN")
    refused(project.weft("run", "w.yaml"), 2, "secret TOKEN: the environment variable TOKEN is not set", "export TOKEN=",
            "secret KEY: the file", "No such file")  # fmt: skip
    assert "no run yet" in project.weft("status").err
    for words in (("check", "w.yaml"), ("plan", "w.yaml"), ("run", "w.yaml", "-n"), ("simulate", "w.yaml")):
        assert project.weft(*words).code == 0


@pytest.mark.parametrize(
    ("file", "why"),
    [("pipe", "is not a regular file"), ("/dev/zero", "is not a regular file"), ("large", "is larger than")],
)
def test_a_secret_is_read_only_from_a_small_regular_file(project: Project, file: str, why: str) -> None:
    os.mkfifo(project.folder / "pipe")
    project.write("large", "x" * 70_000)
    project.write("w.yaml", f"weft: 1\nsecrets: {{KEY: {{file: {file}}}}}\ntasks: {{a: {{command: 'true'}}}}")
    refused(project.weft("run", "w.yaml"), 2, "secret KEY: the file", why)


def test_a_resumed_run_needs_its_secrets_and_uses_their_new_values(
    project: Project, monkeypatch: Any
) -> None:
    line = 'touch {here}/begun; test -e {here}/go || sleep 100; echo "$TOKEN" > made'
    task = {"command": line.replace("{here}", str(project.folder)), "outputs": ["made"]}
    flow = project.write("w.yaml", json.dumps({"weft": 1, "secrets": ["TOKEN"], "tasks": {"a": task}}))
    stopped = run(flow, project=project.folder, interrupted=(project.folder / "begun").exists)
    assert stopped.outcome == "interrupted"
    monkeypatch.delenv("TOKEN")
    with pytest.raises(InvalidInput, match="TOKEN is not set"):
        resume(project=project.folder)
    monkeypatch.setenv("TOKEN", "r0tated-value")
    project.write("go", "")
    assert resume(project=project.folder).completed
    assert (project.folder / "made").read_text() == "r0tated-value\n"


COUNTED = """\
weft: 1
secrets: {{TOKEN: {options}}}
tasks:
  uses: {{command: 'echo "$TOKEN" > made', outputs: [made]}}
  not: {{command: echo other > other, outputs: [other], secrets: []}}
"""


@pytest.mark.parametrize(("options", "kept"), [("", {"not"}), ("{fingerprint: false}", {"uses", "not"})])
def test_a_changed_secret_runs_its_tasks_again(
    project: Project, monkeypatch: Any, options: str, kept: set[str]
) -> None:
    project.write("w.yaml", COUNTED.format(options=options))
    assert project.weft("run", "w.yaml").code == 0
    same = project.weft("run", "w.yaml").out
    assert "uses: 1 reused" in same
    monkeypatch.setenv("TOKEN", "an0ther-value")
    changed = project.weft("run", "w.yaml").out
    assert {name for name in ("uses", "not") if f"{name}: 1 reused" in changed} == kept
    if "uses" not in kept:
        assert "environment variable TOKEN changed" in changed


def test_fingerprints_contain_a_keyed_hash_of_secrets(project: Project) -> None:
    project.write("w.yaml", COUNTED.format(options=""))
    found = []
    for _ in range(2):
        assert project.weft("run", "w.yaml", "--fresh").code == 0
        with OpenProject.at(str(project.folder)) as opened:
            number = opened.runs.all()[-1].execution
            names = {
                product.name: product
                for task in range(2)
                if (product := ProductTable(opened.database).of(number, 0, task)) is not None
            }
        found.append(json.loads(names["uses"].parts["environment"])["TOKEN"])
        assert "environment" not in names["not"].parts
        write_file(project.folder / ".weft" / "key", bytes(32))
    plain = hashlib.blake2b(TOKEN.encode(), digest_size=20).hexdigest()
    assert found[0] != found[1]
    assert not any(plain.startswith(each) for each in found)


def test_secret_name_in_braces_written_by_a_task_is_not_replaced_by_the_secret(
    project: Project, site: Site
) -> None:
    site.files[f"/got-%7BTOKEN%7D?key={TOKEN}"] = b"filled\n"
    project.write(
        "w.yaml",
        "weft: 1\nsecrets: [TOKEN]\ntasks:\n"
        "  a: {command: 'echo \"{{TOKEN}}\" > parts', outputs: [parts]}\n"
        "  b: {sweep: {p: 'lines(a.parts)'}, command: cat x, retries: 0, "
        f"inputs: [{{file: x, from: '{site.url}/got-{{p}}?key={{TOKEN}}'}}]}}\n",
    )
    project.weft("run", "w.yaml")
    assert site.requested
    assert not any(path.startswith(f"/got-{TOKEN}") for path in site.requested), site.requested


def test_check_notes_urls_with_secrets(project: Project) -> None:
    project.write(
        "w.yaml",
        "weft: 1\nparams: {base: 'https://me:passw0rd@host'}\nsecrets: [TOKEN]\ntasks:\n"
        "  a: {command: 'curl https://h/?sig=s1gned', inputs: [{file: x, from: 'https://h/x?token=t0ken'}],\n"
        "      outputs: {y: {to: 'https://h/y?token={TOKEN}'}}}\n",
    )
    done = project.weft("check", "w.yaml")
    assert done.code == 0
    notes = [line for line in done.out.splitlines() if "contains a secret" in line]
    assert len(notes) == 3
    assert all("declare `secrets: [TOKEN]`" in note for note in notes)
    assert not any(word in done.out for word in ("passw0rd", "s1gned", "t0ken"))


def test_the_journal_of_a_simulation_is_private(project: Project) -> None:
    url = "https://me:passw0rd@host/x?token=t0ken"
    project.write("w.yaml", f"weft: 1\ntasks: {{a: {{command: c, inputs: [{{file: x, from: '{url}'}}]}}}}\n")
    before = os.umask(0)
    try:
        assert project.weft("simulate", "w.yaml", "--on", "identical:1", "--journal", "j").code == 0
    finally:
        os.umask(before)
    journal = project.folder / "j"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    assert "passw0rd" in journal.read_text(), "a replay needs the workflow as it is"
    for words in (("replay", "j"), ("explain", "j", "a"), ("explain", "j", "a", "--json")):
        done = project.weft(*words)
        assert not any(word in done.out + done.err for word in ("passw0rd", "t0ken")), words


@pytest.mark.parametrize(("url", "mode"), [("https://host/x?token=t0ken", 0o600), ("https://host/x", 0o666)])
def test_a_converted_workflow_with_a_token_is_private(project: Project, url: str, mode: int) -> None:
    project.write("w.yaml", f"weft: 1\ntasks: {{a: {{command: c, inputs: [{{file: x, from: '{url}'}}]}}}}\n")
    project.write("old.yaml", "weft: 1\n", 0o666)
    before = os.umask(0)
    try:
        for name in ("new.yaml", "old.yaml"):
            assert project.weft("convert", "w.yaml", name).code == 0
            assert stat.S_IMODE((project.folder / name).stat().st_mode) == mode
            assert url in (project.folder / name).read_text()
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "--csv"),
        ("simulate", "--html"),
        ("plan", "--html"),
        ("plan", "--out"),
        ("compare", "--html", "--planner", "heft"),
        ("compare", "--csv", "--planner", "heft"),
        ("pareto", "--html", "--plan-steps", "5"),
        ("pareto", "--out", "--plan-steps", "5"),
    ],
)
def test_pages_and_tables_of_plans_contain_no_secrets(project: Project, words: tuple[str, ...]) -> None:
    url = "https://me:passw0rd@host/x?token=t0ken"
    project.write("w.yaml", f"weft: 1\nname: '{url}'\ntasks: {{a: {{sweep: {{u: ['{url}']}}, work: 1}}}}\n")
    name, option, *more = words
    done = project.weft(name, "w.yaml", "--on", "identical:2", option, "made.csv", *more)
    assert done.code == 0, done
    shown = done.out + (project.folder / "made.csv").read_text()
    assert not any(word in shown for word in ("passw0rd", "t0ken"))


LONG_TOKEN = "".join(f"p1ece{number:03}" for number in range(60))


def test_no_part_of_a_long_secret_is_shown_or_stored(project: Project, monkeypatch: Any) -> None:
    monkeypatch.setenv("TOKEN", LONG_TOKEN)
    many = "head -c 70000 /dev/zero | tr '\\0' x"
    commands = {
        "result": 'printf "[\\"$TOKEN\\"]" > "$WEFT_RESULT_FILE"',
        "progress": 'echo "$TOKEN" > "$WEFT_PROGRESS_FILE"; echo "$TOKEN ==" > gw_reqs; sleep 1.5',
        "complaint": 'echo "$TOKEN" > gw_perf; sleep 1.5',
        # The end that is read begins in the secret.
        "tail": f'{{ printf %s "$TOKEN"; {many} | head -c 65200; }} > gw_perf; sleep 1.5',
        "failed": 'printf %s "$TOKEN" >&2; printf %16200s . >&2; exit 3',
    }
    commands["tail"] = commands["tail"].replace("{", "{{").replace("}", "}}")
    tasks = {name: {"command": command} for name, command in commands.items()}
    described = {"weft": 1, "secrets": ["TOKEN"], "defaults": {"retries": 0}, "tasks": tasks}
    project.write("w.yaml", json.dumps(described))
    for words in (
        ("run", "w.yaml", "--keep-going"),
        ("report",),
        ("report", "--json"),
        ("report", "--html", "-"),
        ("status", "--json"),
        *(("explain", task, "-v") for task in commands),
        ("logs", "failed", "--stderr", "--json"),
    ):
        done = project.weft(*words)
        assert done.code in (0, 1), done
        assert "p1ece" not in done.out + done.err, words
    assert 'the result file contains ["***' in project.weft("explain", "result", "-v").out
    for name, content in stored(project).items():
        assert b"p1ece" not in content, name


def test_secret_is_redacted_where_a_log_is_cut(project: Project, monkeypatch: Any) -> None:
    monkeypatch.setenv("TOKEN", LONG_TOKEN)
    line = "head -c 900 /dev/zero | tr \\\\0 x; printf %s $TOKEN; head -c 200000 /dev/zero | tr \\\\0 y"
    project.write("w.yaml", f"weft: 1\nsecrets: [TOKEN]\ntasks: {{a: {{command: '{line}'}}}}\n")
    assert project.weft("run", "w.yaml").code == 0
    monkeypatch.setattr(logs, "_MOST_BYTES", 1000)
    monkeypatch.setattr(logs, "_LONGEST_LINE_BYTES", 1)
    monkeypatch.setattr(report, "_AT_ONCE", 1000)
    assert project.json("logs", "a")["out"].rstrip("y") == "x" * 900 + "***"
    assert project.weft("logs", "a").out == "x" * 900 + "***" + "y" * 200_000


def test_a_traceback_shows_no_secrets(project: Project, capsys: Any) -> None:
    redaction.hide_values([TOKEN])
    try:
        raise RuntimeError(f"{TOKEN} and https://me:passw0rd@host/")
    except RuntimeError as error:
        command._print_crash(type(error), error, error.__traceback__)
    shown = capsys.readouterr().err
    assert "RuntimeError: *** and https://me:***@host/" in shown
