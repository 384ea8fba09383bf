"""A3.1 to A3.4 on four ssh hosts of unlike speed, with competing load and faults of connections and hosts.

The speed of a host is a CPU quota; the jobs compute, and the competing processes run beside them under the same
quota. Only the order of events is judged. The control groups of the hosts have so large a weight that other load
takes little of their quotas, so a job is as fast as its host is said to be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from itertools import pairwise
from pathlib import Path

import pytest

from ssh_hosts import SshHost, SshHosts, need_ssh_hosts, start_ssh_hosts
from weft.engine import messages
from weft.formats.profiles import preset_settings
from weft.papers.adaptive_jobs import StageLog, read_stage_log
from weft.papers.runs import run_locally
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.builder import Builder

pytestmark = pytest.mark.real_time

JOBS = 5
UNIT_S = 0.15
"""Time of an iteration on a machine of speed 1."""
SHARE = 0.12
"""Share of a core that a node of speed 1 has."""
MACHINES = {
    "pegasus": (2.5, 1, 1e9),
    "babieca": (1.0, 5, 256e6),
    "ursa": (0.6, 1, 256e6),
    "draco": (0.4, 1, 128e6),
}
"""Speed, nodes and memory of the hosts, in their order."""
COMPETITORS = 9
PROGRAM = """
import json, os, signal, sys, time

number, machine, units, demand_after, cpu_s = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
restart = f"restart.{number}"
state = json.load(open(restart)) if os.path.exists(restart) else {"done": 0, "trail": []}
state["trail"].append({"machine": machine, "from": state["done"], "to": state["done"]})

def save(*signals):
    with open("new", "w") as file:
        json.dump(state, file)
    os.rename("new", restart)
    if signals[:1] == (signal.SIGTERM,):
        os._exit(143)

signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, save)
last_s = 0.0
while state["done"] < units:
    if state["done"] == demand_after:
        save()
        with open("gw_reqs", "w") as file:
            file.write("memory >= 512*MB")
        while machine != "pegasus":
            time.sleep(0.1)
    began_s, until_s = time.monotonic(), time.process_time() + cpu_s
    while time.process_time() < until_s:
        pass
    took_s = time.monotonic() - began_s
    state["done"] += 1
    state["trail"][-1]["to"] = state["done"]
    report = {"iterations": state["done"], "all_iterations": int(units), "last_iteration_s": min(took_s, last_s or took_s)}
    last_s = took_s
    with open("report", "w") as file:
        json.dump(report, file)
    os.rename("report", os.environ["WEFT_PROGRESS_FILE"])
with open(f"best.{number}", "w") as file:
    json.dump(state, file)
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Generator[SshHosts]:
    need_ssh_hosts()
    with start_ssh_hosts(tmp_path_factory.mktemp("ssh")) as started:
        for host, (speed, nodes, _) in zip(started, MACHINES.values(), strict=True):
            host.limit_cpu(SHARE * speed * min(nodes, JOBS - 1), weight=50)
        yield started


def platform_of(
    hosts: SshHosts, names: tuple[str, ...] = tuple(MACHINES), *, silence_s: float = 3
) -> Platform:
    machines = [
        Machine(
            name=name,
            speed=speed,
            nodes=nodes,
            memory=memory,
            backend={"kind": "ssh", "silence": silence_s, **host.backend},
        )
        for host, (name, (speed, nodes, memory)) in zip(hosts, MACHINES.items(), strict=True)
        if name in names
    ]
    return Platform(machines=tuple(machines))


class JobRun:
    """The jobs on the hosts, and what happened to them."""

    def __init__(
        self,
        project: Path,
        platform: Platform,
        *,
        units: int,
        demand_after: int = -1,
        jobs: int = JOBS,
        disturb: Callable[[messages.Event], bool] = lambda _: True,
        **settings: object,
    ) -> None:
        (project / "search.py").write_text(PROGRAM)
        flow = Builder("jobs")
        flow.task(
            "search",
            sweep={"i": f"0..{jobs - 1}"},
            work=units * UNIT_S,
            command=f"exec python3 search.py {{i}} {{machine.name}} {units} {demand_after} {UNIT_S * SHARE}",
            inputs=[{"file": "search.py", "size": "1kB"}],
            outputs={"best.{i}": {"size": "1kB", "to": "best.{i}"}},
            progress="profile.{i}",
            checkpoint={"files": ["restart.{i}"], "every": "1s"} if jobs == 1 else {"files": ["restart.{i}"]},
        )
        waiting = [disturb]

        def listen(entry: object, _: object) -> None:
            if waiting and waiting[0](entry.event):
                waiting.clear()

        common = {"suspended": "none", "queued": "none"}
        every = {"probe_every": "1s", "discover_every": "none", "state_every": "none", "authorise": False}
        ran = run_locally(
            {"jobs": flow.build()},
            platform,
            [(0.0, "jobs")],
            project=project,
            policy="rank",
            settings=preset_settings("s3", {"timeouts": common, "slow_for": "forever", **every, **settings}),
            listeners=[listen],
        )
        self.outcome = ran.outcome
        self.entries = ran.entries
        self.log: StageLog = read_stage_log(
            ran.entries, [each.name for each in platform.machines], at_once=True
        )
        self.trails = [json.loads((project / f"best.{job}").read_text())["trail"] for job in range(jobs)]

    def check_stages(self) -> None:
        """A3.3: cancel, prolog on the new host, clean-up of the old one, start; no iteration is lost or repeated."""
        for job, trail in enumerate(self.trails):
            machines = [
                self.log.of("assign", job)[0].machine,
                *(move.machine for move in self.log.moves(job)),
            ]
            wanted = ("cancel", "prolog", "clean-up", "start")
            stages = [
                (line.what, line.machine)
                for line in self.log.lines
                if line.job == job and line.what in wanted
            ]
            expected = [("start", machines[0])]
            for old, new in pairwise(machines):
                expected += [("cancel", old), ("prolog", new), ("clean-up", old), ("start", new)]
            assert stages == expected
            assert [part["machine"] for part in trail] == machines
            assert trail[0]["from"] == 0
            assert all(before["to"] == after["from"] for before, after in pairwise(trail))


def prepare_competitors(host: SshHost) -> Path:
    """Start processes on a host that are busy, under its quota, from the moment at which the pipe is opened."""
    loops = (
        "mkfifo /run/go; i=0; while [ $i -lt %d ]; do"
        " (read _ < /run/go; while :; do :; done) >/dev/null 2>&1 & i=$((i + 1)); done"
    )
    host.run("setsid", "sh", "-c", loops % COMPETITORS)
    host.limit_cpu(SHARE * MACHINES["pegasus"][0], weight=50)
    return host.path("/run/go")


def test_a3_1_job_leaves_a_host_with_competing_load(hosts: SshHosts, tmp_path: Path) -> None:
    """Which job ends first is a duration: the kernel divides the quota of a host unevenly among its jobs."""
    pipe = prepare_competitors(hosts[0])

    def disturb(event: messages.Event) -> bool:
        if not (isinstance(event, messages.Progressed) and (event.iterations or 0) >= 40):
            return False
        pipe.open("w").close()
        return True

    migration = {"search_every": "none", "restart_cost": 1.0}
    ran = JobRun(
        tmp_path,
        platform_of(hosts),
        units=100,
        disturb=disturb,
        contract=3.0,
        poll_every=0.3,
        migration=migration,
    )
    hosts[0].restart()
    hosts[0].limit_cpu(SHARE * MACHINES["pegasus"][0], weight=50)
    assert [ran.log.of("assign", job)[0].machine for job in range(JOBS)] == ["pegasus", *["babieca"] * 4]
    (move,) = ran.log.moves()
    assert (move.job, move.machine, move.reason) == (0, "babieca", "performance")
    assert sorted(line.job for line in ran.log.of("completed")) == list(range(JOBS))
    ran.check_stages()


def test_a3_2_jobs_that_need_more_memory_run_on_the_host_that_has_it(hosts: SshHosts, tmp_path: Path) -> None:
    migration = {"search_every": 0.5, "restart_cost": 1.0}
    ran = JobRun(
        tmp_path,
        platform_of(hosts),
        units=70,
        demand_after=38,
        contract="none",
        poll_every=0.5,
        migration=migration,
    )
    # The four run at the same speed, so each of them may be the first that moves.
    moves = ran.log.moves()
    assert sorted((move.job, move.machine) for move in moves) == [(job, "pegasus") for job in (1, 2, 3, 4)]
    assert {move.reason for move in moves} <= {"better-machine", "self-migration"}
    assert sum(move.reason == "self-migration" for move in moves) >= 3
    assert [line.job for line in ran.log.of("completed")] == [0, *(move.job for move in moves)]
    assert ran.log.most_at_once("pegasus") == 1
    ran.check_stages()


FAULT = {"contract": "none", "poll_every": 0.5, "migration": {"when": "never"}}


def is_saved(event: messages.Event) -> bool:
    return isinstance(event, messages.Checkpointed)


def test_a3_4_lost_connection_leads_to_reattachment_without_a_restart(
    hosts: SshHosts, tmp_path: Path
) -> None:
    def disturb(event: messages.Event) -> bool:
        if is_saved(event):
            hosts[0].cut_connections()
        return is_saved(event)

    # A new connection takes seconds: the host computes its keys under the same quota as the busy job.
    platform = platform_of(hosts, ("pegasus", "babieca"), silence_s=60)
    ran = JobRun(tmp_path, platform, units=80, jobs=1, disturb=disturb, **FAULT)
    assert ran.outcome == "completed"
    assert [(part["machine"], part["from"], part["to"]) for part in ran.trails[0]] == [("pegasus", 0, 80)]
    assert len(ran.log.of("start")) == 1


def test_a3_4_dead_host_leads_to_failover_from_the_last_restart_file(hosts: SshHosts, tmp_path: Path) -> None:
    def disturb(event: messages.Event) -> bool:
        if is_saved(event):
            hosts[0].kill()
        return is_saved(event)

    platform = platform_of(hosts, ("pegasus", "babieca"))
    ran = JobRun(tmp_path, platform, units=200, jobs=1, disturb=disturb, **FAULT)
    assert ran.outcome == "completed"
    first, second = ran.trails[0]
    assert [line.machine for line in ran.log.of("start")] == ["pegasus", "babieca"]
    assert (first["machine"], second["machine"]) == ("pegasus", "babieca")
    assert 0 < second["from"] < second["to"] == 200
