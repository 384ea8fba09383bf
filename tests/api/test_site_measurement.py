"""Measured values in a platform: relative speeds, links; detection of this computer."""

from __future__ import annotations

import re

import pytest

from weft.api.sites import MachineCheck, apply_checks, check_site, detect_local
from weft.errors import InvalidInput
from weft.formats.files import load_platform
from weft.formats.native import write_platform
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform


def check(machine: str, kind: str = "local", **measured: float) -> MachineCheck:
    return MachineCheck(machine=machine, kind=kind, **measured)


PLATFORM = Platform(
    machines=(
        Machine(name="a", speed=2.0),
        Machine(name="b", speed=1.0, speeds={"dock": 3.0}),
        Machine(name="c", speed=5.0, backend={"kind": "ssh", "host": "c"}),
    ),
    links=(("a", "b", Link(bandwidth_Bps=1.0)), ("b", "c", Link(bandwidth_Bps=7.0))),
)


def test_speeds_are_relative_to_the_first_measured_machine():
    found = apply_checks(PLATFORM, [check("a", seconds=0.2, startup_s=0.01234567), check("b", seconds=0.1)])
    a, b, c = found.machines
    assert (a.speed, b.speed, c.speed) == (2.0, 4.0, 5.0)
    assert b.speeds == {"dock": 12.0}
    assert (a.startup_s, b.startup_s) == (0.0123, 0.0)


def test_links_between_machines_follow_from_their_staging():
    measured = [
        check("a", bandwidth_Bps=100.0),
        check("b", kind="slurm", bandwidth_Bps=300.0),
        check("c", kind="ssh", bandwidth_Bps=100.0),
    ]
    found = {frozenset(link[:2]): link[2].bandwidth_Bps for link in apply_checks(PLATFORM, measured).links}
    assert found == {frozenset("ab"): 100.0, frozenset("ac"): 50.0, frozenset("bc"): 75.0}


def test_workers_that_share_the_file_system_are_linked_like_this_computer():
    backends = {"here": {"kind": "local"}, "near": {"kind": "dask", "shared": True}, "far": {"kind": "dask"}}
    platform = Platform(machines=tuple(Machine(name=name, backend=each) for name, each in backends.items()))
    measured = [check(name, kind=str(each["kind"]), bandwidth_Bps=100.0) for name, each in backends.items()]
    found = {frozenset(link[:2]): link[2].bandwidth_Bps for link in apply_checks(platform, measured).links}
    assert found[frozenset({"here", "near"})] == 100.0
    assert found[frozenset({"here", "far"})] == 50.0


def test_links_of_machines_that_were_not_measured_are_kept():
    found = apply_checks(PLATFORM, [check("a", bandwidth_Bps=100.0), check("c", problem="lost")])
    assert found.links == PLATFORM.links


def test_unknown_machines_and_sizes_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no machine 'z'"):
        check_site(PLATFORM, tmp_path, only=["z"])
    local = detect_local().platform
    with pytest.raises(InvalidInput, match="must be a size"):
        check_site(local, tmp_path, size="much")


def test_this_computer_is_detected_and_checked(tmp_path):
    detected = detect_local()
    found = check_site(detected.platform, tmp_path, size="1MB")
    assert found.is_usable, found.checks
    (measured,) = found.checks
    assert (measured.machine, measured.kind) == ("local", "local")
    assert None not in (measured.seconds, measured.startup_s, measured.bandwidth_Bps)
    assert list(tmp_path.iterdir()) == []


def test_all_problems_of_a_platform_are_named(tmp_path):
    machines = (
        Machine(name="a", backend={"kind": "dask", "scheduler": "tcp://h:99999", "worker": "w"}),
        Machine(name="b", backend={"kind": "ssh", "host": "h", "port": 0}),
        Machine(name="c", backend={"kind": "slurm", "unit": "rack", "via": "h"}),
        Machine(name="d", backend={"kind": "local", "wrong": 1}),
        Machine(name="e", backend={"kind": "nothing"}),
        Machine(name="f"),
    )
    with pytest.raises(InvalidInput) as caught:
        check_site(Platform(machines=machines), tmp_path)
    text = str(caught.value)
    for word in ("99999", "port 0", "'rack'", "'wrong'", "'nothing'", "machine 'f' has no backend"):
        assert word in text


def test_detected_memory_is_written_with_a_short_number(tmp_path):
    (machine,) = detect_local().platform.machines
    text = write_platform(detect_local().platform)
    assert re.search(r"\bmemory: [0-9]{1,4}(\.[0-9])?[kMGTP]i?B", text), text
    (tmp_path / "here.yaml").write_text(text)
    assert load_platform(str(tmp_path / "here.yaml")).machines[0].memory == machine.memory


def test_machine_that_cannot_run_programs_is_reported_with_the_reason(tmp_path):
    wrong = Machine(name="m", backend={"kind": "local", "sandbox": str(tmp_path / "file" / "below")})
    (tmp_path / "file").write_text("")
    found = check_site(Platform(machines=(wrong,)), tmp_path, size="1kB", timeout_s=20.0)
    assert not found.is_usable
    assert "sandbox" in found.checks[0].problem
