"""Planning instances in JSON: heterogeneous machines with costs and bandwidths, or moldable tasks on a
cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given

from damage import damaged, reads_or_refuses
from graph_edges import edges_of
from patience import PATIENCE_S
from weft.errors import InvalidInput, shorten
from weft.formats.files import detect_format, load_platform, load_workflow
from weft.formats.format import SourceFile
from weft.formats.instance_json import InstanceJson
from weft.instance import compile_instance
from weft.platform.platform import Link, link_between
from weft.workflow.checks import check_and_unfold
from weft.workflow.task import Dependency, MeasuredSeconds, Task

UNLIKE = {
    "kind": "hetero-dag",
    "n": 3,
    "cost": [2.5, 4, 0],
    "speed": [1, 2.0],
    "edges": [[0, 1, 6.5], [0, 2, 3], [1, 2, 0]],
    "bw": [[0, 4], [4.0, 0]],
}
MOLDABLE = {
    "kind": "moldable",
    "P": 8,
    "pmax": 3,
    "edges": [[0, 1]],
    "t": [[9.5, 5, 4], [7]],
}


def source(facts):
    return SourceFile(name="small.json", data=json.dumps(facts).encode())


def refused(facts, read=InstanceJson.read):
    with pytest.raises(InvalidInput) as caught:
        read(InstanceJson(), source(facts))
    assert all(problem.location.file == "small.json" for problem in caught.value.problems)
    return [(problem.what, problem.path) for problem in caught.value.problems]


def test_costs_become_work_and_edges_become_files():
    graph = check_and_unfold(InstanceJson().read(source(UNLIKE)))
    assert graph.workflow.name == "small"
    assert graph.names == ("t0", "t1", "t2")
    assert graph.work.tolist() == [2.5, 4, 0]
    assert edges_of(graph, "bytes", "files") == {
        ("t0", "t1"): (6.5, 1),
        ("t0", "t2"): (3, 1),
        ("t1", "t2"): (0, 1),
    }


def test_durations_are_cost_over_speed_and_size_over_bandwidth():
    platform = InstanceJson().read_platform(source(UNLIKE))
    made = compile_instance(check_and_unfold(InstanceJson().read(source(UNLIKE))), platform)
    assert made.modes(1).seconds.tolist() == [4, 2]
    assert made.edge_s(0, 0, 1) == made.edge_s(0, 1, 0) == 6.5 / 4
    assert made.edge_s(0, 1, 1) == 0


def test_times_by_node_count_are_read_as_measured():
    assert InstanceJson().read(source(MOLDABLE)).tasks == (
        Task(name="t0", work=9.5, nodes=(1, 2, 3), speedup=MeasuredSeconds(seconds={1: 9.5, 2: 5.0, 3: 4.0})),
        Task(name="t1", work=7, after=(Dependency(task="t0"),)),
    )
    (machine,) = InstanceJson().read_platform(source(MOLDABLE)).machines
    assert (machine.name, machine.nodes, machine.speed) == ("m0", 8, 1)


def test_instance_file_gives_tasks_and_machines(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(UNLIKE))
    assert len(load_workflow(path).tasks) == 3
    platform = load_platform(path)
    assert [machine.speed for machine in platform.machines] == [1, 2]
    assert link_between(platform, *platform.machines) == Link(bandwidth_Bps=4)


@pytest.mark.parametrize("facts", [UNLIKE, MOLDABLE])
def test_instance_file_is_recognised_whether_or_not_it_states_its_kind(facts):
    assert detect_format(source(facts)).name == "instance-json"
    assert (
        detect_format(source({key: value for key, value in facts.items() if key != "kind"})).name
        == "instance-json"
    )


@pytest.mark.parametrize(
    "facts", [{}, [1], {"cost": "high"}, {"weft": 1, "cost": [1]}, {"workflow": {}, "cost": [1]}, {"t": [1]}]
)
def test_other_files_are_not_recognised(facts):
    assert not InstanceJson().recognises(source(facts))


WRONG = [
    ({"cost": []}, ("a list", ("cost",))),
    ({"cost": [1, "x", 2]}, ("'x'", ("cost", 1))),
    ({"cost": [1, -2, 2]}, ("-2 is a number", ("cost", 1))),
    ({"cost": [1, 10**400, 2]}, (f"{shorten(10**400)} is a number", ("cost", 1))),
    ({"cost": [1, True, 2]}, ("True is true/false", ("cost", 1))),
    ({"edges": None}, ("no value", ("edges",))),
    ({"edges": [[0, 1]]}, ("a list", ("edges", 0))),
    ({"edges": [[0, 3, 1]]}, ("a list", ("edges", 0))),
    ({"edges": [[0, -1, 1]]}, ("a list", ("edges", 0))),
    ({"edges": [[0, 1.0, 1]]}, ("a list", ("edges", 0))),
    ({"edges": [[0, 1, -1]]}, ("a list", ("edges", 0))),
    ({"edges": [[0, 1, 1], [0, 1, 2]]}, ("a second edge from 0 to 1", ("edges", 1))),
    ({"edges": [[0, 1, 1], [1, 0, 2]]}, ("tasks wait for each other: t1 -> t0 -> t1", ())),
]


@pytest.mark.parametrize(("change", "expected"), WRONG)
def test_error_about_an_invalid_task_names_its_path_in_the_file(change, expected):
    assert refused(UNLIKE | change) == [expected]


WRONG_MACHINES = [
    ({"speed": [1, 0]}, ("0 is a number", ("speed", 1))),
    ({"speed": "fast", "bw": [[0]]}, ("'fast'", ("speed",))),
    ({"bw": [[0, 4]]}, ("a list", ("bw",))),
    ({"bw": [[0, 4], [4]]}, ("a list", ("bw",))),
    ({"bw": [[0, 4], [0, 0]]}, ("0 is a number", ("bw", 1, 0))),
    ({"bw": [[0, 5], [4, 0]]}, ("5 is a number, but 4 in the other direction", ("bw", 0, 1))),
]


@pytest.mark.parametrize(("change", "expected"), WRONG_MACHINES)
def test_error_about_an_invalid_machine_names_its_path_in_the_file(change, expected):
    assert refused(UNLIKE | change, InstanceJson.read_platform) == [expected]


def test_invalid_clusters_and_times_are_rejected():
    assert refused(MOLDABLE | {"P": 0}, InstanceJson.read_platform) == [("0 is a number", ("P",))]
    assert refused(MOLDABLE | {"t": [[1, 0], [2]]}) == [("0 is a number", ("t", 0, 1))]
    assert refused(MOLDABLE | {"t": [[1], []]}) == [("a list", ("t", 1))]
    assert refused(MOLDABLE | {"t": 5}) == [("5 is a number", ("t",))]
    assert refused([1, 2]) == [("a list", ())]


@given(damaged([source(UNLIKE).data, source(MOLDABLE).data]))
def test_damaged_file_is_read_or_rejected(data):
    assert reads_or_refuses(
        lambda found: InstanceJson().read(SourceFile(name="small.json", data=found)), data
    )


def test_reading_an_instance_imports_no_other_format(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(UNLIKE))
    program = (
        "import sys\nfrom weft.formats.files import load_platform, load_workflow\n"
        "load_workflow(sys.argv[1]), load_platform(sys.argv[1])\n"
        "print(sorted({'yaml', 'defusedxml', 'importlib.metadata'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == "[]\n"
