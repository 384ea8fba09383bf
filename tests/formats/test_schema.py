"""The stored JSON Schemas follow from the fields and agree with the readers."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from architecture.package import load_tool
from strategies import platforms, workflows
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml, describes_platform, read_platform_file
from weft.formats.schema import KINDS, build_schema, schema_text
from weft.formats.yaml_document import parse_document
from weft.platform.file_format import PLATFORM_RECORDS, platform_document
from weft.workflow.checks import check
from weft.workflow.file_format import WORKFLOW_RECORDS, workflow_document

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))

VALIDATORS = {
    kind: jsonschema.Draft202012Validator(json.loads(schema_text(kind))) for kind in ("workflow", "platform")
}

WORKFLOW = """\
    weft: 1
    name: wien2k
    params: {kpoints: 50, atoms: 64, matrix: 6000, w1: "=(7*atoms*matrix**2 + matrix**3) / 1e9"}
    defaults: {retries: 1, contract: 0.5}
    tasks:
      lapw0:
        command: ./lapw0 {inputs}
        inputs: [case.struct]
        outputs: {potential: 100kB}
        work: 0.5*w1
      lapw1:
        sweep: {k: 1..kpoints}
        command: ./lapw1 --nodes {nodes} --k {k}
        inputs: [potential]
        outputs: {"vector.{k}": 200*matrix*atoms}
        work: w1
        nodes: [1, 2, 4, 8]
        speedup: {amdahl: 0.05}
        machine: kpoint-{k}
        requirements: memory >= 512*MB and arch == "x86_64"
        rank: speed
        checkpoint: {files: ["restart.{k}"], every: 60s, nodes: any}
        progress: progress.{k}
        contract: {factor: 0.5, grace: 10s}
      lapw2: {sweep: {k: 1..kpoints}, after: ["lapw1[k]", fermi], inputs: ["vector.{k}"], work: 0.1*w1}
      fermi: {after: lapw1, work: 0.01*w1, command: ./fermi}
      conv: {after: lapw2, work: 0.001*w1, command: ./conv}
      more: {sweep: {i: [1, 2], j: lengths}, zip: true, seconds: {P1: 14, P2: 16}, cores: 2, memory: 1GB}
      even-more:
        after: [{task: lapw1, pairs: [[1, 2], [1, [3, 4]]]}, {task: conv, if: exit_code == 0}]
        inputs: [{file: pdb.gz, from: "https://host/pdb.gz", size: 12.2MB, shared: true, compressed: true}]
        outputs: {x: {seconds: 4}, y: }
        speedup: {seconds: {1: 2100, 2: 1073.3}}
        resources: {licence: 1}
        retries: {oom: 3, timeout: 1}
        environment: {modules: [gcc]}
        env: {OMP_NUM_THREADS: 4}
        outcomes: [0, 1]
      move: {kind: transfer, from: M1, to: M2, file: a, size: 5MB}
      nothing:
    loops:
      scf: {from: conv, to: lapw0, until: conv.exit_code == 0, max_iterations: 40, on_exhausted: fail}
    """

PLATFORM = """\
    weft: 1
    machines:
      pegasus: {speed: 2.5, cores: 1, memory: 1GB, arch: x86_64, os: linux, site: ucm}
      "altix{1..16}": {speed: 3.0, site: uibk}
      barbora: {nodes: 64, cores: 36, memory: 192GB, price_per_node_hour: 0.8, site: it4i, queue: fifo}
      more: {speed: {default: 1, dock: 2.5}, services: [dock], attributes: {rack: 3}, resources: {licence: 4}}
      plain:
    sites:
      uibk: {bandwidth: 160MB/s, latency: 0.1ms}
    links:
      default: {bandwidth: 1MB/s, latency: 50ms}
      between: [{pair: [ucm, uibk], bandwidth: 12.5MB/s, latency: 20ms}]
    virtual: [{machine: barbora, service: layer1, nodes: 2}]
    """


def plain(text):
    return parse_document(textwrap.dedent(text), "file.yaml").root.to_plain()


def accepts(kind, value):
    return VALIDATORS[kind].is_valid(value)


def read(kind, text):
    source = SourceFile(name="file.yaml", data=textwrap.dedent(text).encode())
    return read_platform_file(source) if kind == "platform" else WeftYaml().read(source)


def judge(kind, text):
    """Read and check a file of this kind; raise InvalidInput if it is invalid."""
    found = read(kind, text)
    if kind == "workflow":
        check(found)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_schema_equals_the_one_made_from_the_fields(kind):
    # After a change of fields: python .ci/reference.py
    assert json.loads(schema_text(kind)) == build_schema(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_valid_for_its_draft(kind):
    jsonschema.Draft202012Validator.check_schema(build_schema(kind))
    assert build_schema(kind)["$schema"].endswith("2020-12/schema")


def objects(schema):
    """Yield every schema of a mapping with known keys."""
    if isinstance(schema, dict):
        if schema.get("additionalProperties") is False:
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


@pytest.mark.parametrize(
    ("kind", "record"),
    [(kind, record) for kind, records in (("workflow", WORKFLOW_RECORDS), ("platform", PLATFORM_RECORDS))
     for record in records.values()],
    ids=lambda value: getattr(value, "title", value),
)  # fmt: skip
def test_every_record_is_in_the_schema_with_help_for_every_key(kind, record):
    found = [
        {key: value.get("description") for key, value in each["properties"].items()}
        for each in objects(build_schema(kind))
    ]
    assert record.help in found


def test_schema_and_reader_accept_the_examples_of_the_format():
    VALIDATORS["workflow"].validate(plain(WORKFLOW))
    VALIDATORS["platform"].validate(plain(PLATFORM))
    assert len(read("workflow", WORKFLOW).tasks) == 9
    assert len(read("platform", PLATFORM).machines) == 20


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_project_examples_are_accepted_if_and_only_if_they_are_readable(path):
    source = SourceFile(name=path.name, data=path.read_bytes())
    kind = "platform" if describes_platform(source) else "workflow"
    try:
        read(kind, source.text())
    except InvalidInput:
        assert not accepts(kind, plain(source.text()))
    else:
        VALIDATORS[kind].validate(plain(source.text()))


@settings(suppress_health_check=list(HealthCheck))
@given(workflows())
def test_schema_accepts_every_written_workflow(workflow):
    VALIDATORS["workflow"].validate(json.loads(json.dumps(workflow_document(workflow))))


@settings(suppress_health_check=list(HealthCheck))
@given(platforms())
def test_schema_accepts_every_written_platform(platform):
    VALIDATORS["platform"].validate(json.loads(json.dumps(platform_document(platform))))


TASKS = [
    "wrok: 1",
    "work: [1]",
    "work: true",
    "work: -1",
    "work: ",
    "seconds: {}",
    "seconds: {P: [1]}",
    "kind: virtaul",
    "sweep: [1]",
    "sweep: {}",
    "sweep: {k: {a: 1}}",
    "sweep: {k: true}",
    "sweep: {k: [1], zip: 3}",
    "zip: 1",
    "after: {if: x}",
    "after: {task: a, when: x}",
    "after: true",
    "after: [[a]]",
    "after: {task: a, pairs: [[1]]}",
    "inputs: {file: x, frm: y}",
    "inputs: [{from: x}]",
    "inputs: [true]",
    "inputs: [{file: x, shared: 1}]",
    "outputs: {x: [1]}",
    "outputs: {x: {bytes: 1}}",
    "outputs: [true]",
    "nodes: 0",
    "nodes: []",
    "nodes: {a: 1}",
    "speedup: 0.5",
    "speedup: {amdal: 0.5}",
    "speedup: {}",
    "{nodes: 2, speedup: {amdahl: 2}}",
    "{nodes: 2, speedup: {amdahl: 0.5, roofline: 2}}",
    "{nodes: 2, speedup: {roofline: 0}}",
    "speedup: {seconds: {}}",
    "speedup: {seconds: {one: 2}}",
    "machine: [a]",
    "service: ",
    "requirements: [a]",
    "memory: [1]",
    "resources: [1]",
    "resources: {licence: [1]}",
    "command: {a: 1}",
    "command: ",
    "arguments: [[a]]",
    "env: [a]",
    "env: {A: [1]}",
    "environment: {contaner: x}",
    "environment: image",
    "stdin: [a]",
    "version: true",
    "checkpoint: {every: 5}",
    "checkpoint: {files: a, nodes: some}",
    "contract: -1",
    "contract: always",
    "contract: {facter: 1}",
    "retries: -1",
    "retries: 1.5",
    "retries: {oops: 1}",
    "on_failure: ignore",
    "outcomes: [one]",
    "outcomes: [-1]",
    "time_limit: [1]",
    "attributes: [1]",
]
FILES = [
    "tasks: {a: }",
    "{weft: 2, tasks: {a: }}",
    "{weft: true, tasks: {a: }}",
    "weft: 1",
    "{weft: 1, tasks: {}}",
    "{weft: 1, tasks: [a]}",
    "{weft: 1, tasks: {a: 5}}",
    "{weft: 1, taks: {}, tasks: {a: }}",
    "{weft: 1, params: [1], tasks: {a: }}",
    "{weft: 1, defaults: {wrok: 1}, tasks: {a: }}",
    "{weft: 1, name: [x], tasks: {a: }}",
    "{weft: 1, tasks: {a: }, loops: {l: {from: a}}}",
    "{weft: 1, tasks: {a: }, loops: {l: {from: a, to: a, max_iterations: 0}}}",
    "{weft: 1, tasks: {a: }, loops: {l: {from: a, to: a, max_iterations: 1, untill: x}}}",
    "{weft: 1, tasks: {a: }, loops: {l: {from: a, to: a, max_iterations: 1, on_exhausted: stop}}}",
    "{weft: 1, tasks: {a: }, loops: [l]}",
    "[weft]",
]
MACHINES = [
    "sped: 1",
    "speed: 0",
    "speed: fast",
    "speed: {dock: -1}",
    "nodes: 0",
    "nodes: 1.5",
    "cores: many",
    "memory: -1",
    "memory: [1]",
    "gpus: -1",
    "price_per_node_hour: cheap",
    "services: {a: 1}",
    "arch: [x]",
    "availability: 0",
    "availability: 2",
    "queue: lifo",
    "occupancy: sometimes",
    "attributes: {a: [1]}",
    "backend: local",
    "resources: {licence: -1}",
]
PLATFORMS = [
    "{weft: 1}",
    "{weft: 2, machines: {m: }}",
    "{weft: 1, machines: {}}",
    "{weft: 1, machines: [m]}",
    "{weft: 1, machines: {m: 5}}",
    "{weft: 1, machins: {}, machines: {m: }}",
    "{weft: 1, machines: {m: }, sites: {s: {bandwith: 1}}}",
    "{weft: 1, machines: {m: }, links: {default: {bandwidth: 0}}}",
    "{weft: 1, machines: {m: }, links: {default: {latency: [1]}}}",
    "{weft: 1, machines: {m: }, links: {between: [{pair: [m]}]}}",
    "{weft: 1, machines: {m: }, links: {between: [{bandwidth: 1}]}}",
    "{weft: 1, machines: {m: }, virtual: [{machine: m}]}",
    "{weft: 1, machines: {m: }, virtual: [{machine: m, service: s, nodes: 0}]}",
]
REFUSED = [
    *(
        ("workflow", f"{{weft: 1, tasks: {{a: , t: {each if each.startswith('{') else '{' + each + '}'}}}}}")
        for each in TASKS
    ),
    *(("workflow", each) for each in FILES),
    *(("platform", f"{{weft: 1, machines: {{m: {{{each}}}}}}}") for each in MACHINES),
    *(("platform", each) for each in PLATFORMS),
]


@pytest.mark.parametrize(("kind", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_reader_rejects_files_that_the_schema_rejects(kind, text):
    assert not accepts(kind, plain(text))
    with pytest.raises(InvalidInput):
        judge(kind, text)


def test_schema_of_an_unknown_kind_is_rejected():
    for ask in (schema_text, build_schema):
        with pytest.raises(InvalidInput, match="did you mean 'platform'"):
            ask("platfrom")


def test_writing_the_schemas_again_changes_nothing(tmp_path):
    load_tool("reference").write_schemas(tmp_path)
    written = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written == {kind: schema_text(kind) for kind in KINDS}
