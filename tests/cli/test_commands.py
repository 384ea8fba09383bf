"""Correct use of every command."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.shell import HELLO, refused
from cli.shell import weft as new_weft
from cli.warm_process import weft
from weft import __version__
from weft.cli.main import COMMANDS
from weft.cli.main import weft as group
from weft.formats import FORMATS
from weft.planners import PLANNERS
from weft.policies import POLICIES
from weft.registry import list_options
from weft.schedule.objective import OBJECTIVES

PLAN = ("plan", "hello.yaml", "--on", "grid.yaml", "--plan-steps", "50")


def test_version_is_printed(folder: Path) -> None:
    assert new_weft("--version", folder=folder).out == f"weft {__version__}\n"


def test_help_lists_every_command(folder: Path) -> None:
    shown = new_weft("--help", folder=folder)
    assert shown.code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", shown.out, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, folder: Path) -> None:
    shown = new_weft(name, "-h", folder=folder)
    assert shown.code == 0
    assert shown.out.startswith(f"Usage: weft {name} ")
    assert len(shown.out.splitlines()) > 4


def test_every_command_has_a_module() -> None:
    from weft.cli import main

    files = {path.stem for path in Path(str(main.__file__)).parent.glob("*.py")}
    assert {main.SHARED_MODULES.get(name, name) for name in COMMANDS} <= files


def test_plan_prints_key_figures_and_a_chart(folder: Path) -> None:
    shown = new_weft(*PLAN, folder=folder)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("hello: 6 tasks, 8 edges on grid; auto took ")
    for label in ("makespan", "lower bound", "gap", "cost", "machines", "nodes busy"):
        assert re.search(rf"^  {label}  +\S", shown.out, re.MULTILINE)
    plain = new_weft(*PLAN, "--no-chart", folder=folder)
    assert len(plain.out.splitlines()) < len(shown.out.splitlines())


def test_plan_prints_json_on_request(folder: Path) -> None:
    record = json.loads(weft(*PLAN, "--json", folder=folder).out)
    assert (record["workflow"], record["platform"], record["tasks"], record["planner"]) == (
        "hello",
        "grid",
        6,
        "auto",
    )
    assert record["lower_bound_s"] <= record["makespan_s"] + 1e-9
    assert len(record["schedule"]) == 6
    assert max(line["finish_s"] for line in record["schedule"]) == record["makespan_s"]


@pytest.mark.parametrize("deadline", ["7200", "2h", "0-02:00:00"])
def test_plan_within_its_limits_exits_with_0(deadline: str, folder: Path) -> None:
    shown = weft(*PLAN, "--deadline", deadline, "--max-cost", "9", "--no-chart", folder=folder)
    assert shown.code == 0
    assert re.search(r"^  deadline      2h 0m, 1h \d+m to spare$", shown.out, re.MULTILINE)
    assert re.search(r"^  maximal cost  9, 8\.\d+ to spare$", shown.out, re.MULTILINE)
    record = json.loads(weft(*PLAN, "--deadline", deadline, "--json", folder=folder).out)
    assert (record["deadline_s"], record["max_cost"]) == (7200, None)
    assert record["objective_value"] == record["makespan_s"]


def test_plan_beyond_its_limits_is_an_error(folder: Path) -> None:
    lines = refused(
        weft(*PLAN, "--deadline", "1m", folder=folder), 3, "no plan can meet the deadline of 60 s"
    )
    assert len(lines) == 1
    heft = (*PLAN, "--planner", "heft")
    refused(
        weft(*heft, "--max-cost", "0.2", folder=folder),
        3,
        "the plan of heft costs 0.2125",
        "another plan may keep the limit",
    )
    shown = weft(*PLAN, "--deadline", "1m", "--json", folder=folder)
    assert shown.code == 3
    assert "too long" in json.loads(shown.out)["error"]


def test_the_help_of_plan_names_every_objective(folder: Path) -> None:
    shown = " ".join(weft("plan", "--help", folder=folder).out.split()).replace("- ", "-")
    for name in OBJECTIVES:
        assert re.search(rf"[ :]{name}[,.]", shown), name


def test_planners_command_lists_the_options_of_a_planner() -> None:
    for name in PLANNERS:
        # Run in this process: starting one per planner would take longer than the command.
        record = json.loads(CliRunner().invoke(group, ["planners", name, "--json"]).stdout)
        assert record["name"] == name
        assert record["title"] == PLANNERS.load(name).title
        assert [option["name"].replace("-", "_") for option in record["options"]] == [
            field.name for field in list_options(PLANNERS.load(name))
        ]
        assert all(option["meaning"] for option in record["options"]), name
        shown = CliRunner().invoke(group, ["planners", name]).stdout
        assert shown.startswith(f"{name}: ")
        assert all(f"  {name}:{option['name']}=" in shown for option in record["options"])


def test_plan_is_the_same_under_every_hash_seed(folder: Path) -> None:
    found = [
        json.loads(new_weft(*PLAN, "--json", folder=folder, PYTHONHASHSEED=seed).out)
        for seed in ("0", "1", "77")
    ]
    for record in found:
        del record["planning_s"]
    assert found[0] == found[1] == found[2]


def test_plan_writes_json_and_csv_and_html(folder: Path) -> None:
    shown = weft(*PLAN, "--out", "plan.json", "--html", "plan.html", "--no-chart", folder=folder)
    assert shown.out.endswith("wrote plan.json\nwrote plan.html\n")
    assert weft(*PLAN, "--out", "plan.csv", folder=folder).code == 0
    record = json.loads((folder / "plan.json").read_text())
    rows = list(csv.DictReader((folder / "plan.csv").read_text().splitlines()))
    assert [row["task"] for row in rows] == [line["task"] for line in record["schedule"]]
    page = (folder / "plan.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert not re.search(r"""(src|href)=["']?https?:""", page), "the page needs no network"


def test_plan_prints_only_the_requested_output(folder: Path) -> None:
    assert json.loads(weft(*PLAN, "--out", "-", folder=folder).out)["workflow"] == "hello"
    page = weft(*PLAN, "--html", "-", folder=folder).out.strip().lower()
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")


def test_plan_reads_a_workflow_from_standard_input(folder: Path) -> None:
    shown = new_weft(
        "plan",
        "-",
        "--on",
        "identical:2",
        "--no-chart",
        "--plan-steps",
        "9",
        folder=folder,
        given=HELLO.encode(),
    )
    assert shown.out.startswith("hello: 6 tasks, 8 edges on ")


def test_plan_reads_a_platform_from_standard_input(folder: Path) -> None:
    given = b"weft: 1\nmachines: {m: {speed: 2}}\n"
    record = json.loads(weft("plan", "hello.yaml", "--on", "-", "--json", folder=folder, given=given).out)
    assert record["makespan_s"] == (20 + 4 * 120 + 10) / 2


@pytest.mark.parametrize("platform", ["identical:3", "cluster:4", "local", "random:3"])
def test_platforms_can_be_given_in_short_form(platform: str, folder: Path) -> None:
    record = json.loads(
        weft("plan", "hello.yaml", "--on", platform, "--json", "--plan-steps", "9", folder=folder).out
    )
    assert record["makespan_s"] > 0


def test_parameters_of_the_command_line_override_those_of_a_file(folder: Path) -> None:
    (folder / "params.yaml").write_text("seeds: 2\n")

    def tasks(*arguments: str) -> int:
        return int(json.loads(weft(*PLAN, "--json", *arguments, folder=folder).out)["tasks"])

    assert tasks() == 6
    assert tasks("--params-file", "params.yaml") == 4
    assert tasks("--params-file", "params.yaml", "-p", "seeds=7") == 9
    assert tasks("-p", "seeds=7", "-p", "seeds=1") == 3


def test_check_reports_no_problems(folder: Path) -> None:
    shown = weft("check", "hello.yaml", "grid.yaml", "--on", "grid.yaml", folder=folder)
    assert shown.code == 0
    first, second = shown.out.splitlines()
    assert first.startswith("hello.yaml: 6 tasks, 8 edges (weft); no problems found; every task can run on ")
    assert second == "grid.yaml: a platform of 2 machines, 3 nodes; no problems found"


def test_check_prints_json_on_request(folder: Path) -> None:
    record = json.loads(weft("check", "hello.yaml", "grid.yaml", "--json", folder=folder).out)
    assert record["problems"] == []
    assert [entry["kind"] for entry in record["files"]] == ["workflow", "platform"]


def test_check_reports_what_a_run_would_reject(folder: Path) -> None:
    (folder / "here.txt").write_text("")
    (folder / "w.yaml").write_text(
        "weft: 1\nname: w\ntasks:\n"
        "  a: {command: 'true', inputs: [here.txt, /etc/hosts], outputs: ['../{k}', 'x/{k}', '/tmp/y{k}'], sweep: {k: 1..2}}\n"
        "  b: {work: 5, inputs: [../not-run], outputs: [/nor/this]}\n"
    )
    lines = refused(weft("check", "w.yaml", folder=folder), 2, "w.yaml:4:", "`to:` sets the destination")
    assert len(lines) == 3
    reported = "\n".join(lines)
    assert (
        "'/etc/hosts' is not a valid file name; only names relative to the directory are allowed" in reported
    )
    assert "'../{k}' is not a valid file name; '..' leads out of the directory" in reported
    assert "'/tmp/y{k}' is not a valid file name" in reported
    for words in (("run", "-n"), ("run",)):
        assert weft(*words, "w.yaml", folder=folder).err == reported + "\n"
        assert not (folder / ".weft").exists()


def test_check_notes_files_that_do_not_exist_yet(folder: Path) -> None:
    (folder / "sub").mkdir()
    for name in ("here.txt", "p1", "p2"):
        (folder / "sub" / name).write_text("")
    (folder / "sub" / "w.yaml").write_text(
        "weft: 1\nname: w\ntasks:\n"
        "  a: {command: 'true', inputs: [here.txt, gone.txt, {file: g, from: 'http://127.0.0.1:9/x'}], outputs: [made/]}\n"
        "  b: {command: 'true', sweep: {k: 1..3}, inputs: ['p{k}', made/x, 'bin.{machine.arch}', 'part.*']}\n"
        "  c: {command: 'true', outputs: [part.1, lines]}\n"
        "  d: {command: 'true', sweep: {l: lines(c.lines)}, inputs: ['{l}', {file: h, from: here.txt}]}\n"
        "  e: {work: 5, inputs: [only-planned]}\n"
    )
    shown = weft("check", "sub/w.yaml", folder=folder)
    assert shown.code == 0
    first, *notes = shown.out.splitlines()
    assert first.endswith("no problems found")
    assert [note.partition(": tasks.")[2].partition(";")[0] for note in notes] == [
        "a.inputs[1]: 'gone.txt' does not exist and no task produces it",
        "b.inputs[0]: 'p3' does not exist and no task produces it",
    ]
    assert notes[0].startswith("note: sub/w.yaml:4:")
    (record,) = json.loads(weft("check", "sub/w.yaml", "--json", folder=folder).out)["files"]
    assert [f"note: {note}" for note in record["notes"]] == notes


def test_check_reports_local_machines_that_a_run_rejects(folder: Path) -> None:
    (folder / "here.yaml").write_text(
        "weft: 1\nmachines:\n  here: {backend: {kind: local, cors: [0], sandbox: 5}}\n  there: {}\n"
    )
    (folder / "all.yaml").write_text(
        "weft: 1\nmachines:\n  here: {backend: {kind: local, cors: [0], sandbox: 5}}\n"
    )
    words = (
        "machine 'here': backend: unknown key 'cors'; did you mean 'cores'?",
        "sandbox 5; must name a directory",
    )
    reported = refused(weft("check", "here.yaml", folder=folder), 2, *words)
    assert refused(weft("check", "hello.yaml", "--on", "here.yaml", folder=folder), 2, *words) == reported
    assert refused(weft("run", "hello.yaml", "-n", "--on", "all.yaml", folder=folder), 2, *words) == reported


def test_check_reports_unknown_backends_as_a_run_does(folder: Path) -> None:
    (folder / "far.yaml").write_text(
        "weft: 1\nmachines:\n  one: {backend: {kind: local}}\n  far{1..3}:\n    backend: {kind: torque}\n"
    )
    words = (
        "far.yaml:5:15: machines.far{1..3}.backend.kind: unknown backend 'torque'; known: dask, local, simulation, slurm, ssh",
    )
    reported = refused(weft("check", "far.yaml", folder=folder), 2, *words)
    assert len(reported) == 1, "one problem for all machines of the key"
    for command in (("check", "hello.yaml"), ("run", "hello.yaml", "-n")):
        assert refused(weft(*command, "--on", "far.yaml", folder=folder), 2, *words) == reported


def test_check_uses_the_singular_for_one_machine(folder: Path) -> None:
    (folder / "one.yaml").write_text("weft: 1\nmachines: {one: {}}\n")
    assert (
        "a platform of 1 machine, 1 node; no problems found" in weft("check", "one.yaml", folder=folder).out
    )


def test_check_refuses_tasks_without_a_program_if_the_machines_have_a_backend(folder: Path) -> None:
    (folder / "half.yaml").write_text(
        "weft: 1\ntasks:\n  a: {work: 5}\n  b: {command: 'true'}\n  c: {kind: virtual, after: b}\n  d: {work: 1}\n"
    )
    refused = weft("check", "half.yaml", "--on", "local", folder=folder)
    assert refused.code == 2
    assert "half.yaml:3:3: tasks.a: 2 tasks without a program (a, d); a run executes" in refused.err
    for planned in ((), ("--on", "identical:2")):
        assert weft("check", "half.yaml", *planned, folder=folder).code == 0


def test_help_names_only_arguments_that_the_command_accepts(folder: Path) -> None:
    run, simulate = (weft(name, "--help", folder=folder).out for name in ("run", "simulate"))
    assert "identical:N" not in run
    assert "identical:N" in simulate
    assert run.startswith("Usage: weft run [OPTIONS] [WORKFLOW]...")
    assert simulate.startswith("Usage: weft simulate [OPTIONS] [WORKFLOW]...")
    assert weft("compare", "--help", folder=folder).out.startswith(
        "Usage: weft compare [OPTIONS] WORKFLOW..."
    )


def test_show_prints_the_unfolded_workflow(folder: Path) -> None:
    shown = weft("show", "hello.yaml", folder=folder)
    assert shown.code == 0
    assert shown.out.startswith("hello: 6 tasks")
    assert len(weft("show", "hello.yaml", "--no-picture", folder=folder).out) < len(shown.out)
    wide = json.loads(weft("show", "hello.yaml", "--json", "-p", "seeds=9", folder=folder).out)
    assert wide["tasks"] == 11
    assert wide["width"] == 9


@pytest.mark.parametrize("ending", [".yaml", ".json"])
def test_a_converted_workflow_gives_the_same_plan(ending: str, folder: Path) -> None:
    target = f"other{ending}"
    shown = weft("convert", "hello.yaml", target, folder=folder)
    assert shown.out.startswith(f"wrote {target} (")
    found = [
        json.loads(
            weft(
                "plan",
                name,
                "--on",
                "identical:2,bandwidth=1e30",
                "--planner",
                "heft",
                "--json",
                folder=folder,
            ).out
        )
        for name in ("hello.yaml", target)
    ]
    assert found[0]["makespan_s"] == pytest.approx(found[1]["makespan_s"])


def test_error_of_convert_names_a_format_that_cannot_be_written(folder: Path) -> None:
    shown = weft("convert", "hello.yaml", "out.stg", folder=folder)
    refused(shown, 2, "files '.stg' have the format 'stg', which can be read, not written")


def test_convert_writes_to_standard_output(folder: Path) -> None:
    shown = weft("convert", "-", "-", "--to", "dot-picture", folder=folder, given=HELLO.encode())
    assert shown.out.startswith("digraph")
    assert "wrote" not in shown.out


def test_convert_prints_json_on_request(folder: Path) -> None:
    record = json.loads(weft("convert", "hello.yaml", "out.json", "--json", folder=folder).out)
    assert (record["in"], record["out"], record["format"]) == ("hello.yaml", "out.json", "wfformat")


def test_commands_formats_planners_and_policies_list_the_registries(folder: Path) -> None:
    for command, registry in (("formats", FORMATS), ("planners", PLANNERS), ("policies", POLICIES)):
        lines = weft(command, folder=folder).out.splitlines()
        assert [line.split()[0] for line in lines] == list(registry)
        rows = json.loads(weft(command, "--json", folder=folder).out)
        assert [row["name"] for row in rows] == list(registry)
        assert all(row["title"] for row in rows)


@pytest.mark.parametrize("kind", ["workflow", "platform", "scenario"])
def test_the_schema_accepts_what_weft_accepts(kind: str, folder: Path) -> None:
    import jsonschema
    import yaml

    schema = json.loads(weft("schema", kind, folder=folder).out)
    (folder / "scenario.yaml").write_text("{weft: 1, loads: [{machine: fast, at: 5s}]}")
    name = {"workflow": "hello.yaml", "platform": "grid.yaml", "scenario": "scenario.yaml"}[kind]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load((folder / name).read_text()), schema)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, folder: Path) -> None:
    shown = weft("completion", shell, folder=folder)
    assert shown.code == 0
    assert "_WEFT_COMPLETE" in shown.out


def test_completion_suggests_commands_and_options(folder: Path) -> None:
    requested = {"_WEFT_COMPLETE": "bash_complete", "COMP_WORDS": "weft pl", "COMP_CWORD": "1"}
    assert new_weft(folder=folder, **requested).out.split() == ["plain,plan", "plain,planners"]
    requested |= {"COMP_WORDS": "weft plan --ob", "COMP_CWORD": "2"}
    assert new_weft(folder=folder, **requested).out.split() == ["plain,--objective"]


def test_log_messages_go_to_standard_error(folder: Path) -> None:
    silent = weft(*PLAN, folder=folder)
    assert silent.err == ""
    logged = weft("--log-level", "info", *PLAN, folder=folder)
    assert "INFO weft.api.request: compiled hello: 6 tasks" in logged.err
    assert "INFO weft.api.request" in weft(*PLAN, folder=folder, WEFT_LOG="info").err
    assert weft("--log-level", "error", *PLAN, folder=folder, WEFT_LOG="info").err == ""
    refused(weft("--log-level", "loud", "ls", folder=folder), 2, "'--log-level': 'loud' is not one of")
    refused(weft("ls", folder=folder, WEFT_LOG="loud"), 2, "Invalid value for WEFT_LOG: 'loud' is not one of")


def test_plan_states_how_many_tasks_are_placed_by_their_rank(folder):
    text = "weft: 1\ntasks:\n  a: {work: 4, rank: -price_per_node_hour}\n  b: {work: 4}\n"
    (folder / "ranked.yaml").write_text(text)
    (folder / "prices.yaml").write_text(
        "weft: 1\nmachines:\n  dear: {speed: 4, price_per_node_hour: 9}\n  cheap: {price_per_node_hour: 1}\n"
    )
    command = ("plan", "ranked.yaml", "--on", "prices.yaml", "--plan-steps", "50")
    printed = weft(*command, folder=folder).out
    assert "ranks decide where 1 task will run, between the machines that are free then" in printed
    record = json.loads(weft(*command, "--json", folder=folder).out)
    rank = {"task": "a", "machine": "cheap", "rank": "-price_per_node_hour", "value": -1.0}
    assert record["ranked"] == [rank]
    assert {line["task"]: line["machine"] for line in record["schedule"]} == {"a": "cheap", "b": "dear"}


def test_check_accepts_files_that_define_the_programs_of_services(tmp_path: Path) -> None:
    (tmp_path / "services.yaml").write_text("weft: 1\nservices: {succ: {command: 'echo {in} > {out}'}}\n")
    (tmp_path / "bad.yaml").write_text("weft: 1\nservices: {succ: {comand: 'echo'}}\n")
    assert weft("check", "services.yaml", folder=tmp_path).out == (
        "services.yaml: 1 service with programs; no problems found\n"
    )
    refused = weft("check", "bad.yaml", folder=tmp_path)
    assert refused.code == 2
    assert "unknown key 'comand'; did you mean 'command'?" in refused.err


def test_check_reads_files_of_predictions(tmp_path: Path) -> None:
    rows = "[{kind: a, seconds: 3}, {kind: a, machine: m, seconds: 2}]"
    (tmp_path / "measured.yaml").write_text(f"weft: 1\npredictions: {rows}\n")
    (tmp_path / "bad.yaml").write_text("weft: 1\npredictions: [{kind: a, seconds: soon}]\n")
    (tmp_path / "flow.yaml").write_text(f"weft: 1\nname: flow\npredictions: {rows}\n")
    shown = weft("check", "measured.yaml", folder=tmp_path)
    assert (shown.code, shown.out) == (0, "measured.yaml: 2 predictions; no problems found\n")
    refused = weft("check", "bad.yaml", folder=tmp_path)
    assert refused.code == 2
    assert "bad.yaml:2:" in refused.err
    assert "seconds" in refused.err
    assert "tasks" not in refused.err
    assert "a workflow without the key 'tasks'" in weft("check", "flow.yaml", folder=tmp_path).err


@pytest.mark.parametrize("text", ["command: 'true', stdout: '{a.result.x}'", "command: 'echo {a.result.x}'"])
def test_check_refuses_the_result_of_a_sweep_without_a_common_variable(tmp_path: Path, text: str) -> None:
    flow = "weft: 1\nname: s\ntasks:\n  a: {sweep: {i: 1..2}, command: 'true'}\n  b: {after: a, %s}\n"
    (tmp_path / "bad.yaml").write_text(flow % text)
    (tmp_path / "good.yaml").write_text(flow % f"sweep: {{i: 1..2}}, {text}")
    for command in ("check", "run"):
        refused = weft(command, "bad.yaml", folder=tmp_path)
        assert refused.code == 2
        assert "refers to the result of a, which has 2 subtasks" in refused.err
    assert weft("check", "good.yaml", folder=tmp_path).code == 0


def test_result_of_a_task_that_need_not_have_ended_is_refused(tmp_path: Path) -> None:
    flow = "weft: 1\nname: s\ntasks:\n  a: {command: 'true'}\n  m: {after: a, command: 'true'}\n  b: {command: 'echo {a.result.x}'%s}\n"
    loop = "  c: {after: b, command: 'true'}\nloops: {l: {from: c, to: b, max_iterations: 2}}\n"
    (tmp_path / "bad.yaml").write_text(flow % "")
    (tmp_path / "direct.yaml").write_text(flow % ", after: a")
    (tmp_path / "indirect.yaml").write_text(flow % ", after: m")
    (tmp_path / "iteration.yaml").write_text((flow % "" + loop).replace("a.result", "c.result"))
    for command in ("check", "run"):
        refused = weft(command, "bad.yaml", folder=tmp_path)
        assert refused.code == 2
        assert "uses the result of a, but b does not run after a" in refused.err
        assert "add `after: a`" in refused.err
    for name in ("direct.yaml", "indirect.yaml", "iteration.yaml"):
        assert weft("check", name, folder=tmp_path).code == 0


def test_check_reads_tables_of_predictions(tmp_path: Path) -> None:
    (tmp_path / "measured.csv").write_text("# ours\nkind,machine,nodes,seconds\na,m1,1,5\na,x,2,3\n")
    (tmp_path / "table.txt").write_text("kind,seconds\na,5\n")
    (tmp_path / "holes.csv").write_text("kind,machine,nodes,seconds\na,m,1,5\na,m,2,-3\na,m,4,\n")
    (tmp_path / "other.csv").write_text("task,time\na,5\n")
    assert weft("check", "measured.csv", "table.txt", folder=tmp_path).out == (
        "measured.csv: 2 predictions; no problems found\ntable.txt: 1 prediction; no problems found\n"
    )
    noted = weft("check", "measured.csv", "--on", "identical:2", folder=tmp_path).out
    assert "note: predictions of machine 'x' have no effect: there is no such machine" in noted
    refused = weft("check", "holes.csv", folder=tmp_path)
    assert refused.code == 2
    assert refused.err == (
        "error: holes.csv:3: seconds is '-3'; must be a time above 0\n"
        "error: holes.csv:4: seconds is missing; must be a time above 0\n"
    )
    assert "other.csv:1: there is no column 'kind'" in weft("check", "other.csv", folder=tmp_path).err
    planned = weft("plan", "measured.csv", folder=tmp_path)
    assert planned.code == 2
    assert planned.err == (
        "error: measured.csv: this file is a table, which may hold predictions; it describes no tasks; "
        "use it beside a workflow: --predictions FILE; `weft check FILE` checks it\n"
    )


def test_check_names_the_profile_whose_platform_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "profile.yaml").write_text("weft: 1\nprofile: {on: nofile.yaml}\n")
    refused = weft("check", "profile.yaml", folder=tmp_path)
    assert refused.code == 2
    assert "error: profile.yaml:2:11: profile.on: no file 'nofile.yaml'" in refused.err
