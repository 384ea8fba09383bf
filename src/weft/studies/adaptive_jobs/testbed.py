"""The testbed and the jobs of S3: five unlike machines of two organisations, and an array of five jobs.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (spec
s3 sections 8 and 9). Machines, memories and files are the published ones. The paper gives no speeds,
latencies or bandwidths: speeds are relative to one node of babieca, and the 19 s of every stage were chosen
so that a migration costs about as much as in the paper.

Deviations: the restart file is as large as the result (100 kB), and is written when the application is told
to end, after its last whole iteration.
"""

from __future__ import annotations

from functools import cache

from weft.platform.link import Link
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.simulation.scenario import Load, RequirementChange, Scenario
from weft.workflow.builder import Builder
from weft.workflow.records.workflow import Workflow

__all__ = ["JOBS", "LATENCY_S", "MOVING_S", "array_job", "degradation", "grid", "requirements"]

JOBS = 5
LATENCY_S = 19.0
"""What the job manager takes for every stage; half of it to cancel and to clean up."""
MOVING_S = 3.0 * LATENCY_S
"""What a migration costs besides moving files: cancel, prolog, clean-up, start."""
_CLIENT_BPS = 1.25e6
_EXECUTABLE_BYTES, _STRUCTURES_BYTES, _SMALL_BYTES, _RESULT_BYTES = 5e5, 12.2e6, 1e3, 1e5
_UNIT_S = 10.0
"""Of an iteration on a node of babieca."""
_MB = 1e6
_HOSTS = (
    ("ursa", 1, "UltraSPARC-IIe", "Solaris", 500, 256, "fork", "UCM", 0.6),
    ("draco", 1, "UltraSPARC-I", "Solaris", 167, 128, "fork", "UCM", 0.2),
    ("pegasus", 1, "Pentium 4", "Linux", 2400, 1024, "fork", "UCM", 2.5),
    ("solea", 2, "UltraSPARC-II", "Solaris", 296, 256, "fork", "UCM", 0.35),
    ("babieca", 5, "Alpha EV6", "Linux", 466, 256, "PBS", "CAB", 1.0),
)


@cache
def grid() -> Platform:
    """Make the five machines (table 5.1)."""
    machines = tuple(
        Machine(
            name=name,
            nodes=nodes,
            memory=memory * _MB,
            arch=arch,
            os=system,
            site=site,
            speed=speed,
            attributes={"mhz": mhz, "job_manager": manager},
        )
        for name, nodes, arch, system, mhz, memory, manager, site, speed in _HOSTS
    )
    link = Link(bandwidth_Bps=_CLIENT_BPS)
    return Platform(machines=machines, sites={"UCM": link, "CAB": link}, default_link=link)


@cache
def array_job(units: int) -> Workflow:
    """Make the five jobs, each of so many iterations: a protein sequence against 6150 structures."""
    flow = Builder("proteins")
    flow.task(
        "search",
        sweep={"i": f"0..{JOBS - 1}"},
        work=units * _UNIT_S,
        inputs=[
            {"file": "search", "from": "search.{machine.arch}", "size": _EXECUTABLE_BYTES},
            {
                "file": "structures",
                "from": "structures.gz",
                "size": _STRUCTURES_BYTES,
                "shared": True,
                "compressed": True,
            },
            {"file": "parameters", "from": "parameters", "size": _SMALL_BYTES},
            {"file": "sequence", "from": "sequence.{i}", "size": _SMALL_BYTES},
        ],
        outputs={"best.{i}": {"size": _RESULT_BYTES, "to": "best.{i}"}},
        checkpoint={"files": ["restart.{i}"]},
        progress="profile.{i}",
    )
    return flow.build()


def degradation() -> Scenario:
    """Scenario A: pegasus gets three competing processes after two minutes."""
    return Scenario(
        name="degradation",
        loads=(Load(machines=("pegasus",), processes=3, at_s=120.0),),
        stage_latency_s=LATENCY_S,
        profiles={"search": 100},
    )


def requirements() -> Scenario:
    """Scenario B: after 100 of 150 units every job needs 512 MB, which only pegasus has."""
    from weft.expressions import parse

    change = RequirementChange(task="search", after=100 / 150, requirements=parse("memory >= 512*MB"))
    return Scenario(
        name="requirements", requirements=(change,), stage_latency_s=LATENCY_S, profiles={"search": 150}
    )
