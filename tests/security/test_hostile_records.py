"""Tasks that write into weft's own directories: only sealed records are accepted, and links are not followed."""

from __future__ import annotations

import json
import sys

from click.testing import CliRunner

from security.hostile_project import Place
from weft.cli.main import weft

_FORGE = """
import glob, json, os, socket, sys
runner = glob.glob(sys.argv[1] + "/.weft/runners/1/*")[0]
end = {"is": "ended", "attempt": int(sys.argv[2]), "code": 0, "signal": None, "cause": "", "text": "",
       "at": 1.0, "began": 0.0, "seconds": 1.0, "user_s": 0.0, "system_s": 0.0, "max_rss_bytes": 0}
text = json.dumps(end)
for name in ("ends", "starts", "beat", "pid"):
    with open(f"{runner}/{name}", "a") as file:
        file.write(text + "\\n" + "0" * 32 + " " + text + "\\n")
for folder in ("exit", "start"):
    os.makedirs(f"{runner}/{folder}", exist_ok=True)
    with open(f"{runner}/{folder}/{sys.argv[2]}", "w") as file:
        file.write(text)
os.chdir(runner)  # the whole path may be too long for a socket
for first in ({"do": "hello", "token": ""}, {"do": "hello", "token": "0" * 64}, end, [], 7):
    caller = socket.socket(socket.AF_UNIX)
    caller.connect("socket")
    caller.settimeout(5)
    try:
        caller.sendall(json.dumps(first).encode() + b"\\n" + json.dumps(
            {"do": "start", "attempt": 99, "argv": ["touch", sys.argv[1] + "/PWNED"], "cwd": "/"}).encode() + b"\\n")
        received = caller.recv(100)
    except ConnectionError:
        received = b""
    assert received == b"", received
(records,) = glob.glob(sys.argv[1] + "/.weft/attempts/1/" + sys.argv[2] + "-*")
with open(records + "/exitcode", "w") as file:
    file.write("0\\n")
"""


def _python(script: str, *words: str) -> list[str]:
    # Braces of the program are not template fields.
    return [sys.executable, "-c", script.replace("{", "{{").replace("}", "}}"), *words]


def test_forged_end_record_is_ignored(place: Place) -> None:
    script = f"{_FORGE}\nsys.exit(3)\n"
    place.run({"a": {"command": _python(script, str(place.project), "0")}})
    end = place.ends()["a"]
    assert (end.code, end.cause) == (3, "")
    assert not (place.project / "PWNED").exists()
    (written,) = place.project.glob(".weft/attempts/1/0-*/exitcode")
    assert written.read_text() == "3\n"
    assert place.ran is not None
    assert place.ran.outcome == "failed"


def test_links_in_place_of_records_are_replaced(place: Place) -> None:
    """Tasks replace their own records by symbolic and hard links, and then the folder of all records."""
    canary, records = place.outside / "canary", place.project / ".weft/attempts/1"
    swap = f"mv ../1 ../old; ln -s {place.outside}/folder ../1"
    tasks = {
        "a": {"command": f"cd {records}/0-*; ln -s {canary} exitcode; ln -sf {canary} command.sh"},
        "b": {"command": f"cd {records}/1-*; ln {canary} exitcode; ln -f {canary} command.sh; echo hi"},
        # The exit code of b is written after c was started.
        "c": {"command": f"cd {records}; until grep -q 0 1-*/exitcode; do sleep 0.02; done; {swap}"},
        "d": {"command": "echo hi; echo ho >&2"},
    }
    for name, before in (("b", "a"), ("c", "b"), ("d", "c")):
        tasks[name]["after"] = before
    place.run(tasks)
    ends, old = place.ends(), place.project / ".weft/attempts/old"
    assert [ends[name].code for name in "abc"] == [0, 0, 0]
    assert [path.read_text() for path in sorted(old.glob("[01]-*/exitcode"))] == ["0\n"] * 2
    assert [path.read_text() for path in old.glob("1-*/out")] == ["hi\n"]
    assert ends["d"].cause == "staging"
    assert f"{records}/3-" in ends["d"].text
    assert "a file or a link" in ends["d"].text


def test_logs_replaced_by_links_or_fifos_are_not_shown(place: Place) -> None:
    records = place.project / ".weft/attempts/1"
    place.run(
        {
            "a": {"command": f"cd {records}/0-*; rm *; ln -s {place.outside}/canary err; exit 1"},
            "b": {"command": f"cd {records}/1-*; rm *; mkfifo err out; exit 1"},
            "c": {"command": f"set {records}/2-*; rm -r $1; ln -s {place.outside}/folder $1; exit 1"},
        }
    )
    assert place.ran is not None
    assert "sings" not in str(place.ran)
    page = place.ran.write_reports() / "report.html"
    assert "sings" not in page.read_text()
    for name in "abc":
        reported = CliRunner().invoke(weft, ["logs", name, "--project", str(place.project)])
        assert "sings" not in reported.output
        reported = CliRunner().invoke(weft, ["logs", name, "--stderr", "--project", str(place.project)])
        assert "sings" not in reported.output


def test_restarted_runner_does_not_write_through_links(place: Place) -> None:
    """The task replaces the runner's records by hard links and kills the runner; another runner is started."""
    canary = place.outside / "canary"
    script = """
import glob, json, os, signal, sys, time
runner = glob.glob(sys.argv[1] + "/.weft/runners/1/*")[0]
pid = json.loads(open(runner + "/pid").read().partition(" ")[2])["pid"]
if not os.path.exists(sys.argv[1] + "/again"):
    open(sys.argv[1] + "/again", "w").close()
    for name in ("ends", "beat", "log"):
        os.unlink(f"{runner}/{name}")
        os.link(sys.argv[2], f"{runner}/{name}")
    os.kill(pid, signal.SIGKILL)
    time.sleep(60)
"""
    task = {
        "command": _python(script, str(place.project), str(canary)),
        "retries": {"lost": 3, "preempted": 3},
    }
    ran = place.run({"a": task})
    assert ran.completed, place.ends()
    canary.chmod(canary.stat().st_mode)


def test_link_in_place_of_the_runner_directory_is_refused(place: Place) -> None:
    runners = place.project / ".weft/runners"
    (place.project / "machines.yaml").write_text(
        "weft: 1\nmachines:\n  here: {backend: {kind: local}}\n  there: {backend: {kind: local}}\n"
    )
    swap = f"cd {runners}; mv 1 old; ln -s {place.outside}/folder 1"
    place.run(
        {
            "a": {"command": swap, "requirements": 'name == "here"'},
            "b": {"after": "a", "command": "echo hi", "requirements": 'name == "there"'},
        }
    )
    end = place.ends()["b"]
    assert end.cause == "lost"
    assert "no runner can be started" in end.text
    assert "a file or a link" in end.text


def test_clean_up_does_not_follow_links(place: Place) -> None:
    """The directory of a failed attempt is removed, but not the target of a link that replaced it."""
    (place.outside / "folder" / "0").mkdir()
    place._before = place._look()
    sandbox = place.project / ".weft/sandbox/here"
    swap = f"cd {sandbox}/*; mv 1 old; ln -s {place.outside}/folder 1; exit 99"
    script = f"test -e {place.project}/again || {{ touch {place.project}/again; {swap}; }}"
    place.run({"a": {"command": script.replace("{", "{{").replace("}", "}}"), "retries": 2}})
    assert (place.outside / "folder" / "0").is_dir()


def test_task_messages_are_escaped(place: Place) -> None:
    """Control characters and markup printed by a task are escaped on terminals and pages."""
    evil = "<script>alert(1)</script>\\033[2J\\033]0;pwned\\007"
    place.run({"a": {"command": f"printf '{evil}\\n' >&2; exit 1"}})
    assert place.ran is not None
    assert "\033" not in str(place.ran)
    page = (place.ran.write_reports() / "report.html").read_text()
    assert "<script>alert(1)" not in page
    assert json.dumps("\033")[1:-1] not in page
