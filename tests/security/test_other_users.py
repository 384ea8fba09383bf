"""Another user of the computer can read, list, change, lock or connect to nothing of a running project."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.package import environment
from cli.projects import wait_for
from cli.warm_process import weft
from patience import PATIENCE_S

_FLOW = """\
weft: 1
name: flow
secrets: [TOKEN]
defaults: {sweep: {case: [1, 2]}, requirements: speed == case}
tasks:
  reads:
    command: cat x y; mkdir -p sub; echo made > sub/made.{case}
    inputs: [x, {file: y, shared: true}]
    outputs: ["sub/made.{case}"]
  waits:
    after: "reads[case]"
    command: 'echo begun; echo one > restart; while [ ! -e FOLDER/go ]; do sleep 0.1; done'
    checkpoint: {files: [restart], every: 1s}
"""
_MACHINES = """\
weft: 1
machines:
  inside: {nodes: 2, speed: 1, backend: {kind: local}}
  outside: {nodes: 2, speed: 2, backend: {kind: local, sandbox: FOLDER/sandbox}}
"""
_ATTACK = """if True:
    import fcntl, json, os, socket, sys
    user, folder, paths = int(sys.argv[1]), sys.argv[2], json.load(sys.stdin)
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    done = []

    def attempt(what, path, act):
        try:
            act()
        except OSError:
            return
        done.append(f"{what} {path}")

    def lock(path, how):
        file = os.open(path, os.O_RDONLY)
        fcntl.flock(file, how)

    def connect(path):
        with socket.socket(socket.AF_UNIX) as opened:
            opened.connect(path)

    for path in paths:
        attempt("stat", path, lambda: os.stat(path))
        attempt("read", path, lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        attempt("write", path, lambda: os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        attempt("list", path, lambda: os.listdir(path))
        attempt("lock", path, lambda: lock(path, fcntl.LOCK_SH | fcntl.LOCK_NB))
        attempt("connect to", path, lambda: connect(path))
        attempt("create in", path, lambda: os.open(path + "/planted", os.O_CREAT | os.O_WRONLY))
        attempt("rename", path, lambda: os.rename(path, path + ".moved"))
        attempt("link", path, lambda: os.link(path, folder + "/open/linked"))
        attempt("change", path, lambda: os.chmod(path, 0o777))
        attempt("remove", path, lambda: os.unlink(path))
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) in PIDS:
            attempt("list", f"/proc/{pid}/fd", lambda: os.listdir(f"/proc/{pid}/fd"))
            attempt("follow", f"/proc/{pid}/cwd", lambda: os.readlink(f"/proc/{pid}/cwd"))
            for name in ("environ", "mem"):
                attempt("read", f"/proc/{pid}/{name}", lambda: os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
            attempt("signal", pid, lambda: os.kill(int(pid), 0))
    open(folder + "/open/seen", "w").close()  # the attack can reach the project's own folder
    json.dump(done, sys.stdout)
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return a folder that every user can enter; pytest's own folders are private."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module", params=[0o000, 0o022])
def running(folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return a project whose engine runs with a umask, with a program in each kind of sandbox."""
    project = folder / f"project-{request.param:o}"
    project.mkdir(mode=0o755)
    (project / "open").mkdir()
    (project / "open").chmod(0o777)
    for name, text in (
        ("flow.yaml", _FLOW),
        ("machines.yaml", _MACHINES),
        ("x", "input\n"),
        ("y", "shared\n"),
    ):
        (project / name).write_text(text.replace("FOLDER", str(project)))
    engine = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "flow.yaml", "--on", "machines.yaml", "--quiet"],
        cwd=project, env=environment(TOKEN="t0ken-value"), umask=request.param, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(lambda: _has_begun(project, engine))
        yield project
        (project / "go").touch()
        assert engine.wait(PATIENCE_S) == 0
    finally:
        (project / "go").touch()
        engine.wait(PATIENCE_S)


def _has_begun(project: Path, engine: subprocess.Popen[bytes]) -> bool:
    """Return whether both programs wait and their restart files are kept, so that nothing changes now."""
    assert engine.poll() is None
    logs = [log for log in (project / ".weft").glob("attempts/*/*/out") if "begun" in log.read_text()]
    return len(logs) == len(list((project / ".weft").glob("checkpoints/*/*/current"))) == 2


def state_paths(project: Path) -> list[Path]:
    roots = [project / ".weft", *(project / "sandbox").iterdir()]
    return [*roots, *(path for root in roots for path in root.rglob("*"))]


def find_mode(path: Path) -> int | None:
    """Return type and permissions of a path; None if it was a temporary file that is gone."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return None


def test_project_state_used_by_these_tests_contains_every_kind_of_file(running: Path) -> None:
    names = {path.name for path in state_paths(running)}
    kinds = {stat.S_IFMT(mode) for path in state_paths(running) if (mode := find_mode(path)) is not None}
    expected = {
        "weft.db",
        "weft.db-wal",
        "weft.db-shm",
        "lock",
        "key",
        "command.sh",
        "out",
        "err",
        "socket",
        "starts",
        "cache",
    }
    assert expected <= names
    assert {stat.S_IFREG, stat.S_IFDIR, stat.S_IFSOCK} <= kinds


def test_all_state_is_private_whatever_the_umask(running: Path) -> None:
    home = running / ".weft"
    for path in (home, *home.rglob("*")):
        parts = path.relative_to(home).parts
        if "sandbox" in parts[:1]:
            continue  # files of programs, below a private folder
        if (found := find_mode(path)) is None:
            continue
        mode = stat.S_IMODE(found)
        assert mode == (0o700 if stat.S_ISDIR(found) else mode & 0o600), f"{path} {mode:o}"
    for sandbox in [*(home / "sandbox").iterdir(), *(running / "sandbox").iterdir()]:
        assert stat.S_IMODE(sandbox.lstat().st_mode) == 0o700, sandbox


@pytest.mark.parametrize("user", [65534, 54321])
def test_another_user_cannot_access_state_or_processes(running: Path, user: int) -> None:
    paths = [str(path) for path in state_paths(running) if path != running / ".weft"]
    pids = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _is_ours(entry, running)
    ]
    assert len(pids) >= 3, "engine, runner and program"
    done = subprocess.run(
        [sys.executable, "-c", _ATTACK.replace("PIDS", repr(set(pids))), str(user), str(running)],
        input=json.dumps(paths), env=environment(PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    assert (running / "open" / "seen").exists()
    (running / "open" / "seen").unlink()


def _is_ours(entry: Path, project: Path) -> bool:
    try:
        command = (entry / "cmdline").read_bytes().decode(errors="replace")
        return str(project) in command or (entry / "cwd").readlink().is_relative_to(project)
    except OSError:
        return False


def test_state_folder_that_others_can_enter_becomes_private_with_a_notice(folder: Path) -> None:
    project = folder / "old"
    (project / ".weft").mkdir(parents=True)
    (project / ".weft").chmod(0o755)
    (project / ".weft" / "lock").touch()
    (project / ".weft" / "lock").chmod(0o644)
    (project / "w.yaml").write_text("weft: 1\ntasks: {a: {command: 'true'}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "w.yaml", "--quiet"],
        cwd=project, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "was open to other users" in done.stderr
    assert stat.S_IMODE((project / ".weft").stat().st_mode) == 0o700
    assert stat.S_IMODE((project / ".weft" / "lock").stat().st_mode) == 0o600


_LOCK = """if True:
    import os, sys
    from pathlib import Path
    from weft.errors import WeftError
    from weft.runtime.lock import Lock, LockOwner
    LockOwner.this_process(())  # imports what another user cannot read
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
    try:
        Lock(Path(sys.argv[1]))
    except WeftError as error:
        print(error)
"""


def test_state_folder_of_another_user_is_refused_although_it_is_writable(folder: Path) -> None:
    home = folder / "foreign" / ".weft"
    home.mkdir(parents=True)
    home.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", _LOCK, str(home / "lock")],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert "belongs to another user, root (uid 0); run weft as that user, or use a copy" in done.stdout
    assert not list(home.iterdir())


_OTHER = 54321


def _make_project(folder: Path, sandbox: str = "") -> Path:
    """Return the new project of another user, with a workflow and a machine."""
    project = Path(tempfile.mkdtemp(dir=folder))
    (project / "w.yaml").write_text("weft: 1\ntasks: {a: {command: echo one > one, outputs: [one]}}\n")
    backend = json.dumps({"kind": "local", **({"sandbox": sandbox} if sandbox else {})})
    (project / "m.yaml").write_text(f"weft: 1\nmachines: {{here: {{nodes: 1, backend: {backend}}}}}\n")
    project.chmod(0o755)
    os.chown(project, _OTHER, _OTHER)
    return project


@pytest.mark.parametrize("words", [("run", "w.yaml"), ("resume",), ("status",), ("clean",), ("ls",)])
def test_root_does_not_use_the_state_of_another_user(folder: Path, words: tuple[str, ...]) -> None:
    project = _make_project(folder)
    assert weft("run", "w.yaml", folder=project).code == 0, "the folder itself may belong to another user"
    for path in (project / ".weft", *(project / ".weft").rglob("*")):
        os.lchown(path, _OTHER, _OTHER)
    done = weft(*words, folder=project)
    assert done.code == 2, done
    assert f"/.weft' belongs to another user, uid {_OTHER};" in done.err
    assert "run weft as that user" in done.err
    # In a folder below it is no obstacle: another user could plant one in /tmp.
    (project / "below").mkdir()
    (project / "below" / "w.yaml").write_text((project / "w.yaml").read_text())
    assert weft("run", "w.yaml", folder=project / "below").code == 0


def test_root_does_not_use_a_lock_of_another_user(folder: Path) -> None:
    project = _make_project(folder)
    (project / ".weft").mkdir(mode=0o700)
    (project / ".weft" / "lock").touch()
    os.chown(project / ".weft" / "lock", _OTHER, _OTHER)
    done = weft("run", "w.yaml", folder=project)
    assert done.code == 1, done
    assert f"it belongs to another user ({_OTHER}); remove it" in done.err


@pytest.mark.parametrize(
    ("mode", "owner", "parent_mode", "said"),
    [
        (0o700, _OTHER, 0o755, f"belongs to another user, uid {_OTHER}; others could replace"),
        (0o1777, _OTHER, 0o755, f"belongs to another user, uid {_OTHER}; others could replace"),
        (0o777, 0, 0o755, "/sandbox' can be written by other users; others could replace"),
        (0o770, 0, 0o755, "/sandbox' can be written by other users; others could replace"),
        (0o700, 0, 0o777, "which contains a sandbox, can be written by other users"),
        (None, 0, 0o777, "which contains a sandbox, can be written by other users"),
        (0o1777, 0, 0o755, ""),
        (0o755, 0, 0o1777, ""),
        (None, 0, 0o1777, ""),
    ],
)
def test_a_sandbox_in_which_others_can_replace_directories_is_refused(
    folder: Path, mode: int | None, owner: int, parent_mode: int, said: str
) -> None:
    parent = Path(tempfile.mkdtemp(dir=folder))
    parent.chmod(parent_mode)
    if mode is not None:
        (parent / "sandbox").mkdir()
        (parent / "sandbox").chmod(mode)
        os.chown(parent / "sandbox", owner, _OTHER)
    project = _make_project(folder, sandbox=str(parent / "sandbox"))
    for words in (
        ("check", "m.yaml"),
        ("check", "w.yaml", "--on", "m.yaml"),
        ("run", "w.yaml", "--on", "m.yaml"),
    ):
        done = weft(*words, folder=project)
        assert done.code == (2 if said else 0), done
        assert said in done.err
    assert (project / "one").exists() == (not said)


def test_the_directory_of_a_project_in_a_sandbox_belongs_to_its_user(folder: Path) -> None:
    parent = Path(tempfile.mkdtemp(dir=folder))
    project = _make_project(folder, sandbox=str(parent / "sandbox"))
    assert weft("run", "w.yaml", "--on", "m.yaml", folder=project).code == 0
    (own,) = (parent / "sandbox").iterdir()
    shutil.rmtree(own)
    own.mkdir(mode=0o777)
    os.chown(own, _OTHER, _OTHER)
    done = weft("run", "w.yaml", "--on", "m.yaml", "--fresh", "--retries", "0", folder=project)
    assert done.code == 1, done
    assert f"belongs to another user, uid {_OTHER}" in done.out + done.err
    assert not list(own.iterdir())


_RENAME = """if True:
    import os, sys
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
    try:
        os.rename(sys.argv[1] + "/.weft", sys.argv[1] + "/taken")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("words", [("run", "w.yaml"), ("status",), ("clean",)])
def test_project_folder_that_every_user_can_write_is_refused(folder: Path, words: tuple[str, ...]) -> None:
    project = _make_project(folder)
    os.chown(project, 0, 0)
    project.chmod(0o777)
    done = weft(*words, folder=project)
    assert done.code == 2, done
    assert "every user can write to the project folder" in done.err
    assert f"chmod +t '{project}'" in done.err
    assert not (project / ".weft").exists()
    project.chmod(0o1777)
    assert weft("run", "w.yaml", folder=project).code == 0
    rename = [sys.executable, "-c", _RENAME, str(project)]
    said = subprocess.run(rename, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert said == "Operation not permitted\n"


@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [
        (0o775, 0, f"the group {_OTHER} can write to the project folder"),
        (0o755, _OTHER, f"belongs to another user, uid {_OTHER}, who can replace its '.weft'"),
        (0o1775, 0, ""),
        (0o755, 0, ""),
    ],
)
def test_run_in_a_shared_project_folder_warns(folder: Path, mode: int, owner: int, said: str) -> None:
    project = _make_project(folder)
    os.chown(project, owner, _OTHER)
    project.chmod(mode)
    done = weft("run", "w.yaml", "--quiet", folder=project)
    assert done.code == 0, done
    assert said in done.err
    assert ("can replace its '.weft'" in done.err) == bool(said)


_REMOVED = """\
weft: 1
tasks:
  a: {command: 'mv FOLDER/.weft FOLDER/taken; sleep SECONDS'}
  b: {command: 'true', after: a}
"""


@pytest.mark.parametrize("umask", [0o000, 0o022])
@pytest.mark.parametrize("seconds", [0, 3], ids=["by the next attempt", "by the check of its machine"])
def test_state_folder_that_is_renamed_during_a_run_is_not_created_again(
    folder: Path, umask: int, seconds: int
) -> None:
    project = _make_project(folder)
    text = _REMOVED.replace("FOLDER", str(project)).replace("SECONDS", str(seconds))
    (project / "w.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "weft", "run", "w.yaml", "--quiet"],
        cwd=project, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        umask=umask,
    )  # fmt: skip
    assert done.returncode == 1
    assert "was moved to" in done.stderr
    assert not (project / ".weft").exists()
    home = project / "taken"
    found = [home, *home.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_dir()} == {0o700}
    assert not any(path.stat().st_mode & 0o077 for path in found if path.is_file())
