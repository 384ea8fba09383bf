"""The keys of a workflow file, one by one."""

from __future__ import annotations

import math

import pytest

from weft.expressions import parse
from weft.workflow.file_format import TASK
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import (
    ALL,
    NO_RECOVERY,
    Amdahl,
    Checkpoint,
    CommunicationOverhead,
    ContractTerms,
    Dependency,
    Environment,
    IndexRange,
    Input,
    Isolation,
    JobSpec,
    MeasuredSeconds,
    Output,
    Recovery,
    Roofline,
    Task,
    TaskKind,
    Transfer,
)
from weft.workflow.workflow import Loop
from workflow.workflow_texts import InvalidInput, messages_of, read, read_task


def test_the_smallest_workflow_has_the_name_of_the_file_and_defaults():
    workflow = read("tasks: {t: }")
    assert workflow.name == "flow"
    assert workflow.tasks == (Task(name="t"),)
    assert workflow.loops == ()
    assert workflow.tasks[0].recovery is NO_RECOVERY


def test_every_key_of_a_workflow_is_read():
    workflow = read(
        "name: wien2k\ndescription: a\nowner: ann\nparams: {n: 5, w: '=2*n', t: '2*n'}\n"
        "budgets: {scratch: 2TB, credits: 10*n}\ntasks: {t: }"
    )
    assert (workflow.name, workflow.description, workflow.owner) == ("wien2k", "a", "ann")
    assert workflow.params == {"n": 5, "w": parse("2*n"), "t": "2*n"}
    assert workflow.budgets == {"scratch": 2 * 10**12, "credits": parse("10*n")}


KEYS = {
    "description: a task": {"attributes": {"description": "a task"}},
    "attributes: {origin: dax, depth: [1, {a: b}]}": {
        "attributes": {"origin": "dax", "depth": [1, {"a": "b"}]}
    },
    "kind: virtual": {"kind": TaskKind.VIRTUAL},
    "{kind: transfer, from: A, to: B, file: f, size: 1kB}": {
        "kind": TaskKind.TRANSFER,
        "transfer": Transfer(source="A", target="B", file="f", size=1000),
    },
    "work: 10": {"work": 10},
    "work: 1.5*n": {"work": parse("1.5*n")},
    "work: 1h30m": {"work": 5400},
    "work: '=5'": {"work": parse("5")},
    "seconds: 14": {"seconds": 14},
    "seconds: {P1: 14, P2: 2m}": {"seconds": {"P1": 14, "P2": 120}},
    'seconds: {"altix{1..3}": 5, big: 2}': {"seconds": {"altix1": 5, "altix2": 5, "altix3": 5, "big": 2}},
    "nodes: 4": {"nodes": (4,)},
    "nodes: [1, 2, 4]": {"nodes": (1, 2, 4)},
    "nodes: 1..n": {"nodes": (Range(low=parse("1"), high=parse("n")),)},
    "nodes: [1, 2..8 step 2, 2*n]": {
        "nodes": (1, Range(low=parse("2"), high=parse("8"), step=parse("2")), parse("2*n"))
    },
    "{nodes: [1, 2], speedup: {amdahl: 0.05}}": {"nodes": (1, 2), "speedup": Amdahl(serial=0.05)},
    "{nodes: [1, 2], speedup: {roofline: 16}}": {"nodes": (1, 2), "speedup": Roofline(limit=16)},
    "{nodes: 2, speedup: {communication: 0.01}}": {
        "nodes": (2,),
        "speedup": CommunicationOverhead(overhead=0.01),
    },
    "speedup: {seconds: {2: 10m, 1: 2100}}": {
        "nodes": (1, 2),
        "work": 2100,
        "speedup": MeasuredSeconds(seconds={1: 2100.0, 2: 600.0}),
    },
    "{work: 5, nodes: 2, speedup: {seconds: {1: 2, 2: 1}}}": {
        "nodes": (2,),
        "work": 5,
        "speedup": MeasuredSeconds(seconds={1: 2.0, 2: 1.0}),
    },
    "machine: kpoint-{k}": {"machine": "kpoint-{k}"},
    "service: dock": {"service": "dock"},
    "requirements: memory >= 512*MB": {"requirements": parse("memory >= 512*MB")},
    "rank: speed": {"rank": parse("speed")},
    "cores: 8": {"cores": 8},
    "memory: 4GiB": {"resources": {"memory": 4 * 1024**3}},
    "gpus: 2": {"resources": {"gpus": 2}},
    "{memory: 1GB, gpus: n, resources: {licence: 1, tape: 2kB}}": {
        "resources": {"memory": 10**9, "gpus": parse("n"), "licence": 1, "tape": 2000}
    },
    "{nodes: [1, 2], memory: {1: 1GB, 2: n*GB}, gpus: nodes, resources: {licence: {1: 2, 2: 3}}}": {
        "nodes": (1, 2),
        "resources": {
            "memory": {1: 10**9, 2: parse("n*GB")},
            "gpus": parse("nodes"),
            "licence": {1: 2, 2: 3},
        },
    },
    "{nodes: [1, 4], consumes: {credits: {1: 3, 4: 2.5}, scratch: 40GB}}": {
        "nodes": (1, 4),
        "consumes": {"credits": {1: 3, 4: 2.5}, "scratch": 40 * 10**9},
    },
    "inputs: case.struct": {"inputs": (Input(file="case.struct"),)},
    'inputs: ["a.{1..3}", b]': {"inputs": tuple(Input(file=name) for name in ("a.1", "a.2", "a.3", "b"))},
    "inputs: [{file: p.gz, from: 'https://h/p', size: 12.2MB, shared: true, compressed: true}]": {
        "inputs": (Input(file="p.gz", source="https://h/p", size=12_200_000, shared=True, compressed=True),)
    },
    "outputs: [a, 'b.{1..2}']": {"outputs": (Output(file="a"), Output(file="b.1"), Output(file="b.2"))},
    'outputs: {a: 100kB, "b.{1..2}": 2*n, c: }': {
        "outputs": (
            Output(file="a", size=100_000),
            Output(file="b.1", size=parse("2*n")),
            Output(file="b.2", size=parse("2*n")),
            Output(file="c"),
        )
    },
    "outputs: {x: {seconds: 4}, y: {size: 1kB, to: 's3://b/y'}}": {
        "outputs": (Output(file="x", seconds=4), Output(file="y", size=1000, target="s3://b/y"))
    },
    "after: a": {"after": (Dependency(task="a"),)},
    "after: [a, 'b[k]', 'c[2*j-1..2*j, *]']": {
        "after": (
            Dependency(task="a"),
            Dependency(task="b", index=(parse("k"),)),
            Dependency(task="c", index=(IndexRange(low=parse("2*j-1"), high=parse("2*j")), ALL)),
        )
    },
    "after: [{task: a, pairs: [[1, 2], [x, [1, 2]]]}, {task: 'b[k]', if: exit_code == 0}]": {
        "after": (
            Dependency(task="a", pairs=((1, 2), ("x", [1, 2]))),
            Dependency(task="b", index=(parse("k"),), condition=parse("exit_code == 0")),
        )
    },
    "sweep: {k: 1..50, t: 0.4..1.0 step 0.2, l: [a, 2], m: lengths}": {
        "sweep": Sweep(
            variables=(
                ("k", Range(low=parse("1"), high=parse("50"))),
                ("t", Range(low=parse("0.4"), high=parse("1.0"), step=parse("0.2"))),
                ("l", ("a", 2)),
                ("m", parse("lengths")),
            )
        )
    },
    "{sweep: {k: [1], l: 7}, zip: true}": {"sweep": Sweep(variables=(("k", (1,)), ("l", (7,))), paired=True)},
    "sweep: {k: [1], zip: true}": {"sweep": Sweep(variables=(("k", (1,)),), paired=True)},
    "command: ./a {inputs}": {"job": JobSpec(command="./a {inputs}")},
    "command: [./a, 5, x y]": {"job": JobSpec(command=("./a", "5", "x y"))},
    "{command: a, arguments: [b, 3]}": {"job": JobSpec(command="a", arguments=("b", "3"))},
    "call: module:name": {"job": JobSpec(call="module:name")},
    "env: {OMP: 4, A: b}": {"job": JobSpec(env={"OMP": "4", "A": "b"})},
    "secrets: [A, B]": {"job": JobSpec(secrets=("A", "B"))},
    "secrets: []": {"job": JobSpec(secrets=())},
    "{stdin: i, stdout: o, stderr: e}": {"job": JobSpec(stdin="i", stdout="o", stderr="e")},
    "environment: {container: image}": {"job": JobSpec(environment=Environment(container="image"))},
    "environment: {conda: env.yaml}": {"job": JobSpec(environment=Environment(conda="env.yaml"))},
    "environment: {modules: [gcc, mpi]}": {"job": JobSpec(environment=Environment(modules=("gcc", "mpi")))},
    "isolate: unshare": {"job": JobSpec(isolate=Isolation(tool="unshare"))},
    "isolate: {network: true, read: [/data]}": {
        "job": JobSpec(isolate=Isolation(tool="bubblewrap", network=True, read=("/data",)))
    },
    "{prolog: p, wrapper: w, epilog: e, selector: s, evaluator: v}": {
        "job": JobSpec(prolog="p", wrapper="w", epilog="e", selector="s", evaluator="v")
    },
    "version: 3": {"job": JobSpec(version="3")},
    "time_limit: 1-00:00:00": {"recovery": Recovery(time_limit=86400)},
    "checkpoint: {files: [r], every: 60s, nodes: any}": {
        "recovery": Recovery(checkpoint=Checkpoint(files=("r",), every=60, nodes="any"))
    },
    "checkpoint: [r, s]": {"recovery": Recovery(checkpoint=Checkpoint(files=("r", "s")))},
    "progress: p.{k}": {"recovery": Recovery(progress="p.{k}")},
    "contract: 0.25": {"recovery": Recovery(contract=ContractTerms(factor=0.25))},
    "contract: none": {"recovery": Recovery(contract=ContractTerms(factor=math.inf))},
    "contract: {factor: 0.5, grace: 10s}": {
        "recovery": Recovery(contract=ContractTerms(factor=0.5, grace_s=10))
    },
    "contract: {grace: 1m}": {"recovery": Recovery(contract=ContractTerms(grace_s=60))},
    "retries: 2": {"recovery": Recovery(retries=2)},
    "retries: {oom: 3, timeout: 1}": {"recovery": Recovery(retries_by_cause={"oom": 3, "timeout": 1})},
    "on_failure: reschedule": {"recovery": Recovery(on_failure="reschedule")},
    "settings: {migration: {gain: 0.1}}": {"settings": {"gain": 0.1}},
    "outcomes: [0, 1]": {"outcomes": (0, 1)},
}


@pytest.mark.parametrize("text", KEYS)
def test_every_key_of_a_task_is_read(text):
    assert read_task(text) == Task(name="t", **KEYS[text])


def test_test_cases_cover_every_key_of_a_task():
    words = " ".join(KEYS)
    assert [key for key in TASK.help if f"{key}:" not in words] == []


def test_keys_of_a_loop_are_read():
    workflow = read(
        "tasks: {a: , b: {after: a}}\n"
        "loops: {scf: {from: b, to: a, until: b.exit_code == 0, max_iterations: 40, expect: 12, on_exhausted: continue}}"
    )
    assert workflow.loops == (
        Loop(
            name="scf",
            last="b",
            first="a",
            until=parse("b.exit_code == 0"),
            max_iterations=40,
            expect=12,
            on_exhausted="continue",
        ),
    )


class TestDefaults:
    """``defaults`` apply to every task that does not set the key."""

    def test_defaults_are_overridden_key_by_key(self):
        a, b = read("defaults: {retries: 1, contract: 0.5}\ntasks: {a: , b: {retries: {oom: 2}}}").tasks
        assert a.recovery == Recovery(retries=1, contract=ContractTerms(factor=0.5))
        assert b.recovery == Recovery(retries_by_cause={"oom": 2}, contract=ContractTerms(factor=0.5))

    def test_work_or_seconds_of_a_task_replace_the_defaults_of_both_keys(self):
        a, b = read("defaults: {work: 10}\ntasks: {a: {seconds: 5}, b: }").tasks
        assert (a.work, a.seconds) == (None, 5)
        assert (b.work, b.seconds) == (10, None)

    def test_tasks_without_work_inherit_no_default_work(self):
        text = "defaults: {work: 10}\ntasks: {a: {machine: A}, v: {kind: virtual}, m: {kind: transfer, from: A, to: B, file: f}}"
        assert [task.work for task in read(text).tasks] == [10, None, None]

    def test_kind_of_tasks_may_be_stated_in_the_defaults(self):
        a, b = read("defaults: {kind: virtual}\ntasks: {a: , b: {kind: compute, work: 1}}").tasks
        assert (a.kind, b.kind) == (TaskKind.VIRTUAL, TaskKind.COMPUTE)

    def test_invalid_default_is_reported_once(self):
        assert messages_of("defaults: {retries: -1}\ntasks: {a: , b: , c: }") == ["-1 is not allowed"]


WRONG = {
    "tasks: {t: {work: [1]}}": "this is a list",
    "tasks: {t: {work: true}}": "true is true/false",
    "tasks: {t: {work: .inf}}": "inf is not allowed",
    "tasks: {t: {work: 1 +}}": "at column",
    "tasks: {t: {nodes: []}}": "the list of node counts is empty",
    "tasks: {t: {nodes: 0}}": "node count 0",
    "tasks: {t: {nodes: 1.5}}": "node count 1.5",
    "tasks: {t: {nodes: ²}}": "at column",
    "tasks: {t: {nodes: 2, speedup: {roofline: 2.5}}}": "2.5 is not allowed",
    "tasks: {t: {nodes: 2, speedup: {amdahl: 2}}}": "serial share 2.0",
    "tasks: {t: {nodes: 2, speedup: {amdahl: 0, roofline: 1}}}": "the speed-up has 2 laws",
    "tasks: {t: {speedup: {amdahl: 0.1}}}": "the task has a speed-up law, but no node counts",
    "tasks: {t: {speedup: {seconds: {}}}}": "the table of seconds is empty",
    "tasks: {t: {speedup: {seconds: {²: 5}}}}": "node count '²'",
    "tasks: {t: {speedup: {seconds: {1: n}}}}": "'n' is text",
    "tasks: {t: {seconds: {}}}": "the table of seconds is empty",
    "tasks: {t: {work: 1, seconds: 1}}": "both work and seconds are given",
    "tasks: {t: {kind: virtual, work: 1}}": "a virtual task has work",
    "tasks: {t: {kind: transfer, from: A, to: B}}": "the transfer has no key 'file'",
    "tasks: {t: {from: A}}": "a task of kind compute has the key 'from'",
    "tasks: {t: {kind: vitual}}": "'vitual' is not allowed",
    "tasks: {t: {after: 'a['}}": "'a[' has no closing bracket",
    "tasks: {t: {after: 'a[]'}}": "'a[]' has an empty index",
    "tasks: {t: {after: ''}}": "'' names no task",
    "tasks: {t: {after: {if: exit_code == 0}}}": "a dependency without the key 'task'",
    "tasks: {t: {sweep: {k: [1]}, after: {task: t, pairs: [[1]]}}}": "a list is not a pair",
    "tasks: {t: {sweep: {k: [1]}, after: {task: t, pairs: [[{a: 1}, 2]]}}}": "a list is not a pair",
    "tasks: {t: {inputs: ['']}}": "the file name is empty",
    "tasks: {t: {inputs: [{from: x}]}}": "an input without the key 'file'",
    "tasks: {t: {inputs: ['x{3..1}']}}": "range {3..1} is descending",
    "tasks: {t: {outputs: {x: -5}}}": "size -5",
    "tasks: {t: {sweep: {}}}": "the sweep has no variables",
    "tasks: {t: {sweep: {1k: [1]}}}": "sweep variable '1k'",
    "tasks: {t: {sweep: {k: true}}}": "true is true/false",
    "tasks: {t: {sweep: {k: [1], zip: 3}}}": "3 is a number",
    "tasks: {t: {contract: [1]}}": "this is a list",
    "tasks: {t: {contract: {factor: n}}}": "'n' is an expression",
    "tasks: {t: {contract: -1}}": "contract factor -1.0",
    "tasks: {t: {contract: .inf}}": "inf is not allowed",
    "tasks: {t: {checkpoint: {every: 5}}}": "a checkpoint without the key 'files'",
    "tasks: {t: {checkpoint: {files: r, every: 0}}}": "a checkpoint every 0 s",
    "tasks: {t: {retries: {ooom: 3}}}": "unknown cause of failure 'ooom'",
    "tasks: {t: {time_limit: 0}}": "the time limit is 0 s",
    "tasks: {t: {outcomes: [85]}}": "exit code 85 is listed as an outcome",
    "tasks: {t: {env: [A]}}": "this is a list",
    "tasks: {'a[1]': }": "task name 'a[1]'",
    "tasks: {}": "no tasks",
    "tasks: [a]": "this is a list",
    "{}": "a workflow without the key 'tasks'",
    "params: {1a: 2}\ntasks: {t: }": "parameter '1a'",
    "tasks: {t: }\nloops: {l: {from: t}}": "a loop without the key 'to'",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_in_a_workflow_file_are_reported(text):
    found = messages_of(text) if text != "{}" else messages_of("name: x")
    assert any(WRONG[text] in what for what in found), found


@pytest.mark.parametrize("version", ["2", "true", "one", "1.5", "null"])
def test_only_version_1_is_read(version):
    from weft.formats.format import SourceFile
    from weft.formats.native import WeftYaml

    with pytest.raises(InvalidInput, match="of the file format"):
        WeftYaml().read(SourceFile(name="x", data=f"weft: {version}\ntasks: {{t: }}".encode()))


def test_empty_list_of_node_counts_is_reported_together_with_other_problems():
    assert messages_of("nam: x\ntasks: {t: {nodes: []}}") == [
        "unknown key 'nam'",
        "the list of node counts is empty",
    ]
