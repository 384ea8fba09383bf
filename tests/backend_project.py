"""A backend in a project of its own, for tests that send it commands without an engine."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from dask_clusters import DaskDisk
from patience import PATIENCE_S
from planning_examples import instance
from ssh_hosts import SshHosts
from weft.backends import BACKENDS
from weft.backends.backend import ProjectContext, RecoveredAttempt
from weft.backends.layout import ProjectLayout
from weft.backends.runner.processes import read_process
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.engine.state.compiled import CompiledWorkflow
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.repository.database import open_database
from weft.repository.products import ProductTable

__all__ = ["TIMEOUT_S", "BackendProject", "platform_of"]

TIMEOUT_S = PATIENCE_S


def platform_of(
    kind: str, hosts: SshHosts | Sequence[DaskDisk] | None = None, **settings: object
) -> Platform:
    """Return a platform of two machines, which are the first of ``hosts``, if given.

    ``settings`` are further keys of the backend of each machine.
    """
    names = ("m0", "m1")
    more = {name: _settings(kind, name) for name in names}
    if hosts is not None:
        more = {name: hosts[index].backend for index, name in enumerate(names)}
    kinds = dict(zip(names, ("local", "slurm") if kind == "mixed" else (kind, kind), strict=True))
    machines = (
        Machine(name=name, nodes=4, memory=8e9, backend={"kind": kinds[name], **more[name], **settings})
        for name in names
    )
    return Platform(machines=tuple(machines))


def _settings(kind: str, name: str) -> dict[str, object]:
    if kind == "ssh":
        return {"host": name}
    if kind == "dask":
        scheduler = os.environ.get("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:8786")
        return {"scheduler": scheduler, "worker": name, "shared": True}
    return {}


class BackendProject:
    """A backend in a project of its own; tests send it commands without an engine."""

    def __init__(self, kind, folder, tasks, backend=None, hosts=None, **settings):
        """Open the backend registered as ``kind``, or the class ``backend`` if one is given.

        ``hosts`` are the hosts of machines with disks of their own, in the same order. ``settings`` are
        further keys of the backend of each machine.
        """
        self.folder = folder
        self.hosts = hosts
        self.platform = platform_of(kind, hosts, **settings)
        self.compiled = CompiledWorkflow("flow", instance(tasks, self.platform))
        self.layout = ProjectLayout(folder.resolve())
        self.database = open_database(self.layout.database, create=True)
        self.products = ProductTable(self.database)
        self.kind = kind
        self.make = backend or BACKENDS.load(kind)
        self.token = "secret"
        self.attempts = {}
        self.nonces = {}
        """By attempt: its nonce, as the journal has it; a test removes it to lose the tail of the journal."""
        self.open()

    def open(self):
        """Create the backend; a second call acts as a new engine after the death of the first."""
        self.backend = self.make(
            ProjectContext(
                layout=self.layout,
                project=self.database.identity,
                execution=1,
                attempt_nonce=lambda attempt: self.nonces.get(attempt, ""),
                is_known=lambda execution, attempt, nonce: (
                    (execution, self.nonces.get(attempt)) == (1, nonce)
                ),
                machines=tuple(self.platform.machines),
                instance=self.compiled.instance,
                compiled_workflow=lambda run: self.compiled,
                workflow_folder=lambda run: str(self.folder),
                products=self.products,
                token=self.token,
            )
        )

    def place(self, attempt, name, machine=0):
        task = self.attempts[attempt] = self.compiled.names.index(name)
        self.nonces.setdefault(attempt, os.urandom(16).hex())
        return {"attempt": attempt, "run": 0, "task": task, "machine": machine, "nodes": 1, "count": 1}

    def commands(self, attempt, name, machine=0, **limits):
        place = self.place(attempt, name, machine)
        return [cm.Assign(**place), cm.Start(**place, **limits)]

    def start(self, attempt, name, **limits):
        self.backend.execute(self.commands(attempt, name, **limits))

    def wait_for(self, *kinds, number=1):
        """Poll until the backend has reported ``number`` events of these types; return them."""
        found, end = [], time.monotonic() + TIMEOUT_S
        while len(found) < number:
            assert time.monotonic() < end, f"no {kinds}"
            found += [event for event in self.backend.poll(0.2) if isinstance(event, kinds)]
        return found

    def poll_for(self, seconds=0.5):
        """Return all events that the backend reports within these seconds."""
        found, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            found += self.backend.poll(0.05)
        return found

    def end(self):
        return self.wait_for(ev.Ended)[0]

    def workdir(self, attempt, machine=0):
        place = self.platform.machines[machine], self.database.identity
        found = self.layout.workdir(*place, 1, attempt, self.nonces[attempt])
        if self.hosts is None:
            return found
        below = found.relative_to(self.layout.sandbox(self.platform.machines[machine]))
        return self.hosts[machine].sandbox / below

    def is_running(self, pid, machine=0):
        """Return whether a process runs on a machine."""
        if self.hosts is None:
            return read_process(pid) is not None
        return str(pid) in self.hosts[machine].run("ps", "-eo", "pid").split()

    def records(self, attempt):
        return self.layout.records(1, attempt, self.nonces[attempt])

    def recovered(self, attempt, name, machine=0):
        """Return an attempt as a new engine finds it in the journal."""
        place = self.place(attempt, name, machine)
        return RecoveredAttempt(**place, iteration=1, stage="started", nonce=self.nonces[attempt])

    def wait_for_file(self, attempt, name="ready", machine=0):
        """Wait until a program has written a file: a shell creates it some time before it writes to it."""
        file, end = self.workdir(attempt, machine) / name, time.monotonic() + TIMEOUT_S
        while not (file.exists() and file.stat().st_size):
            assert time.monotonic() < end, f"{name} is not written"
            self.poll_for(0.05)

    def lose_journal(self):
        """Create the backend of another engine, whose journal has none of the attempts."""
        self.backend.close(stop=False)
        self.nonces.clear()
        self.attempts.clear()
        self.open()
        self.backend.find([])

    def close(self):
        self.backend.execute([cm.Cancel(attempt=attempt, machine=0) for attempt in self.attempts])
        self.backend.halt(0.2)
        self.poll_for(0.3)
        self.backend.close(stop=True)
        self.database.close()
