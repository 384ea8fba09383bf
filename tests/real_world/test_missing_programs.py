"""Workflows without programs are refused before anything starts; files of other systems keep their programs."""

from __future__ import annotations

import json

import pytest

import weft
from backend_project import BackendProject
from cli.projects import Project

LOCAL = "machines: {one: {backend: {kind: local}}}\n"
DAG = '<dag><node id="n1" path="dock"><out name="o" type="DIET_INT"/></node></dag>\n'
TRACE = {
    "name": "trace",
    "schemaVersion": "1.4",
    "workflow": {"tasks": [{"name": "t1", "id": "t1", "runtimeInSeconds": 1.5, "files": [], "parents": []}]},
}
WITHOUT = {
    "native.yaml": (
        "weft: 1\ntasks:\n  a: {work: 1s}\n  b: {work: 1s, after: a, arguments: [x]}\n",
        "2 tasks without a program (a, b)",
    ),
    "dag.xml": (DAG, "1 task without a program (n1)"),
    "trace.json": (json.dumps(TRACE), "1 task without a program (t1)"),
    "graph.dot": (
        "digraph g { a [Weight=3]; b [Weight=1]; a -> b [Weight=0]; }\n",
        "2 tasks without a program (a, b)",
    ),
    "graph.stg": ("2\n0 0 0\n1 5 1 0\n2 4 1 1\n3 0 1 2\n", "without a program"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_run_refuses_tasks_without_a_program_and_changes_nothing(real, capsys, name):
    content, words = WITHOUT[name]
    (real.folder / name).write_text(content)
    real.write("machines.yaml", LOCAL)
    shell = Project(real.folder, capsys)
    if name.endswith(".xml"):
        real.write("machines.yaml", LOCAL.replace("one: {", "one: {services: [dock], "))
    for command in (("run", name), ("run", "-n", name), ("check", name)):
        done = shell.weft(*command, "--on", "machines.yaml")
        assert done.code == 2, (command, done)
        assert words in done.err
        assert "weft simulate" in done.err
    assert not (real.folder / ".weft" / "weft.db").exists()
    for command in (("plan", name), ("simulate", name)):
        assert shell.weft(*command, "--on", "machines.yaml").code == 0, command


@pytest.mark.parametrize("found", ["", "services.yaml", "dag.services.yaml"])
def test_advice_about_a_service_without_a_program_names_the_file_of_services(real, capsys, found):
    (real.folder / "dag.xml").write_text(DAG)
    real.write("machines.yaml", LOCAL)
    if found:
        real.write(found, 'services: {other: {command: "true"}}\n')
    shell = Project(real.folder, capsys)
    entry = "`services: {dock: {command: ...}}`"
    where = f"in {found}" if found else "in a new file services.yaml, after `weft: 1`"
    for command in (("run",), ("run", "-n"), ("check",)):
        done = shell.weft(*command, "dag.xml", "--on", "machines.yaml")
        assert done.code == 2, (command, done)
        assert f"state the program of each service {where}: {entry}" in done.err
    for command in ("plan", "simulate"):
        done = shell.weft(command, "dag.xml", "--on", "machines.yaml")
        assert done.code == 3, (command, done)
        assert f"state its program in {found or 'services.yaml'}: {entry}, or use a platform" in done.err


FUNCTIONAL = """<workflow name="f">
<interface><source name="s" type="DIET_INT"/><sink name="r" type="DIET_INT"/></interface>
<processors><processor name="n1"><in name="in" type="DIET_INT"/><out name="out" type="DIET_INT"/>
<diet path="dock"/></processor></processors>
<links><link from="s" to="n1:in"/><link from="n1:out" to="r"/></links></workflow>
"""


@pytest.mark.parametrize("stated", [True, False])
def test_advice_to_simulate_a_diet_workflow_without_data_is_true(real, capsys, stated):
    (real.folder / "flow.xml").write_text(FUNCTIONAL)
    real.write("machines.yaml", LOCAL)
    if stated:
        real.write("services.yaml", 'services: {dock: {command: "cp {in.file} {out}", work: 2}}\n')
    shell = Project(real.folder, capsys)
    for command in (("run",), ("run", "-n"), ("check",)):
        done = shell.weft(*command, "flow.xml", "--on", "machines.yaml")
        assert done.code == 2, (command, done)
        assert "1 task without input data (n1); source s has no data; add a file data.xml" in done.err
        assert ("or use `weft simulate`" in done.err) is stated
        assert ("1 task without a program (n1)" in done.err) is not stated
    for command in ("plan", "simulate"):
        assert shell.weft(command, "flow.xml", "--on", "machines.yaml").code == (0 if stated else 3)


TYPED = """<dag><node id="n1" path="dock"><arg name="a" type="DIET_INT" value="{number}"/>
<arg name="b" type="DIET_DOUBLE" value="{number}"/><arg name="f" type="DIET_FILE" value="{file}"/>
<out name="o" type="DIET_INT"/></node></dag>
"""


def test_wrong_values_and_missing_files_of_diet_arguments_are_refused_before_a_run(real, capsys):
    real.write("machines.yaml", LOCAL)
    real.write("services.yaml", 'services: {dock: {command: "cat {f} > {o}"}}\n')
    shell = Project(real.folder, capsys)
    commands = [("check", "dag.xml")]
    commands += [
        (*name, "dag.xml", "--on", "machines.yaml") for name in (("check",), ("run", "-n"), ("run",))
    ]
    (real.folder / "dag.xml").write_text(TYPED.format(number="x", file=""))
    for command in commands:
        done = shell.weft(*command)
        assert done.code == 2, (command, done)
        assert "arg 'a' with the value 'x'; its type is DIET_INT: must be a whole number" in done.err
        assert "arg 'b' with the value 'x'; its type is DIET_DOUBLE: must be a number" in done.err
        assert "arg 'f' without a file name" in done.err
    (real.folder / "dag.xml").write_text(TYPED.format(number="4", file="given.txt"))
    for command in commands:
        done = shell.weft(*command)
        assert done.code == 2, (command, done)
        assert "'given.txt', an input of task 'n1', does not exist and no task produces it" in done.err
    assert not (real.folder / ".weft" / "weft.db").exists()
    (real.folder / "given.txt").write_text("5\n")
    for command in commands:
        done = shell.weft(*command)
        assert done.code == 0, (command, done)
    assert real.text("n1#o") == "5\n"


ARRAYS = """<dag><node id="n1" path="dock">
<arg name="v" type="DIET_VECTOR" base_type="DIET_INT" size="3" value="{values}"/>
<arg name="m" type="DIET_MATRIX" base_type="DIET_DOUBLE" nb_rows="1" nb_cols="3" value="{values}"/>
<out name="o" type="DIET_INT"/></node></dag>
"""
VECTORS = """<workflow name="f">
<interface><constant name="c" type="DIET_VECTOR" base_type="DIET_INT" value="{values}"/></interface>
<processors><processor name="n1"><in name="in" type="DIET_VECTOR" base_type="DIET_INT"/><diet path="dock"/>
</processor></processors><links><link from="c" to="n1:in"/></links></workflow>
"""


def test_elements_of_diet_vectors_and_matrices_are_checked(real, capsys):
    shell = Project(real.folder, capsys)
    (real.folder / "dag.xml").write_text(ARRAYS.format(values="1 2.5 x"))
    done = shell.weft("check", "dag.xml")
    whole = "DIET_VECTOR of DIET_INT: each element must be a whole number"
    assert done.code == 2
    assert f"arg 'v' with the value '2.5'; its type is {whole}" in done.err
    real_number = "its type is DIET_MATRIX of DIET_DOUBLE: each element must be a number"
    assert f"arg 'm' with the value 'x'; {real_number}" in done.err
    (real.folder / "flow.xml").write_text(VECTORS.format(values="1 2.5"))
    done = shell.weft("check", "flow.xml")
    assert done.code == 2
    assert f"the value '2.5' of constant 'c'; n1:in has type {whole}" in done.err
    (real.folder / "dag.xml").write_text(ARRAYS.format(values="1, -2 3"))
    (real.folder / "flow.xml").write_text(VECTORS.format(values=" 1 2"))
    done = shell.weft("check", "dag.xml", "flow.xml")
    assert done.code == 0, done


def test_advice_about_a_service_of_a_yaml_workflow_names_only_the_platform(real, capsys):
    real.write("flow.yaml", "tasks: {a: {work: 1s, service: dock}}\n")
    real.write("machines.yaml", LOCAL)
    done = Project(real.folder, capsys).weft("run", "flow.yaml", "--on", "machines.yaml")
    assert done.code == 2
    assert "state the program of each service in the platform: `services: {dock: {command: ...}}`" in done.err
    assert "services.yaml" not in done.err


def test_a_virtual_task_needs_no_program(real):
    real.write("machines.yaml", LOCAL)
    real.write("flow.yaml", 'tasks:\n  a: {work: 1s, command: "true"}\n  gate: {kind: virtual, after: a}\n')
    assert real.run("flow.yaml").completed


def test_a_generated_workflow_has_no_programs_and_is_not_run(real):
    made = weft.generate("layered", seed=1, tasks=6)
    with pytest.raises(weft.InvalidInput, match="without a program"):
        weft.run(made.workflow, on="local", project=real.folder)


def test_a_backend_reports_an_attempt_without_a_program_as_failed(real):
    """An execution of an older version may have such tasks; they are not completed either."""
    made = BackendProject("local", real.folder, {"nothing": {"work": 1}})
    made.start(0, "nothing")
    ended = made.end()
    assert (ended.exit_code, ended.cause, ended.lasting) == (None, "error", True)
    assert "no program to run" in ended.story
    made.close()


def test_programs_of_a_dax_file_are_run(real):
    real.write("machines.yaml", LOCAL)
    (real.folder / "given").mkdir()
    (real.folder / "given" / "start.txt").write_text("3\n2\n1\n")
    (real.folder / "flow.dax").write_text(
        f"""<adag name="pegasus">
  <file name="f.in"><pfn url="file://{real.folder}/given/start.txt" site="local"/></file>
  <executable name="order"><pfn url="file:///usr/bin/env" site="local"/></executable>
  <job id="a" name="order" runtime="1"><argument>sort</argument>
    <stdin name="f.in" link="input"/><stdout name="f.mid" link="output"/>
    <uses name="f.in" link="input"/><uses name="f.mid" link="output"/></job>
  <job id="b" name="sh" runtime="1"><argument>-c 'read first; echo $first $WORD &gt; f.out'</argument>
    <profile namespace="env" key="WORD">ok</profile><stdin name="f.mid" link="input"/>
    <uses name="f.mid" link="input"/><uses name="f.out" link="output"/></job>
</adag>
"""
    )
    assert real.run("flow.dax").completed
    assert real.text("f.out") == "1 ok\n"


def test_programs_of_a_trace_are_run(real):
    real.write("machines.yaml", LOCAL)
    tasks = [
        {"name": "make", "id": "1", "runtimeInSeconds": 1, "parents": [], "files": [{"link": "output", "name": "x", "sizeInBytes": 2}],
         "command": {"program": "sh", "arguments": ["-c", "echo 7 > x"]}},
        {"name": "use", "id": "2", "runtimeInSeconds": 1, "parents": ["make"],
         "files": [{"link": "input", "name": "x", "sizeInBytes": 2}, {"link": "output", "name": "y", "sizeInBytes": 2}],
         "command": {"program": "cp", "arguments": ["x", "y"]}},
    ]  # fmt: skip
    (real.folder / "trace.json").write_text(
        json.dumps({"name": "t", "schemaVersion": "1.4", "workflow": {"tasks": tasks}})
    )
    assert real.run("trace.json").completed
    assert real.text("y") == "7\n"


URLS = {
    "fetched.jt": ("EXECUTABLE = /bin/true\nINPUT_FILES = gsiftp://host/dir/in in\n", "gsiftp://host/dir/in"),
    "published.jt": ("EXECUTABLE = /bin/true\nOUTPUT_FILES = o gsiftp://host/o\n", "gsiftp://host/o"),
    "fetched.yaml": (
        'weft: 1\nparams: {base: "srb://host"}\ntasks:\n  a: {command: "true", inputs: [{file: x, from: "{base}/x"}]}\n',
        "srb://host/x",
    ),
    "published.yaml": (
        'weft: 1\ntasks:\n  a: {command: "true", outputs: {x: {to: "gsiftp://host/x"}}}\n',
        "gsiftp://host/x",
    ),
}


@pytest.mark.parametrize("name", URLS)
def test_urls_of_an_unknown_kind_are_refused_before_the_run(real, capsys, name):
    content, url = URLS[name]
    (real.folder / name).write_text(content)
    real.write("machines.yaml", LOCAL)
    shell = Project(real.folder, capsys)
    for command in (("check", name), ("run", name, "--on", "machines.yaml")):
        refused = shell.weft(*command)
        assert refused.code == 2, refused
        assert f"{url!r} in {'in' if 'fetched' in name else 'out'}puts of task" in refused.err
        assert f"Protocol not known: {url.partition(':')[0]}" in refused.err
    assert not (real.folder / ".weft" / "weft.db").exists()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("zip://a::file:///tmp/x.zip", "chains of URLs ('::') are not allowed"),
        ("http://host/a::file:///etc/passwd", "chains of URLs ('::') are not allowed"),
        ("dir:///tmp/x", "dir:// opens a file inside of another one"),
        ("zip://a", "zip:// opens a file inside of another one"),
        ("simplecache://a", "simplecache:// opens a file inside of another one"),
        ("generic://a", "generic:// opens a file inside of another one"),
    ],
)
@pytest.mark.parametrize("key", ["inputs: [{file: x, from: 'URL'}]", "outputs: {x: {to: 'URL'}}"])
def test_urls_that_a_run_cannot_open_are_refused_by_check_with_the_reason(real, capsys, url, why, key):
    real.write("flow.yaml", f'tasks:\n  a: {{command: "true", {key.replace("URL", url)}}}\n')
    refused = Project(real.folder, capsys).weft("check", "flow.yaml")
    assert refused.code == 2
    assert why in refused.err


def test_urls_of_tasks_that_are_only_planned_are_not_checked(real, capsys):
    real.write("flow.yaml", 'tasks:\n  a: {work: 1s, inputs: [{file: x, from: "gsiftp://host/x"}]}\n')
    assert Project(real.folder, capsys).weft("check", "flow.yaml").code == 0


@pytest.mark.parametrize("key", ["EXECUTABLE", "MONITOR", "WRAPPER", "PRE_WRAPPER"])
def test_missing_programs_of_a_job_template_are_refused_before_the_run(real, capsys, key):
    lines = {"EXECUTABLE": "/bin/true", "ENVIRONMENT": "A=$HOME", key: "absent.sh"}
    (real.folder / "job.jt").write_text("".join(f"{name} = {text}\n" for name, text in lines.items()))
    real.write("machines.yaml", LOCAL)
    shell = Project(real.folder, capsys)
    for command in (
        ("check", "job.jt"),
        *(("run", *dry, "job.jt", "--on", "machines.yaml") for dry in ((), ("-n",))),
    ):
        refused = shell.weft(*command)
        assert refused.code == 2, refused
        assert "'absent.sh', a program of task 'job', does not exist" in refused.err
    assert not (real.folder / ".weft" / "weft.db").exists()
    real.write("absent.sh", '#!/bin/sh\n[ $# -eq 0 ] || "$@"\n').chmod(0o755)
    assert shell.weft("check", "job.jt", "--on", "machines.yaml").code == 0


def test_program_that_another_task_writes_is_not_missing(real, capsys):
    real.write(
        "flow.yaml",
        "tasks:\n"
        "  make: {command: 'printf \"#!/bin/sh\\necho 1 > o\\n\" > prog; chmod +x prog', outputs: [prog]}\n"
        "  use: {command: ./prog, inputs: [prog], outputs: [o]}\n",
    )
    real.write("machines.yaml", LOCAL)
    assert Project(real.folder, capsys).weft("check", "flow.yaml").code == 0
    assert real.run("flow.yaml").completed


def test_missing_inputs_of_a_job_template_are_noted(real, capsys):
    (real.folder / "job.jt").write_text("EXECUTABLE = /bin/true\nINPUT_FILES = a b, c\nSTDIN_FILE = d\n")
    (real.folder / "c").touch()
    noted = Project(real.folder, capsys).weft("check", "job.jt").out.splitlines()
    assert [line.partition("'")[2] for line in noted if line.startswith("note: ")] == [
        f"{name}' does not exist and no task produces it; create it before the task starts" for name in "ad"
    ]


BAD = """\
weft: 1
tasks:
  a: {command: "true", evaluator: ./judge, rank: speeed}
  b: {command: "true", selector: ./choose, requirements: colour == 1}
  c: {work: 1s}
"""


def test_run_names_missing_modules_unknown_names_and_missing_commands_together(real, capsys):
    (real.folder / "bad.yaml").write_text(BAD)
    real.write("machines.yaml", LOCAL)
    shell = Project(real.folder, capsys)
    for command in (("run",), ("run", "-n"), ("check",)):
        done = shell.weft(*command, "bad.yaml", "--on", "machines.yaml")
        assert done.code == 2, (command, done)
        for words in ("./judge", "./choose", "'speeed'", "'colour'", "1 task without a program (c)"):
            assert words in done.err, (command, words, done.err)
    assert not (real.folder / ".weft" / "weft.db").exists()
