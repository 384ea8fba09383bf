"""Files of adaptive jobs: A3.7 (a shared file is transferred once per host), A3.8 (one program per
architecture).
"""

from __future__ import annotations

import pytest

from driven_engine import simulated
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine import messages as cm
from weft.engine import messages as ev
from weft.formats.files import read_workflow_file
from weft.papers.adaptive_jobs import array_job, grid
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings

TEMPLATE = """\
EXECUTABLE = search.${GW_ARCH}
ARGUMENTS = -i ${GW_TASK_ID}
INPUT_FILES = sequence.${GW_TASK_ID} sequence
TOTAL_TASKS = 4
"""
TWO_KINDS = Platform(
    machines=(Machine(name="m0", nodes=2, arch="x86_64"), Machine(name="m1", nodes=2, arch="sparc")),
    default_link=Link(bandwidth_Bps=1e6),
)
SHARED_BYTES = 12.2e6


def bytes_by_machine(ran):
    """Return the bytes transferred to each machine."""
    machine_of = {assign.attempt: assign.machine for _, assign in ran.commands(cm.Assign)}
    found = {}
    for _, event in ran.events(ev.StagedIn):
        machine = machine_of[event.attempt]
        found[machine] = found.get(machine, 0.0) + event.moved_bytes
    return found


def test_a3_7_the_shared_file_is_transferred_once_per_host():
    ran = simulated(array_job(100), grid(), policy="rank")
    own = 502_000.0
    # One job on pegasus; four on babieca, with four programs and sequences but one database.
    assert bytes_by_machine(ran) == {2: SHARED_BYTES + own, 4: SHARED_BYTES + 4 * own}


def test_a3_7_a_file_that_is_not_shared_is_transferred_every_time():
    flow = Builder("array")
    item = {"file": "db", "from": "db.gz", "size": SHARED_BYTES}
    flow.task("search", sweep={"i": "1..3"}, work=10, inputs=[item])
    ran = simulated(
        flow.build(), Platform(machines=(Machine(name="m0"),), default_link=Link(bandwidth_Bps=1e6))
    )
    assert bytes_by_machine(ran) == {0: 3 * SHARED_BYTES}


def test_a3_7_later_jobs_wait_only_for_their_own_files():
    flow = Builder("array")
    items = [
        {"file": "db", "from": "db.gz", "size": 10e6, "shared": True},
        {"file": "q", "from": "q", "size": 1e6},
    ]
    flow.task("search", sweep={"i": "1..2"}, work=10, inputs=items)
    platform = Platform(machines=(Machine(name="m0"),), default_link=Link(bandwidth_Bps=1e6))
    ran = simulated(flow.build(), platform)
    starts = [at for at, _ in ran.commands(cm.Start)]
    assert starts == pytest.approx([11.0, 11.0 + 10.0 + 1.0])


def test_a3_7_a_failed_host_loses_its_cached_files():
    flow = Builder("array")
    item = {"file": "db", "from": "db.gz", "size": 10e6, "shared": True}
    flow.task("search", sweep={"i": "1..2"}, work=10, inputs=[item])
    platform = Platform(machines=(Machine(name="m0"),), default_link=Link(bandwidth_Bps=1e6))
    scenario = Scenario(failures=(Failure(machines=("m0",), at_s=21.0, repair_s=5.0),))
    ran = simulated(flow.build(), platform, scenario, RunSettings())
    assert bytes_by_machine(ran) == {0: 20e6}
    assert ran.run.ending == "completed"


def test_a3_7_a_host_that_has_the_file_is_preferred():
    flow = Builder("two")
    item = {"file": "db", "from": "db.gz", "size": 100e6, "shared": True}
    flow.task("first", work=10, inputs=[item], requirements='name == "slow"')
    flow.task("second", work=100, inputs=[item], after="first")
    machines = (Machine(name="slow"), Machine(name="fast", speed=2.0))
    # 100 s on the machine that has the file; 50 s and 100 s for the file on the other.
    ran = simulated(
        flow.build(), Platform(machines=machines, default_link=Link(bandwidth_Bps=1e6)), policy="rank"
    )
    assert [assign.machine for _, assign in ran.commands(cm.Assign)] == [0, 0]
    assert ran.run.ended_s == pytest.approx(100 + 10 + 100)


def programs(ran):
    """Return by machine the names of the files transferred to it."""
    found = {}
    for _, stage in ran.commands(cm.StageIn):
        found.setdefault(stage.machine, set()).update(parcel.name for parcel in stage.parcels)
    return found


def test_a3_8_one_template_selects_a_separate_program_for_every_architecture(tmp_path):
    path = tmp_path / "array.jt"
    path.write_text(TEMPLATE, encoding="utf-8")
    workflow = read_workflow_file(path)
    found = programs(simulated(workflow, TWO_KINDS))
    assert found == {
        0: {"search.x86_64", "sequence.0", "sequence.1"}, 1: {"search.sparc", "sequence.2", "sequence.3"},
    }  # fmt: skip


def test_a3_8_weft_files_support_the_same_variables():
    flow = Builder("array")
    flow.task(
        "search",
        sweep={"i": "1..4"},
        work=10,
        inputs=[{"file": "search", "from": "bin/{machine.arch}/search.{i}"}],
    )
    found = programs(simulated(flow.build(), TWO_KINDS))
    assert found == {
        0: {"bin/x86_64/search.1", "bin/x86_64/search.2"}, 1: {"bin/sparc/search.3", "bin/sparc/search.4"},
    }  # fmt: skip
