"""DIET files are planned, simulated and run with small programs behind their services; outputs are checked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import weft
from cli.projects import Project

EXAMPLE = Path(__file__).parents[2] / "examples" / "diet"
MACHINES = "machines: {m: {nodes: 4, backend: {kind: local}}}\n"
SERVICES = r"""
services:
  succ: {command: "echo $(({in} + 1)) > {out1}; echo $(({in} + 2)) > {out2}"}
  double: {command: "echo $((2 * {in})) > {out}"}
  sum: {command: "echo $(({input1} + {input2})) > {out}"}
  square: {command: "echo $(({in} * {in})) > {out}"}
  strlen: {command: "printf %s {in} | wc -c > {out}"}
  int2str: {command: "echo number {in} > {out}"}
  gencont: {command: "for k in 0 1; do echo \"gencont({in})_$k\" > {out}/$k; done"}
  proc: {command: "./proc.sh {in} {output1} {output1}1"}
  postproc: {command: "echo \"postproc($(cat $(find {in} -type f | sort) | paste -s -d , -))\" > {out}/0"}
  mixproc: {command: "for k in 0 1; do echo \"mix({in1},{in2})_$k\" > {out}/$k; done"}
  dummy: {command: "echo \"dummy({in})\" > {out}"}
  greyscale: {command: "tr a-z A-Z < {in} > {out}"}
  convert: {command: [tr, a-z, A-Z]}
  flip: {command: "rev {in} > {out}"}
  duplicate: {command: "cp {in} {out1}; cp {in} {out2}"}
  MatSUM: {command: "paste -d + {in1} {in2} | tr ' ' '\\n' > all; ./matrix.sh {in1} {in2} > {out1}"}
  MatPROD: {command: "cat {in3} {in4} > {out2}"}
  ADD: {command: "s=$(({input1} + {input2})); echo $s > {output1.file}; echo $((s + 1)) > {output2}"}
  VADD: {command: "./matrix.sh {input1} {input2} > sum; cp sum {output1.file}; cp sum {output2}"}
  PSPRINT: {command: "echo \"{input1}-{input2}\" > {output1.file}"}
  LADD: &ladd
    command: |
      for k in 0 1; do
        s=$(( $(cat {input1}/$k) + $(cat {input2}/$k) ))
        echo $s > {output1.file}/$k
        echo $((s + 1)) > {output2}/$k
      done
  LCADD: *ladd
"""
PROGRAMS = {
    "proc.sh": '#!/bin/sh\necho "proc($1)" > "$2"\nif [ -d "${2%?}1" ] && [ "$2" != "${2%?}1" ]; then\n'
    'mkdir -p "${2%?}1/0"; echo "second($1)" > "${2%?}1/0/1"; fi\n',
    "matrix.sh": "#!/bin/sh\nawk 'FNR == NR {for (k = 1; k <= NF; k++) a[k] = $k; next}\n"
    '{for (k = 1; k <= NF; k++) printf "%s%s", a[k] + $k, k < NF ? " " : "\\n"}\' "$1" "$2"\n',
}
FILLED = {"@WF_PARAM_TYPE@": "DIET_INT", "@WF_SERVICE_NAME@": "ADD", "@MAXLOOP@": "20"}
PUBLISHED = {
    "scalar.xml": ({}, {"n5#out": "51984"}),
    "string.xml": ({}, {"n4#out": "number 14"}),
    "matrix.xml": ({}, {"n3#out2": "11 13 15 17\n2 4 6 8"}),
    "file.xml": ({}, {"n3#out1": "OGOL", "n3#out2": "OGOL"}),
    "container.xml": ({}, {"BOTTOM#out/0": "postproc(proc(gencont(diet)_0),proc(gencont(diet)_1))"}),
    "container2.xml": (
        {},
        {
            "BOTTOM#out/0": "postproc(proc(gencont(diet)_0),proc(gencont(diet)_1),second(gencont(diet)_0),"
            "second(gencont(diet)_1))"
        },
    ),
    "func_scalar.xml": (
        {"data.xml": "func_scalar.data.xml"},
        {"wf_output.0": "324", "wf_output.1": "2116", "wf_output.2": "933156"},
    ),
    "func_string.xml": (
        {"data.xml": "func_string.data.xml"},
        {f"str_output.{i}.{j}.{k}": f"dummy(mix({a},{b})_{k})"
         for i, a in enumerate("ab") for j, b in enumerate("ab") for k in (0, 1)},
    ),
    "inout_sink.xml": ({"data_inout_sink.xml": None}, {"int2out.0": "2", "int3.0": "3"}),
    "inout_sink_vectors.xml": (
        {"data_inout_sink_vectors.xml": None},
        {"int2out.0": "3 3 3", "int3.0": "3 3 3"},
    ),
    "inout_sink_PSPRINT.xml": (
        {"data_inout_sink_strings.xml": "data_inout_sink_PSPRINT.xml"},
        {"int2out.0": "aaaaabbbbbbccccc-dddddddeeeeeefffff"},
    ),
    "inout_sink_LCADD.xml": (
        {"data_inout_sink_containers.xml": "data_inout_sink_LCADD.xml"},
        {"int2out.0/0": "0", "int2out.0/1": "2", "int3.0/0": "1", "int3.0/1": "3"},
    ),
    "loop.xml": ({"data_loop.xml": None}, {"int2out.0": "27", "int3out.0": "28"}),
    "loop_container.xml": (
        {"data_loop_container.xml": None},
        {"int2out.0/0": "39", "int2out.0/1": "55", "int3out.0/0": "40", "int3out.0/1": "56"},
    ),
}  # fmt: skip


def prepare(real, services=SERVICES):
    real.write("machines.yaml", MACHINES)
    real.write("services.yaml", services)
    for name, text in PROGRAMS.items():
        real.write(name, text).chmod(0o755)


def copy_published(real, folder, name, data):
    """Copy a published file and its data; the placeholders of templates get values."""
    template = folder / name if (folder / name).exists() else folder / f"{name}.in"
    text = "\n".join(line for line in template.read_text().splitlines() if "DOCTYPE" not in line)
    filled = dict(FILLED)
    if "vectors" in name:
        filled |= {"@WF_PARAM_TYPE@": "DIET_VECTOR", "@WF_SERVICE_NAME@": "VADD"}
    if "container" in name:
        filled["@WF_SERVICE_NAME@"] = "LADD"
    for mark, value in filled.items():
        text = text.replace(mark, value)
    real.write(name, text)
    for source, target in data.items():
        shutil.copy(folder / source, real.folder / (target or source))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_is_planned_simulated_and_run(real, bench_data, name):
    prepare(real)
    data, outputs = PUBLISHED[name]
    copy_published(real, bench_data / "diet-examples", name, data)
    real.write("logo_diet.jpg", "logo\n")
    real.write("matrix.dat", "1 2 3 4\n")
    assert weft.plan(real.folder / name, on=real.folder / "machines.yaml", planner="heft").verify() == []
    assert real.simulate(name).outcome == "completed"
    assert real.run(name).completed
    assert {file: real.text(file).strip() for file in outputs} == outputs
    if "<sink" in (real.folder / name).read_text():
        assert not list(real.folder.glob("*#*")), "only data of sinks are results"


def test_the_example_runs_a_loop_with_a_condition_for_every_number(real):
    for file in EXAMPLE.iterdir():
        shutil.copy(file, real.folder / file.name)
    assert real.run("hailstone.xml").completed
    assert [real.text(f"steps.{number}").strip() for number in range(3)] == ["8", "0", "7"]
    assert real.text("longest").strip() == "8"
    ran = [each.task.partition("#")[0] for each in real.history.attempts.values()]
    assert (ran.count("halve[0]"), ran.count("triple[0]")) == (6, 2)
    assert real.simulate("hailstone.xml").outcome == "completed"


BRANCHES = """\
<workflow><interface><source name="n" type="DIET_INT"/><sink name="r" type="DIET_INT"/></interface><processors>
<condition name="C"><in name="a" type="DIET_INT"/><outThen name="t" type="DIET_INT"/>
<outElse name="e" type="DIET_INT"/><if>$a mod 2 = 0</if><then>t=a;</then><else>e=a;</else></condition>
<processor name="two"><in name="in" type="DIET_INT"/><out name="out" type="DIET_INT"/><diet path="double"/></processor>
<processor name="sq"><in name="in" type="DIET_INT"/><out name="out" type="DIET_INT"/><diet path="square"/></processor>
<merge name="M"><in name="x" type="DIET_INT"/><in name="y" type="DIET_INT"/><out name="z" type="DIET_INT"/></merge>
</processors><links><link from="n" to="C:a"/><link from="C:t" to="two:in"/><link from="C:e" to="sq:in"/>
<link from="two:out" to="M:x"/><link from="sq:out" to="M:y"/><link from="M:z" to="r"/></links></workflow>
"""
NUMBERS = '<data><source name="n"><list><item>3</item><item>8</item><item>7</item></list></source></data>'


def test_the_sink_of_a_merge_gets_the_results_of_both_branches(real):
    prepare(real)
    real.write("flow.xml", BRANCHES)
    real.write("data.xml", NUMBERS)
    assert real.run("flow.xml").completed
    assert [real.text(f"r.{number}").strip() for number in range(3)] == ["9", "16", "49"]
    assert not list(real.folder.glob("M#*"))


DAG = '<dag><node id="n" path="greet"><arg name="who" type="DIET_STRING" value="{0}"/><out name="o" type="DIET_STRING"/></node></dag>'
GREET = '{greet: {command: "echo hello {who} > {o}", work: 2, env: {X: y}}}'


@pytest.mark.parametrize(
    "machines",
    [
        "machines: {m: {services: [greet], backend: {kind: local}}}\nservices: " + GREET,
        "machines: {m: {backend: {kind: local}}}\nservices: " + GREET,
        "machines: {m: {services: " + GREET + ", backend: {kind: local}}}",
    ],
)
def test_platform_may_state_the_program_of_a_service(real, machines):
    real.write("machines.yaml", machines)
    real.write("flow.xml", DAG.replace("{0}", "it's {you}; $(x)"))
    assert weft.plan(real.folder / "flow.xml", on=real.folder / "machines.yaml").makespan_s == 2.0
    assert real.run("flow.xml").completed
    assert real.text("n#o") == "hello it's {you}; $(x)\n"


def test_weft_task_may_state_a_service_instead_of_a_command(real):
    real.write(
        "machines.yaml",
        'machines: {m: {backend: {kind: local}}}\nservices: {greet: {command: "echo hello > {outputs}"}}\n',
    )
    real.write("flow.yaml", "tasks: {a: {service: greet, outputs: [o]}}\n")
    assert real.run("flow.yaml").completed
    assert real.text("o") == "hello\n"


def functional(links, interface='<source name="s" type="DIET_INT"/>'):
    port = '<processor name="P"><in name="in" type="DIET_INT"/><out name="out" type="DIET_INT"/><diet path="double"/>'
    return (
        f"<workflow><interface>{interface}</interface><processors>{port}</processor></processors>"
        f"<links>{links}</links></workflow>"
    )


SOURCE = '<link from="s" to="P:in"/>'
PAIRED = functional(
    SOURCE + '<link from="t" to="P:b"/>',
    '<source name="s" type="DIET_INT"/><source name="t" type="DIET_INT"/>',
).replace("<out ", '<in name="b" type="DIET_INT"/><out ')
LIST = '<source name="{}"><list>{}</list></source>'
REFUSED = {
    "no data": (functional(SOURCE), {}, "source s has no data; add a file data.xml"),
    "no program": (
        DAG,
        {},
        "in a new file services.yaml, after `weft: 1`: `services: {greet: {command: ...}}`",
    ),
    "ragged data": (
        functional(SOURCE),
        {"data.xml": '<data><source name="s"><list><item>1</item><list/></list></source></data>'},
        "mixes items and lists",
    ),
    "unequal lists": (
        PAIRED,
        {
            "data.xml": f"<data>{LIST.format('s', '<item>1</item>' * 2)}{LIST.format('t', '<item>1</item>' * 3)}</data>"
        },
        "processor 'P' pairs lists of different lengths: 2 items of source 's', 3 items of source 't'",
    ),
    "wrong data": (functional(SOURCE), {"data.xml": "<date/>"}, "a data file has one element data"),
    "wrong key": (DAG, {"services.yaml": "services: {greet: {comand: x}}\n"}, "did you mean 'command'?"),
    "comment": (
        DAG,
        {"services.yaml": 'services: {greet: {command: "true # {who}"}}\n'},
        "service greet: {who}",
    ),
    "code": (
        DAG,
        {"services.yaml": "services: {greet: {command: \"sh -c 'echo {who}'\"}}\n"},
        "service greet: {who}",
    ),
    "unknown port": (
        DAG,
        {"services.yaml": 'services: {greet: {command: "echo {whom}"}}\n'},
        "services.yaml: service greet: {whom} is no port of 'n'; names in braces are ports,",
    ),
    "misspelt source": (
        functional(SOURCE.replace('"s"', '"size"'), '<source name="size" type="DIET_INT"/>'),
        {"data.xml": f"<data>{LIST.format('sise', '<item>1</item>')}</data>"},
        "source size has no data in the data file; did you mean 'sise'?",
    ),
    "empty list": (
        functional(SOURCE),
        {"data.xml": f"<data>{LIST.format('s', '')}</data>"},
        "the list of source 's' is empty; a source has at least one item",
    ),
    "no number": (
        functional(SOURCE),
        {"data.xml": f"<data>{LIST.format('s', '<item>1</item><item>abc</item>')}</data>"},
        "the value 'abc' of source 's'; P:in has type DIET_INT: must be a whole number",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_diet_file_that_cannot_run_is_refused_before_anything_starts(real, capsys, case):
    text, files, words = REFUSED[case]
    real.write("machines.yaml", "machines: {m: {services: [greet, double], backend: {kind: local}}}\n")
    real.write("flow.xml", text)
    for name, content in files.items():
        real.write(name, content)
    shell = Project(real.folder, capsys)
    if "services.yaml" not in files and case != "no program":
        real.write("services.yaml", 'services: {double: {command: "echo $((2 * {in})) > {out}"}}\n')
    for command in ("check", "run"):
        done = shell.weft(command, "flow.xml", "--on", "machines.yaml")
        assert done.code == 2
        assert words in " ".join(done.err.split())
    assert not (real.folder / ".weft" / "weft.db").exists()


def test_two_programs_of_one_service_are_refused(real):
    real.write(
        "machines.yaml",
        "machines: {a: {services: {greet: {command: one}}}, b: {services: {greet: {command: two}}}}\n",
    )
    real.write("flow.xml", DAG)
    with pytest.raises(weft.InvalidInput, match="has another program for service"):
        weft.plan("flow.xml", on="machines.yaml")


def test_value_that_is_not_a_number_is_refused_in_shell_arithmetic(real):
    real.write("machines.yaml", MACHINES)
    real.write("services.yaml", 'services: {greet: {command: "echo $(({who} + 1)) > {o}"}}\n')
    real.write("flow.xml", DAG.replace("{0}", "a[$(touch /tmp/never)]"))
    assert not real.run("flow.xml").completed


def test_untaken_branch_is_skipped_although_another_predecessor_has_ended(real):
    """The plan assigns tasks with some finished predecessors early; those with open conditions must wait."""
    real.write("machines.yaml", MACHINES)
    real.write(
        "flow.yaml",
        """\
tasks:
  quick: {command: "true", work: 0.1}
  judge: {command: "sleep 0.3; exit 3", outcomes: [0, 3], work: 0.3}
  never: {command: "touch never", outputs: [never], after: [quick, {task: judge, if: exit_code == 0}]}
""",
    )
    assert real.run("flow.yaml").completed
    assert real.attempts("never") == []


def test_output_folder_with_a_target_is_copied_to_the_target(real):
    real.write("machines.yaml", MACHINES)
    real.write(
        "flow.yaml",
        'tasks: {a: {command: "mkdir f; echo x > f/y", outputs: {f/: {to: there}}}}\n',
    )
    assert real.run("flow.yaml").completed
    assert real.text("there/y") == "x\n"


def test_a_file_with_the_name_of_a_folder_output_is_not_staged(real):
    real.write("machines.yaml", MACHINES)
    real.write("out", "an old file\n")
    real.write(
        "flow.yaml",
        """\
tasks:
  t: {command: "test ! -e out; mkdir out; echo x > out/f", outputs: ["out/"]}
  u: {command: "cat out/f > last", inputs: ["out/"], outputs: [last]}
""",
    )
    assert real.run("flow.yaml").completed
    assert real.text("last") == "x\n"
