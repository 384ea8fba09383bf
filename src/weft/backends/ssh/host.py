"""Settings of an ssh host, and the errors of connections to it. This module does not load asyncssh."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from weft.errors import InvalidInput, WeftError, suggest
from weft.records import dataclass
from weft.units import parse_seconds

KEYS = ("kind", "host", "user", "port", "config", "identity", "sandbox", "python", "silence", "direct")
"""Keys of ``backend: {kind: ssh, ...}``."""
DEFAULT_SILENCE_S = 60.0
_SHORTEST_SILENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """How a host is reached. What is None comes from the ssh configuration."""

    host: str
    """Name of the host: an entry of the ssh configuration, a DNS name or an address."""
    user: str | None = None
    port: int | None = None
    config: str | None = None
    """Configuration file in place of ``~/.ssh/config`` and ``/etc/ssh/ssh_config``."""
    identity: str | None = None
    """File of a private key in place of those of the configuration."""
    silence_s: float = DEFAULT_SILENCE_S
    """A host that does not answer for this long is lost."""
    direct: bool = True
    """Whether files are copied directly between this host and others that it can reach."""


def read_host_settings(backend: Mapping[str, object], machine: str) -> HostSettings:
    """Return the settings in the ``backend`` of a machine; raise ``InvalidInput`` for invalid ones."""
    path = ("machines", machine, "backend")
    for key in backend:
        if key not in KEYS:
            raise InvalidInput(
                f"unknown key {key!r}",
                rule=f"keys of an ssh machine: {', '.join(KEYS)}",
                advice=suggest(key, KEYS),
                path=path,
            )
    user, config, identity = (_read_text(backend, key, path) for key in ("user", "config", "identity"))
    host, port = _read_text(backend, "host", path), backend.get("port")
    if host is None:
        raise InvalidInput(
            "no host", rule="an ssh machine names its host", advice="add `host: NAME`", path=path
        )
    if port is not None and not (type(port) is int and 0 < port < 65536):
        raise InvalidInput(f"port {port!r}", rule="a whole number from 1 to 65535", path=(*path, "port"))
    silence_s = read_silence(backend.get("silence", DEFAULT_SILENCE_S), path)
    if not isinstance(direct := backend.get("direct", True), bool):
        raise InvalidInput(f"direct {direct!r}", rule="true or false", path=(*path, "direct"))
    return HostSettings(
        host=host, port=port, user=user, config=config, identity=identity, silence_s=silence_s, direct=direct
    )


LOGIN_KEYS = ("user", "port", "config", "identity", "silence")
"""Keys about the login node of a cluster, besides ``via``."""


def read_login_settings(backend: Mapping[str, object], machine: str) -> HostSettings:
    """Return how the login node of a cluster is reached; raise ``InvalidInput`` for invalid settings.

    Unless a silence is stated, a login node that does not answer is never lost.
    """
    via = _read_text(backend, "via", ("machines", machine, "backend"))
    stated = {key: backend[key] for key in LOGIN_KEYS if key in backend}
    found = read_host_settings({"host": via, **stated}, machine)
    return found if "silence" in stated else replace(found, silence_s=math.inf)


def read_silence(value: object, path: tuple[str, ...]) -> float:
    """Return the seconds after which a silent host is lost; raise ``InvalidInput`` for an invalid value."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    found = float(str(value)) if number else parse_seconds(value) if isinstance(value, str) else None
    if found is None or not _SHORTEST_SILENCE_S <= found < math.inf:
        rule = f"a time of at least {_SHORTEST_SILENCE_S:g} s, such as 90 or 5m"
        raise InvalidInput(f"silence {value!r}", rule=rule, path=(*path, "silence"))
    return found


def _read_text(backend: Mapping[str, object], key: str, path: tuple[str, ...]) -> str | None:
    value = backend.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value or value.startswith("-") or not value.isprintable():
        rule = "a text of printable characters that does not start with '-'"
        raise InvalidInput(f"{key} {value!r}", rule=rule, path=(*path, key))
    return str(Path(value).expanduser()) if key in ("config", "identity") else value


class HostFailure(StrEnum):
    """Cause of a ``HostError``."""

    CANNOT_RESOLVE = "cannot resolve"
    REFUSED = "connection refused"
    TIMED_OUT = "timed out"
    UNREACHABLE = "unreachable"
    HOST_KEY_UNKNOWN = "host key unknown"
    HOST_KEY_CHANGED = "host key changed"
    KEY_REFUSED = "key refused"
    INVALID_CONFIG = "invalid ssh configuration"
    LOST = "connection lost"
    NO_CHANNEL = "no channel"
    NO_COMMAND = "no such command"
    NO_FILE = "no such file"
    NO_PERMISSION = "no permission"
    DISK_FULL = "disk full"
    NO_ROOM = "no room for weft's own file"
    NO_SANDBOX = "sandbox cannot be created"
    FILE = "file operation failed"

    @property
    def is_permanent(self) -> bool:
        """Whether another attempt fails as well until somebody changes keys or configuration."""
        return self in _PERMANENT

    @staticmethod
    def permanent() -> frozenset[HostFailure]:
        """Return the permanent failures."""
        return _PERMANENT


_PERMANENT = frozenset(
    {
        HostFailure.HOST_KEY_UNKNOWN,
        HostFailure.HOST_KEY_CHANGED,
        HostFailure.KEY_REFUSED,
        HostFailure.INVALID_CONFIG,
    }
)


class HostError(WeftError):
    """An operation on a host failed; ``cause`` is the kind of failure."""

    def __init__(self, host: str, cause: HostFailure, what: str, advice: str = "") -> None:
        self.host = host
        self.cause = cause
        self.text = what + (f"; {advice}" if advice else "")
        """The message without the name of the host."""
        super().__init__(f"host {host}: {self.text}")
