"""Connections to real ssh hosts, and what is reported when they fail."""

from __future__ import annotations

import hashlib
import os
import select
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from patience import PATIENCE_S
from ssh_hosts import SshHost, SshHosts, make_key
from weft.backends.attempt.backend import ProgramBackend
from weft.backends.layout import ProjectLayout
from weft.backends.ssh.backend import SshMachine
from weft.backends.ssh.connection import ConnectionState, HostConnection, HostConnections, LineChannel
from weft.backends.ssh.host import HostError, HostFailure, HostSettings, read_host_settings
from weft.errors import InvalidInput
from weft.platform.machine import Machine

LARGE_BYTES = 24 << 20


def settings_of(hosts: SshHosts, host: SshHost, **others: object) -> HostSettings:
    return HostSettings(host=host.name, config=str(hosts.config), **others)


@pytest.fixture
def first(ssh_hosts: SshHosts, connections: HostConnections) -> HostConnection:
    connection = connections.host(settings_of(ssh_hosts, ssh_hosts[0]))
    connection.connect(PATIENCE_S)
    return connection


def receive_lines(channel: LineChannel, count: int) -> list[bytes]:
    """Return the next lines; fewer if the channel ends before."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    lines: list[bytes] = []
    while len(lines) < count:
        assert poll.poll(PATIENCE_S * 1000), "no line"
        if (more := channel.receive()) is None:
            break
        lines += more
    return lines


def wait_for_end(channel: LineChannel) -> None:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    while channel.receive() is not None:
        assert poll.poll(PATIENCE_S * 1000), "the end was not noticed"


def wait_for_state(connection: HostConnection, state: ConnectionState) -> None:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while connection.take_state() is not state:
        assert poll.poll(PATIENCE_S * 1000), f"still {connection.state}"


def refused(connections: HostConnections, settings: HostSettings, timeout_s: float = PATIENCE_S) -> HostError:
    with pytest.raises(HostError) as caught:
        connections.host(settings).connect(timeout_s)
    return caught.value


def write_random_file(path: Path) -> str:
    path.write_bytes(os.urandom(LARGE_BYTES))
    return hashlib.sha256(path.read_bytes()).hexdigest()


class TestCommands:
    def test_output_code_and_input_are_passed(self, first: HostConnection) -> None:
        assert first.run(["hostname"]) == (0, b"host1\n", b"")
        assert first.run(["sh", "-c", "cat; echo no >&2; exit 3"], b"yes\0") == (3, b"yes\0", b"no\n")
        assert first.run(["sh", "-c", "kill -TERM $$"]).code == -15

    def test_arguments_arrive_unchanged(self, first: HostConnection) -> None:
        words = ["a b", "", "'", '"$HOME"', "`id`", "*", "back\\slash", "two\nlines", "ž", ";"]
        out = first.run(["printf", r"%s\0", *words]).out
        assert out.decode().split("\0")[:-1] == words

    def test_missing_command_is_named(self, first: HostConnection) -> None:
        with pytest.raises(HostError, match="host1: no command 'no-such-program'") as caught:
            first.run(["no-such-program", "x"])
        assert caught.value.cause is HostFailure.NO_COMMAND

    def test_two_threads_at_once(self, ssh_hosts: SshHosts, connections: HostConnections) -> None:
        answers: dict[str, list[bytes]] = {}

        def ask(host: SshHost) -> None:
            connection = connections.host(settings_of(ssh_hosts, host))
            connection.connect(PATIENCE_S)
            answers[host.name] = [connection.run(["hostname"]).out for _ in range(3)]

        threads = [threading.Thread(target=ask, args=(host,)) for host in list(ssh_hosts)[:2]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == {"host1": [b"host1\n"] * 3, "host2": [b"host2\n"] * 3}


class TestLines:
    def test_lines_go_both_ways(self, first: HostConnection) -> None:
        channel = first.open_lines(["cat"])
        sent = [b"%d" % number for number in range(1000)] + [b"x" * 300_000, b""]
        for line in sent:
            channel.send(line)
        assert receive_lines(channel, len(sent)) == sent
        channel.close()

    def test_end_of_the_program_is_reported(self, first: HostConnection) -> None:
        channel = first.open_lines(["sh", "-c", "echo last; echo why >&2; exit 4"])
        assert receive_lines(channel, 2) == [b"last"]
        assert (channel.receive(), channel.exit_code, channel.error) == (None, 4, None)
        assert channel.stderr == b"why\n"
        channel.close()

    def test_unread_lines_are_not_lost(self, first: HostConnection) -> None:
        channel = first.open_lines(
            ["sh", "-c", "yes 0123456789012345678901234567890123456789 | head -500000"]
        )
        assert len(receive_lines(channel, 500_001)) == 500_000
        channel.close()

    def test_missing_program_ends_the_channel(self, first: HostConnection) -> None:
        channel = first.open_lines(["no-such-program"])
        wait_for_end(channel)
        assert channel.error is not None
        assert channel.error.cause is HostFailure.NO_COMMAND
        channel.close()


class TestFiles:
    def test_cut_copies_resume(self, ssh_hosts: SshHosts, first: HostConnection, tmp_path: Path) -> None:
        digest = write_random_file(tmp_path / "sent")
        first.make_folder("a/b")
        first.make_folder("a/b")

        def cut(reached: int) -> None:
            if reached > LARGE_BYTES // 3:
                ssh_hosts[0].cut_connections()

        with pytest.raises(HostError) as caught:
            first.put(tmp_path / "sent", "a/b/file", progress=cut)
        assert caught.value.cause is HostFailure.LOST
        first.connect(PATIENCE_S)
        sent_bytes = first.put(tmp_path / "sent", "a/b/file")
        assert 0 < sent_bytes < LARGE_BYTES
        assert first.run(["sha256sum", "a/b/file"]).out.split()[0].decode() == digest

        with pytest.raises(HostError) as caught:
            first.get("a/b/file", tmp_path / "received", progress=cut)
        assert caught.value.cause is HostFailure.LOST
        first.connect(PATIENCE_S)
        assert 0 < first.get("a/b/file", tmp_path / "received") < LARGE_BYTES
        assert hashlib.sha256((tmp_path / "received").read_bytes()).hexdigest() == digest
        first.run(["rm", "-r", "a"])

    def test_longer_files_are_replaced(self, first: HostConnection, tmp_path: Path) -> None:
        (tmp_path / "short").write_bytes(b"short")
        (tmp_path / "long").write_bytes(b"much longer")
        first.put(tmp_path / "long", "file")
        first.put(tmp_path / "short", "file")
        assert first.run(["cat", "file"]).out == b"short"
        first.get("file", tmp_path / "long")
        assert (tmp_path / "long").read_bytes() == b"short"

    def test_full_disk_is_reported_and_leaves_no_hole(
        self, ssh_hosts: SshHosts, first: HostConnection, tmp_path: Path
    ) -> None:
        digest = write_random_file(tmp_path / "sent")
        filling = ssh_hosts.disk_bytes - LARGE_BYTES // 2
        first.run(["fallocate", "-l", str(filling), "filling"])
        with pytest.raises(HostError, match="no space left for file") as caught:
            first.put(tmp_path / "sent", "file", resume=False)
        assert caught.value.cause is HostFailure.DISK_FULL
        first.run(["rm", "filling"])
        assert 0 < first.put(tmp_path / "sent", "file") < LARGE_BYTES
        assert first.run(["sha256sum", "file"]).out.split()[0].decode() == digest
        first.run(["rm", "file"])

    def test_failures_tell_the_cause(self, first: HostConnection, tmp_path: Path) -> None:
        (tmp_path / "x").touch()
        with pytest.raises(HostError, match="no file absent") as caught:
            first.get("absent", tmp_path / "y")
        assert caught.value.cause is HostFailure.NO_FILE
        with pytest.raises(HostError) as caught:
            first.put(tmp_path / "x", "/etc/x")
        assert caught.value.cause is HostFailure.NO_PERMISSION


class TestLoss:
    def test_killed_host_is_noticed_and_returns_empty(
        self, ssh_hosts: SshHosts, connections: HostConnections
    ) -> None:
        host = ssh_hosts[3]
        connection = connections.host(settings_of(ssh_hosts, host))
        connection.connect(PATIENCE_S)
        connection.run(["touch", "file"])
        channel = connection.open_lines(["cat"])
        host.kill()
        wait_for_end(channel)
        channel.close()
        assert channel.error is not None
        assert channel.error.cause is HostFailure.LOST
        wait_for_state(connection, ConnectionState.LOST)
        with pytest.raises(HostError, match="host4: connection lost"):
            connection.run(["true"])
        connection.reconnect(first_pause_s=0.1, longest_pause_s=0.5)
        host.restart()
        wait_for_state(connection, ConnectionState.CONNECTED)
        assert connection.run(["ls"]).out == b""

    @pytest.mark.parametrize("killed", [False, True])
    def test_silent_host_is_noticed(
        self, ssh_hosts: SshHosts, connections: HostConnections, killed: bool
    ) -> None:
        host = ssh_hosts[2]
        connection = connections.host(settings_of(ssh_hosts, host, silence_s=1.5))
        connection.connect(PATIENCE_S)
        channel = connection.open_lines(["cat"])
        if killed:
            host.kill(silently=True)
        else:
            host.drop_packets()
        wait_for_state(connection, ConnectionState.LOST)
        wait_for_end(channel)
        channel.close()
        assert connection.error is not None
        assert connection.error.cause is HostFailure.LOST
        if killed:
            host.restart()
        else:
            error = refused(connections, settings_of(ssh_hosts, host), timeout_s=0.5)
            assert error.cause is HostFailure.TIMED_OUT
            assert "host3: no answer within 0.5 s" in str(error)
            host.pass_packets()
        connection.connect(PATIENCE_S)
        assert connection.run(["hostname"]).out == b"host3\n"

    def test_programs_survive_a_cut_connection(self, ssh_hosts: SshHosts, first: HostConnection) -> None:
        channel = first.open_lines(["sh", "-c", "echo $$; exec sleep 1000"])
        [pid] = receive_lines(channel, 1)
        ssh_hosts[0].cut_connections()
        wait_for_end(channel)
        channel.close()
        wait_for_state(first, ConnectionState.LOST)
        first.connect(PATIENCE_S)
        assert first.run(["sh", "-c", f"kill {pid.decode()}"]).code == 0


class TestRefusal:
    def test_wrong_key(self, ssh_hosts: SshHosts, connections: HostConnections, tmp_path: Path) -> None:
        make_key(tmp_path / "other")
        error = refused(connections, settings_of(ssh_hosts, ssh_hosts[1], identity=str(tmp_path / "other")))
        assert error.cause is HostFailure.KEY_REFUSED
        assert "never a password" in str(error)

    def test_host_keys(self, ssh_hosts: SshHosts, connections: HostConnections, tmp_path: Path) -> None:
        known = tmp_path / "known"
        lines = f"Host *\n  UserKnownHostsFile {known}\n{ssh_hosts.config.read_text()}"
        (tmp_path / "config").write_text(lines)
        settings = HostSettings(host="host2", config=str(tmp_path / "config"))
        error = refused(connections, settings)
        assert error.cause is HostFailure.HOST_KEY_UNKNOWN
        assert "SHA256:" in str(error)
        known.write_text(f"{ssh_hosts[1].address} {ssh_hosts[0].host_key}\n")
        error = refused(connections, settings)
        assert error.cause is HostFailure.HOST_KEY_CHANGED
        assert f"ssh-keygen -R '{ssh_hosts[1].address}'" in str(error)
        (tmp_path / "config").write_text(lines.replace(str(known), "none"))
        assert refused(connections, settings).cause is HostFailure.HOST_KEY_UNKNOWN
        known.write_text(ssh_hosts[1].known_hosts_line())
        (tmp_path / "config").write_text(lines)
        connections.host(settings).connect(PATIENCE_S)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("garbage", "line 2 of {known} is not an entry of known hosts"),
            ("@trusted host2 ssh-ed25519 AAAA", "line 2 of {known} is not an entry of known hosts"),
            (
                "host2,{address} ssh-ed25519 AAAAC3Nz",
                "line 2 of {known} is for it, but the key there cannot be",
            ),
        ],
    )
    def test_malformed_line_of_known_hosts_is_named(
        self, ssh_hosts: SshHosts, connections: HostConnections, tmp_path: Path, line: str, words: str
    ) -> None:
        known = tmp_path / "known"
        known.write_text(f"# comment\n{line.format(address=ssh_hosts[1].address)}\n")
        lines = f"Host *\n  UserKnownHostsFile {known}\n{ssh_hosts.config.read_text()}"
        (tmp_path / "config").write_text(lines)
        error = refused(connections, HostSettings(host="host2", config=str(tmp_path / "config")))
        assert error.cause.is_permanent
        assert words.format(known=known) in str(error)

    def test_key_file_that_cannot_be_used_is_named(
        self, ssh_hosts: SshHosts, connections: HostConnections, tmp_path: Path
    ) -> None:
        (tmp_path / "text").write_text("no key\n")
        settings = settings_of(ssh_hosts, ssh_hosts[1], identity=str(tmp_path / "text"))
        assert f"{tmp_path / 'text'} is not a private key" in str(refused(connections, settings))
        locked = tmp_path / "locked"
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(locked)]
        subprocess.run(words, check=True)
        settings = settings_of(ssh_hosts, ssh_hosts[1], identity=str(locked))
        assert f"{locked} is protected by a passphrase: run `ssh-add {locked}`" in str(
            refused(connections, settings)
        )

    @pytest.mark.parametrize(
        ("jump", "cause", "words"),
        [
            (
                "gone.invalid",
                HostFailure.CANNOT_RESOLVE,
                "the host gone.invalid before it (ProxyJump): cannot",
            ),
            ("host1:9", HostFailure.REFUSED, "the host host1 before it (ProxyJump): connection refused"),
            ("stranger@host1", HostFailure.KEY_REFUSED, "the host host1 before it (ProxyJump): key refused"),
            ("host1:nine", HostFailure.INVALID_CONFIG, "ProxyJump 'host1:nine' is not [USER@]HOST[:PORT]"),
            ("host1", HostFailure.UNREACHABLE, "the host before it (ProxyJump) did not connect to it"),
        ],
    )
    def test_wrong_host_before_a_host_is_named(
        self,
        ssh_hosts: SshHosts,
        connections: HostConnections,
        tmp_path: Path,
        jump: str,
        cause: HostFailure,
        words: str,
    ) -> None:
        inner = ssh_hosts[1].client_config().replace(ssh_hosts[1].address, "127.0.0.9")
        config = f"{inner}  ProxyJump {jump}\n  Port 9\n{ssh_hosts[0].client_config()}"
        (tmp_path / "config").write_text(config)
        error = refused(connections, HostSettings(host="host2", config=str(tmp_path / "config")))
        assert error.cause is cause
        assert words in str(error)

    def test_attempts_to_connect_can_be_ended(
        self, ssh_hosts: SshHosts, connections: HostConnections
    ) -> None:
        host = ssh_hosts[2]
        connection = connections.host(settings_of(ssh_hosts, host))
        host.drop_packets()
        try:
            with ThreadPoolExecutor(1) as pool:
                attempt = pool.submit(connection.connect, 100 * PATIENCE_S)
                wait_for_state(connection, ConnectionState.CONNECTING)
                connection.stop_connecting()
                with pytest.raises(HostError, match="stops connecting"):
                    attempt.result(PATIENCE_S)
        finally:
            host.pass_packets()
        connection.connect(PATIENCE_S)

    def test_other_causes(self, ssh_hosts: SshHosts, connections: HostConnections, tmp_path: Path) -> None:
        config = str(ssh_hosts.config)
        closed = HostSettings(host="host2", config=config, port=9)
        assert refused(connections, closed).cause is HostFailure.REFUSED
        nowhere = HostSettings(host="host.invalid", config=config)
        assert refused(connections, nowhere).cause is HostFailure.CANNOT_RESOLVE
        (tmp_path / "config").write_text("Port twelve\n")
        invalid = HostSettings(host="host2", config=str(tmp_path / "config"))
        assert refused(connections, invalid).cause is HostFailure.INVALID_CONFIG
        absent = HostSettings(host="host2", config=str(tmp_path / "absent"))
        assert refused(connections, absent).cause is HostFailure.INVALID_CONFIG

    def test_jump_through_another_host(
        self, ssh_hosts: SshHosts, connections: HostConnections, tmp_path: Path
    ) -> None:
        inner = ssh_hosts[1].client_config().replace(f"HostName {ssh_hosts[1].address}", "HostName host2")
        jump = f"{inner}  ProxyJump host1\n  IdentityFile {tmp_path / 'absent'}\n"
        (tmp_path / "config").write_text(jump + ssh_hosts[0].client_config())
        connection = connections.host(HostSettings(host="host2", config=str(tmp_path / "config")))
        connection.connect(PATIENCE_S)
        assert connection.run(["hostname"]).out == b"host2\n"
        came_from = connection.run(["sh", "-c", "echo $SSH_CONNECTION"]).out.split()[0].decode()
        assert came_from == ssh_hosts[0].address
        ssh_hosts[0].cut_connections()
        wait_for_state(connection, ConnectionState.LOST)


class TestSettings:
    def test_values_are_read(self) -> None:
        read = read_host_settings({"kind": "ssh", "host": "h", "port": 2222, "user": "u"}, "m")
        assert read == HostSettings(host="h", port=2222, user="u")

    @pytest.mark.parametrize(
        ("backend", "message"),
        [
            ({"kind": "ssh"}, "no host"),
            ({"kind": "ssh", "host": "-oProxyCommand=x"}, "host '-oProxyCommand=x'"),
            ({"kind": "ssh", "host": 3}, "host 3"),
            ({"kind": "ssh", "host": "h", "port": 0}, "port 0"),
            ({"kind": "ssh", "host": "h", "port": True}, "port True"),
            ({"kind": "ssh", "host": "h", "pasword": "x"}, "unknown key 'pasword'"),
        ],
    )
    def test_invalid_values_are_refused(self, backend: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            read_host_settings(backend, "m")


def test_channel_and_calls_of_other_threads_after_all_connections_were_closed(ssh_hosts: SshHosts) -> None:
    own = HostConnections()
    host = own.host(settings_of(ssh_hosts, ssh_hosts.hosts[0]))
    host.connect(PATIENCE_S)
    channel = host.open_lines(["cat"])
    own.close()
    channel.send(b"late")
    assert channel.receive() in (None, [])
    channel.close()
    with pytest.raises(HostError) as raised:
        host.run(["true"])
    assert raised.value.cause == HostFailure.LOST


@pytest.mark.parametrize("swapped", [False, True])
def test_hosts_of_one_name_in_two_configurations_have_disks_of_their_own(
    connections: HostConnections, tmp_path: Path, swapped: bool
) -> None:
    """Products in journals of versions that ignored the configuration belong to the machine that wrote them."""
    backend = {"kind": "ssh", "host": "node", "user": "me", "port": 22}
    configs = {"plain": {}, "a": {"config": str(tmp_path / "a")}, "b": {"config": str(tmp_path / "b")}}
    machines = [Machine(name=name, backend={**backend, **more}) for name, more in configs.items()]
    if swapped:
        machines.reverse()
    layout = ProjectLayout(project=tmp_path)
    disks = {
        index: SshMachine(layout, each, connections, lambda *_: True).disk
        for index, each in enumerate(machines)
    }
    names = {each.name: disks[index].name for index, each in enumerate(machines)}
    assert len(set(names.values())) == 3
    assert names["plain"] == "ssh://me@node:22"
    context = SimpleNamespace(machines=dict(enumerate(machines)))
    backends = SimpleNamespace(_disks=disks, _context=context)
    for index, each in enumerate(machines):
        for name in (names[each.name], "ssh://me@node:22"):
            product = SimpleNamespace(directory=f"{name}/scratch/1", machine=each.name)
            assert ProgramBackend._disk_of(backends, product) is disks[index]
            assert disks[index].find_path(product.directory) == "/scratch/1"
