"""Isolated programs see declared files only, have no network, and leave no process and no file behind."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from architecture.package import environment
from backends.runner.runner_bench import Bench, is_running
from isolation_tools import TOOLS, need_isolation
from patience import PATIENCE_S
from security.hostile_project import Place, wait_for
from weft.api.run import run
from weft.backends.attempt.command import RenderedJob
from weft.backends.attempt.isolation import find_isolation_problem, isolate_program
from weft.backends.runner.processes import list_processes
from weft.errors import InvalidInput
from weft.workflow.task import Isolation

_SLEEP = "98765"
"""Argument by which the processes of these tests are found."""
_WRITABLE = """\
import os
for entry in os.scandir("/proc"):
    if entry.name.isdecimal() or entry.is_symlink():
        continue
    names = [entry.path]
    names += [f"{folder}/{name}" for folder, _, files in os.walk(entry.path) for name in files]
    for name in names:
        if os.access(name, os.W_OK, follow_symlinks=False):
            print(name)
"""
_CHAIN = "import os\nwhile True:\n    if os.fork():\n        os._exit(0)\n    os.setsid()\n"
_APPTAINER = """\
#!/bin/sh
while [ "$1" != /bin/sh ]; do image=$1; shift; done
cat "$image"
exec "$@"
"""
"""A container program that prints the image."""
_LINES = "\n".join(f": line {number}" for number in range(12_000))
"""A command that exceeds the length of an argument."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Return the port of a server on this host that greets every client."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                client.sendall(b"hello\n")
                client.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def _tasks(place: Place, port: int) -> dict[str, dict[str, Any]]:
    connect = f"import socket; print(socket.create_connection(('127.0.0.1', {port}), 5).recv(9).decode())"
    network = f'{sys.executable} -I -c "{connect}" > net || echo none > net'
    canary, folder = place.outside / "canary", place.outside / "folder"
    return {
        "hidden": f"for f in {canary} {place.project}/flow.yaml /etc/shadow $HOME/.profile /var/log; do"
        " if [ -e $f ]; then echo $f; fi; done > hidden",
        "written": f"for f in {canary} /usr/new /etc/new /new; do"
        " if (echo x > $f) 2>/dev/null; then echo $f; fi; done > written",
        # Nothing is changed if this fails: files are not opened, and modes are those that were read.
        "kernel": f"{sys.executable} -I -S writable.py > kernel",
        "devices": "for f in null zero full random urandom tty; do"
        " if chmod $(stat -c %a /dev/$f) /dev/$f 2>/dev/null; then echo $f; fi; done > devices;"
        f' {sys.executable} -I -S -c "import os; os.fchmod(0, os.fstat(0).st_mode & 0o777)" 2>/dev/null'
        " && echo stdin >> devices; head -c 1 /dev/zero > /dev/null && echo used >> devices",
        "net": network,
        "loopback": f'{sys.executable} -I -c "import socket; s = socket.create_server((\'127.0.0.1\', 0));'
        " socket.create_connection(s.getsockname(), 5)\" && echo up > loopback",
        "tmp": f"mkdir -p {place.project}; echo x > {place.project}/new; echo x > /tmp/left; echo x > $HOME/left; ls /tmp > tmp; echo x > undeclared",
        "processes": f"if kill -0 {os.getpid()} 2>/dev/null; then echo seen; fi > processes; "
        "ls /proc | grep -c '^[0-9]' >> processes",
        "variables": "echo ${HOST_SECRET:-unset} ${MINE:-unset} ${DECLARED:-unset} > variables",
        "read": f"cat {folder}/canary > read; if (echo x > {folder}/canary) 2>/dev/null; then exit 3; fi",
        "open": network.replace(" net", " open"),
        "code": "exit 7",
        "first": "cat given; echo made > made; echo '{\"n\": 3}' > $WEFT_RESULT_FILE; echo 0.5 > $WEFT_PROGRESS_FILE",
        "second": "test {first.result.n} = 3; cat made > second",
        "daemon": f"setsid env -i sleep {_SLEEP} & sleep 0.1; echo ok > daemon",
        "long": f"{_LINES}\necho long > long",
        # Every process of the chain ends at once, after it has started the next one in a session of its own.
        "chain": f"{sys.executable} -I -S chain.py & sleep {_SLEEP}",
        "restart": 'if [ "$WEFT_RESTART" = 1 ]; then cat state > restart; else echo saved > state; exit 85; fi',
        "container": "echo started",
    }  # fmt: skip


def _described(place: Place, port: int, tool: str) -> dict[str, dict[str, Any]]:
    tasks: dict[str, dict[str, Any]] = {}
    for name, command in _tasks(place, port).items():
        outputs = [] if name == "code" else ["made" if name == "first" else name]
        tasks[name] = {"command": command, "outputs": outputs, "isolate": tool}
    tasks["variables"]["env"] = {"MINE": "mine"}
    tasks["read"]["isolate"] = {"with": tool, "read": [str(place.outside / "folder")]}
    tasks["open"]["isolate"] = {"with": tool, "network": True}
    tasks["kernel"]["inputs"] = ["writable.py"]
    tasks["first"]["inputs"] = ["given"]
    tasks["second"]["inputs"] = ["made"]
    tasks["chain"] |= {"time_limit": "1s", "inputs": ["chain.py"], "outputs": []}
    tasks["restart"]["checkpoint"] = ["state"]
    tools, image = place.project / "tools", place.project / "image.sif"
    tasks["container"] |= {
        "environment": {"container": str(image)},
        "env": {"PATH": f"{tools}:{os.defpath}"},
        "isolate": {"with": tool, "read": [str(tools)]},
        "stdout": "container",
    }
    # An absolute path is opened by the runner, outside the isolation.
    tasks["call"] = {
        "call": "shapes:area",
        "arguments": ["6"],
        "isolate": tool,
        "stdout": "call",
        "outputs": ["call"],
    }
    return tasks


@pytest.fixture(scope="module", params=TOOLS)
def isolated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, port: int
) -> Iterator[Place]:
    """Return one run of isolated tasks, each of which tries one thing."""
    tool = request.param
    need_isolation(tool)
    place = Place(tmp_path_factory.mktemp(tool))
    (place.project / "given").write_text("given\n")
    (place.project / "chain.py").write_text(_CHAIN)
    (place.project / "writable.py").write_text(_WRITABLE)
    (place.project / "image.sif").write_text("image\n")
    (place.project / "tools").mkdir()
    (place.project / "tools" / "apptainer").write_text(_APPTAINER)
    (place.project / "tools" / "apptainer").chmod(0o755)
    (place.project / "shapes.py").write_text("def area(side):\n    print(int(side) ** 2)\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOST_SECRET", "hunter2")
        patch.setenv("DECLARED", "swordfish")
        place.run(_described(place, port, tool), secrets=["DECLARED"])
    yield place
    place.assert_nothing_touched()


def _made(place: Place, name: str) -> str:
    end = place.ends()[name]
    assert (end.cause, end.code) == ("", 0), end
    return place.made(name)


def test_undeclared_files_are_not_visible_to_an_isolated_program(isolated: Place) -> None:
    assert _made(isolated, "hidden") == ""


def test_isolated_program_cannot_write_outside_its_directory(isolated: Place) -> None:
    assert _made(isolated, "written") == ""
    assert not (isolated.project / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns the kernel's settings and the devices")
def test_settings_of_the_kernel_and_devices_cannot_be_written(isolated: Place) -> None:
    assert _made(isolated, "kernel") == ""
    assert _made(isolated, "devices") == "used\n"


def test_the_network_is_not_reachable_unless_it_is_requested(isolated: Place) -> None:
    assert _made(isolated, "net") == "none\n"
    assert _made(isolated, "open").startswith("hello")
    assert _made(isolated, "loopback") == "up\n", "the program has a loopback interface of its own"


def test_files_that_an_isolated_program_writes_to_tmp_and_home_are_not_kept(isolated: Place) -> None:
    assert "left" in _made(isolated, "tmp").split()
    assert not Path("/tmp/left").exists()
    assert not Path("~/left").expanduser().exists()
    assert not (isolated.project / "undeclared").exists()


def test_processes_of_the_host_are_not_visible_to_an_isolated_program(isolated: Place) -> None:
    assert int(_made(isolated, "processes")) < 10


def test_isolated_program_inherits_only_declared_variables(isolated: Place) -> None:
    assert _made(isolated, "variables") == "unset mine swordfish\n"


def test_folders_that_may_be_read_cannot_be_written(isolated: Place) -> None:
    assert _made(isolated, "read") == "sings\n"


def test_exit_code_result_and_files_of_an_isolated_program_reach_the_engine(isolated: Place) -> None:
    assert isolated.ends()["code"].code == 7
    assert _made(isolated, "second") == "made\n"
    assert _made(isolated, "long") == "long\n"
    assert _made(isolated, "call").strip() == "36"


def test_daemons_end_with_the_isolated_program(isolated: Place) -> None:
    assert _made(isolated, "daemon") == "ok\n"
    assert wait_for(lambda: not _find_processes(_SLEEP))
    # The kernel has ended them with the namespace.
    assert isolated.ran is not None
    assert {each.strays for each in isolated.ran.report.executed.attempts} == {0}


def _find_processes(argument: str) -> list[int]:
    """Return the running processes with an argument."""
    found = []
    for process in list_processes():
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found += [process.pid] if argument.encode() in words else []
    return [pid for pid in found if is_running(pid)]


def test_processes_that_start_each_other_are_ended(isolated: Place) -> None:
    assert isolated.ends()["chain"].cause == "timeout"
    assert wait_for(lambda: not _find_processes("chain.py"))


def test_restart_files_and_container_images_are_visible(isolated: Place) -> None:
    assert _made(isolated, "restart") == "saved\n"
    assert _made(isolated, "container") == "image\nstarted\n"


@pytest.mark.parametrize("tool", TOOLS)
def test_sigterm_reaches_the_isolated_program(tmp_path: Path, tool: str) -> None:
    need_isolation(tool)
    bench = Bench(tmp_path)
    try:
        trap = f"trap 'echo saved > saved; kill $!; exit 3' TERM; echo 1 > ready; sleep {_SLEEP} & wait"
        job = RenderedJob(
            task="a", argv=("/bin/sh", "-c", trap), env={}, workdir=str(bench.work), stdin=None, stdout="out",
            stderr="err", words={}, variables={}, declared={}, isolation=Isolation(tool=tool),
        )  # fmt: skip
        argv, env = isolate_program(job, str(tmp_path))
        bench.start(1, *argv, env=env, isolated=True)
        bench.written("ready")
        bench.send({"do": "cancel", "attempt": 1, "grace_s": PATIENCE_S})
        end = bench.wait_for_end(1)
        assert (end["cause"], end["code"]) == ("cancelled", 3)
        assert bench.written("saved") == "saved"
    finally:
        bench.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("tool", TOOLS)
def test_mounts_inside_a_folder_cannot_be_written(place: Place, tool: str) -> None:
    need_isolation(tool)
    outer, inner = place.project / "outer", place.project / "inner"
    (outer / "mounted").mkdir(parents=True)
    inner.mkdir()
    command = f"if (echo x > {outer}/mounted/new) 2>/dev/null; then exit 3; fi; ls {outer} > seen"
    isolate = {"with": tool, "read": [str(outer)]}
    tasks = {"a": {"command": command, "outputs": ["seen"], "isolate": isolate}}
    (place.project / "flow.yaml").write_text(json.dumps({"weft": 1, "name": "mounts", "tasks": tasks}))
    script = f"mount --bind {inner} {outer}/mounted && exec {sys.executable} -m weft run flow.yaml -q"
    subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=place.project, env=environment(), check=True
    )
    assert place.made("seen") == "mounted\n"
    assert not list(inner.iterdir())


def test_option_isolate_applies_to_all_tasks_that_do_not_state_their_isolation(place: Place) -> None:
    need_isolation("bubblewrap")
    hidden = f"if [ -e {place.outside}/canary ]; then echo seen; else echo hidden; fi"
    tasks = {
        "a": {"command": f"{hidden} > a", "outputs": ["a"]},
        "b": {"command": f"{hidden} > b", "outputs": ["b"], "isolate": "none"},
    }
    flow = place.project / "flow.yaml"
    flow.write_text(json.dumps({"weft": 1, "name": "option", "tasks": tasks}))
    assert run(flow, project=place.project, isolate="bubblewrap").completed
    assert (place.made("a"), place.made("b")) == ("hidden\n", "seen\n")
    # A result of an isolated task is not one of a task that may have read undeclared files.
    again = run(flow, project=place.project)
    assert again.completed
    assert place.made("a") == "seen\n"
    assert again.report.executed.taken_over == 1


def test_missing_bubblewrap_is_refused_before_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "true"):
        (tools / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tools))
    find_isolation_problem.cache_clear()
    try:
        with pytest.raises(
            InvalidInput, match=r"'a' cannot be isolated: bwrap is not installed.*apt-get install"
        ):
            place.run({"a": {"command": "true", "isolate": "bubblewrap"}})
    finally:
        find_isolation_problem.cache_clear()
    assert not (place.project / ".weft").exists()


@pytest.mark.parametrize(
    ("isolate", "said"),
    [
        ("firejail", "firejail"),
        ({"with": "bubblewrap", "read": ["data"]}, "absolute path"),
        ({"with": "bubblewrap", "read": ["/"]}, "absolute path"),
        ({"with": "none", "network": True}, "not isolated"),
        ({"tool": "bubblewrap"}, "tool"),
    ],
)
def test_invalid_isolation_setting_is_refused(place: Place, isolate: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        place.run({"a": {"command": "true", "isolate": isolate}})
