"""``weft settings`` shows the values that a run uses; unknown names are refused wherever they are stated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.shell import refused
from cli.warm_process import weft

TWO = """\
weft: 1
machines:
  fast: {speed: 4, price_per_node_hour: 100, backend: {kind: local}}
  slow: {speed: 1, price_per_node_hour: 1, backend: {kind: local}}
"""
SWEEP = "tasks: {a: {sweep: {i: 1..4}, command: 'true', work: 10s}}\n"
TASK = "tasks: {a: {command: 'true'}}\n"
INNER = "profile: {settings: {"
WRONG = {
    "planner: hefft": "settings.planner: unknown planner 'hefft'; did you mean 'heft'?",
    "planner: 'genetic:populaton=3'": "has no option 'populaton'; did you mean 'population=...'?",
    "planner: 'genetic:crossover=unifrom'": "must be one of single-point, uniform; did you mean 'uniform'?",
    "replan: {planner: hefft}": "settings.replan.planner: unknown planner 'hefft'",
    "policy: fof": "settings.policy: unknown policy 'fof'; did you mean 'foft'?",
    "objective: makespam": "settings.objective: unknown objective 'makespam'; did you mean 'makespan'?",
}


def values(folder: Path, *arguments: str) -> dict[str, tuple[object, str]]:
    rows = json.loads(weft("settings", *arguments, "--json", folder=folder).out)
    return {row["key"]: (row["value"], row["note"]) for row in rows}


def test_settings_command_prints_the_values_that_a_run_uses(folder: Path) -> None:
    found = values(folder)
    assert found["alpha"] == (0.5, "")
    assert {key: found[key][0] for key in ("policy", "planner", "replan.planner", "plan_time")} == {
        "policy": "plan", "planner": "auto", "replan.planner": "auto", "plan_time": 2.0,
    }  # fmt: skip
    assert "of several runs foft" in found["policy"][1]
    assert values(folder, "--set", "planner=heft")["replan.planner"] == ("heft", "that of the first plan")
    assert values(folder, "--set", "plan_steps=9")["plan_time"] == ("none", "plan_steps is stated instead")
    shown = weft("settings", folder=folder).out
    assert "(plan; of several runs foft" in shown


def test_contract_of_a_task_keeps_the_keys_that_it_does_not_state(folder: Path) -> None:
    tasks = "a: {command: 'true', contract: {factor: 0.3}}, b: {command: 'true', contract: {grace: 1s}}"
    (folder / "flow.yaml").write_text(
        f"weft: 1\nname: flow\nsettings: {{contract: {{grace: 10s}}}}\ntasks: {{{tasks}}}\n"
    )

    def contract(task: str) -> list[tuple[object, str]]:
        rows = json.loads(weft("settings", "flow.yaml", "--task", task, "--json", folder=folder).out)
        return [(row["value"], row["origin"]) for row in rows if row["key"].startswith("contract.")]

    assert contract("a") == [(0.3, "task a"), (10.0, "workflow flow"), ("none", "default")]
    assert contract("b") == [(0.5, "default"), (1.0, "task b"), ("none", "default")]


def test_option_changed_lists_only_settings_that_differ_from_the_defaults(folder: Path) -> None:
    same = ("migration.gain=0.2", "planner=auto", "policy=plan", "alpha=none", "plan_time=2s")
    assert values(folder, "--changed", *(word for each in same for word in ("--set", each))) == {}
    assert values(folder, "--changed", "--set", "migration.gain=0.3") == {"migration.gain": (0.3, "")}


@pytest.mark.parametrize("stated", WRONG)
def test_unknown_names_of_settings_are_refused_wherever_they_are_stated(stated: str, folder: Path) -> None:
    (folder / "flow.yaml").write_text(f"weft: 1\nsettings: {{{stated}}}\n{TASK}")
    (folder / "good.yaml").write_text(f"weft: 1\n{TASK}")
    (folder / "profile.yaml").write_text(f"weft: 1\n{INNER}{stated}}}}}\n")
    profile = ("--profile", "profile.yaml")
    unplanned = () if "policy" in stated else ("--policy", "basic")  # which uses no planner and no objective
    for arguments in (
        ("check", "flow.yaml"),
        ("check", "profile.yaml"),
        ("settings", "flow.yaml"),
        ("plan", "flow.yaml"),
        ("settings", "good.yaml", *profile),
        ("run", "flow.yaml"),
        ("run", "good.yaml", *profile, *unplanned),
        ("simulate", "good.yaml", *profile, *unplanned),
    ):
        file, place = ("flow.yaml", "settings: {") if "flow.yaml" in arguments else ("profile.yaml", INNER)
        column = len(place) + 1 + (len("replan: {") if "replan" in stated else 0)
        refused(weft(*arguments, folder=folder), 2, f"{file}:2:{column}: ", WRONG[stated])


def test_names_stated_directly_in_a_profile_have_their_own_location(folder: Path) -> None:
    lines = ["weft: 1", "profile:", "  settings: {planner: heft}", "  planner: hefft", "  on: no:3"]
    (folder / "profile.yaml").write_text("\n".join(lines))
    for command in (("check", "profile.yaml"), ("run", "hello.yaml", "--profile", "profile.yaml")):
        message = "profile.yaml:4:3: profile.planner: unknown planner 'hefft'; did you mean 'heft'?"
        refused(weft(*command, folder=folder), 2, message)
    (folder / "profile.yaml").write_text("\n".join(lines).replace("hefft", "heft"))
    for command in (("check",), ("run", "hello.yaml", "--profile"), ("simulate", "hello.yaml", "--profile")):
        message = "profile.yaml:5:3: profile.on: no platform 'no:3'"
        refused(weft(*command, "profile.yaml", folder=folder), 2, message)


def test_a_name_of_a_workflow_that_an_option_replaces_is_not_refused(folder: Path) -> None:
    (folder / "flow.yaml").write_text(f"weft: 1\nsettings: {{planner: absent}}\n{TASK}")
    assert weft("plan", "flow.yaml", "--planner", "heft", folder=folder).code == 0
    assert weft("simulate", "flow.yaml", "--planner", "heft", folder=folder).code == 0


SELECTORS = {
    "fof": ("flow.yaml:2:", "selector of task 'a': unknown policy 'fof'; did you mean 'foft'?"),
    "nosel": ("flow.yaml:2:", "tasks.a.selector", "unknown policy 'nosel'"),
    "plan": ("selector of task 'a': 'plan'", "must be a policy that follows no plan"),
}


@pytest.mark.parametrize("selector", SELECTORS)
def test_selector_that_is_not_a_policy_is_refused_before_the_run(selector: str, tmp_path: Path) -> None:
    flow = f"weft: 1\ntasks: {{a: {{command: 'true', work: 1s, selector: {selector}}}}}\n"
    (tmp_path / "flow.yaml").write_text(flow)
    for command in ("check", "run", "simulate"):
        refused(weft(command, "flow.yaml", folder=tmp_path), 2, *SELECTORS[selector])
    assert [each.name for each in tmp_path.iterdir()] == ["flow.yaml"]


def test_plan_command_uses_the_settings_of_the_workflow_as_run_does(folder: Path) -> None:
    flow, where = folder / "flow.yaml", ("flow.yaml", "--on", "two.yaml")
    (folder / "two.yaml").write_text(TWO)

    def planned(*arguments: str) -> dict[str, object]:
        found = json.loads(weft("plan", *where, *arguments, "--json", folder=folder).out)
        return {key: found[key] for key in ("planner", "objective", "makespan_s", "plan_steps")}

    flow.write_text(f"weft: 1\nsettings: {{objective: cost, plan_steps: 50}}\n{SWEEP}")
    cheap = {"planner": "auto", "objective": "cost", "makespan_s": 40.0, "plan_steps": 50}
    assert planned() == cheap
    (dry,) = json.loads(weft("run", "-n", *where, "--json", folder=folder).out)
    assert {key: dry[key] for key in cheap} == cheap
    assert planned("--objective", "makespan")["makespan_s"] == 10.0
    flow.write_text(f"weft: 1\nsettings: {{planner: heft, deadline: 3s}}\n{SWEEP}")
    for arguments in (("plan", *where), ("plan", *where, "--choose", "1", "--plan-steps", "50")):
        refused(weft(*arguments, folder=folder), 3, "deadline")
    assert planned("--deadline", "60")["planner"] == "heft"


def test_values_that_exclude_each_other_are_refused(folder: Path) -> None:
    refused(weft("settings", "--set", "alpha=0.3", folder=folder), 2, "'makespan' has no alpha")
    both = ("--set", "plan_time=3", "--set", "plan_steps=9")
    refused(weft("settings", *both, folder=folder), 2, "are both given")
    stated = {"alpha: 0.3": "'makespan' has no alpha", "plan_time: 3, plan_steps: 9": "are both given"}
    for settings, message in stated.items():
        (folder / "flow.yaml").write_text(f"weft: 1\nsettings: {{{settings}}}\n{TASK}")
        refused(weft("check", "flow.yaml", folder=folder), 2, "flow.yaml: ", message)
        refused(weft("run", "flow.yaml", folder=folder), 2, message)
    (folder / "flow.yaml").write_text(f"weft: 1\nsettings: {{alpha: 0.3, objective: on-demand}}\n{TASK}")
    assert weft("check", "flow.yaml", folder=folder).code == 0


@pytest.mark.parametrize("stated", ["planner: heft, objective: cost", "planner: moldable-genetic"])
def test_check_refuses_planners_that_cannot_plan_on_the_platform(stated: str, folder: Path) -> None:
    (folder / "two.yaml").write_text(TWO)
    (folder / "flow.yaml").write_text(f"weft: 1\nsettings: {{{stated}}}\n{SWEEP}")
    message = f"planner {stated.split()[1].strip(',')!r} cannot plan 'flow'"
    for command in ("check", "run"):
        done = weft(command, "flow.yaml", "--on", "two.yaml", folder=folder)
        refused(done, 2, *(("flow.yaml: ",) if command == "check" else ()), message)
    (folder / "flow.yaml").write_text(f"weft: 1\nsettings: {{policy: foft, {stated}}}\n{SWEEP}")
    assert weft("check", "flow.yaml", "--on", "two.yaml", folder=folder).code == 0


def test_planning_options_are_refused_with_a_policy_that_follows_no_plan(folder: Path) -> None:
    (folder / "flow.yaml").write_text(f"weft: 1\nsettings: {{objective: cost}}\n{TASK}")
    for option in (("--objective", "cost"), ("--planner", "heft"), ("--set", "planner=heft")):
        for command in (("run",), ("run", "-n"), ("simulate",)):
            done = weft(*command, "flow.yaml", "--policy", "foft", *option, folder=folder)
            refused(done, 2, "policy 'foft' follows no plan, so it does not use the", "--policy plan")
    assert weft("simulate", "flow.yaml", "--policy", "foft", folder=folder).code == 0


def test_check_refuses_a_grid_file_whose_options_no_planner_has(folder: Path) -> None:
    grid = folder / "knobs.yaml"
    grid.write_text("weft: 1\ngrid: {populaton: [4, 8]}\n")
    message = "planner 'genetic' has no option 'populaton'; did you mean 'population'?"
    tune = ("tune", "hello.yaml", "--grid")
    for command in (("check",), tune):
        refused(weft(*command, "knobs.yaml", folder=folder), 2, f"knobs.yaml:2:8: grid.populaton: {message}")
    grid.write_text("weft: 1\ngrid:\n  mutation-rate: [0.1]\n  crossover: [uniform, unifrom]\n")
    for command in (("check",), tune):
        message = (
            "knobs.yaml:4:24: grid.crossover[1]: genetic:crossover=unifrom; must be one of single-point,"
        )
        refused(weft(*command, "knobs.yaml", folder=folder), 2, message, "did you mean 'uniform'?")
    grid.write_text("weft: 1\ngrid:\n  mutation-rte: [0.1]\n")
    refused(
        weft(*tune, "knobs.yaml", folder=folder), 2, "knobs.yaml:3:3: grid.mutation-rte: ", "mutation_rate"
    )
    grid.write_text("weft: 1\ngrid: {population: [4, 8]}\n")
    assert "for genetic, moldable-genetic" in weft("check", "knobs.yaml", folder=folder).out
