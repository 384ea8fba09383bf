"""Settings: every key is declared once, and layers are resolved in the documented order."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.documents import Reader, from_python
from weft.errors import InvalidInput
from weft.formats.profiles import (
    list_presets,
    load_preset,
    load_profile,
    preset_settings,
    read_assignments,
)
from weft.workflow.builder import Builder
from weft.workflow.settings import (
    DEFAULTS,
    SETTINGS,
    RunSettings,
    SettingsLayers,
    WorkflowSettings,
    make_settings,
    merge_layers,
    read_settings,
    write_settings,
)
from weft.workflow.task import CAUSES

INTERNAL = {"begins_at_once", "brings_results", "pushes_state", "evaluated"}
"""Facts about the backend, and what the key ``evaluator`` of a task states."""


def test_every_setting_has_one_key_and_every_key_one_setting():
    attributes = [setting.attribute for setting in SETTINGS]
    assert sorted(attributes) == sorted({each.name for each in fields(RunSettings)} - INTERNAL)
    assert len({setting.key for setting in SETTINGS}) == len(SETTINGS)


def values_of(setting):
    """Return a strategy of valid values of a setting."""
    label = setting.type.label
    if setting.attribute == "retries":
        return st.dictionaries(st.sampled_from(CAUSES), st.integers(0, 9), min_size=1)
    if setting.attribute == "replan_when":
        return st.lists(st.sampled_from(["violated", "machines", "iteration"]), unique=True).map(tuple)
    if label == "true or false":
        return st.booleans()
    if label.startswith("`"):
        return st.sampled_from([word.strip("`") for word in label.split(", ")])
    if label == "text":
        return st.sampled_from(["heft", "auto:islands=2"])
    if label == "whole number":
        return st.integers(1, 99)
    shares = ("gain", "replan_share", "alpha")
    return st.floats(1.0, 1.0) if setting.attribute in shares else st.floats(1.0, 1e6)


@st.composite
def layers(draw):
    chosen = draw(st.lists(st.sampled_from(SETTINGS), unique_by=lambda setting: setting.key))
    found = {}
    for setting in chosen:
        absent = setting.optional and draw(st.booleans())
        found[setting.attribute] = None if absent else draw(values_of(setting))
    return found


@given(layers())
def test_written_layer_is_read_back(layer):
    assert make_settings(write_settings(layer)) == layer


@given(layers(), layers(), layers())
def test_value_of_the_last_layer_is_used_and_retries_are_merged_by_cause(first, second, third):
    merged = DEFAULTS.with_layers(first, second, third)
    for setting in SETTINGS:
        name = setting.attribute
        if name == "retries":
            expected = {
                **DEFAULTS.retries,
                **first.get(name, {}),
                **second.get(name, {}),
                **third.get(name, {}),
            }
        else:
            stated = [layer[name] for layer in (first, second, third) if name in layer]
            expected = stated[-1] if stated else getattr(DEFAULTS, name)
        assert getattr(merged, name) == expected
    assert DEFAULTS.with_layers(merge_layers(first, second), third) == merged


def flow(stated, **task):
    builder = Builder("flow", settings=stated)
    builder.task("a", command="true", **task)
    return builder.build()


def test_layers_are_applied_in_the_documented_order():
    def resolved(**stated):
        workflow = flow(stated.get("workflow", {}), settings=stated.get("task", {}))
        found = SettingsLayers(
            base=DEFAULTS.with_layers(make_settings(stated.get("preset", {}))),
            profile=make_settings(stated.get("profile", {})),
            overrides=make_settings(stated.get("overrides", {})),
        )
        return WorkflowSettings(found, workflow).of(workflow.tasks[0]).gain

    order = ("preset", "workflow", "profile", "task", "overrides")
    for position in range(len(order)):
        stated = {name: {"migration": {"gain": (n + 1) / 10}} for n, name in enumerate(order[: position + 1])}
        assert resolved(**stated) == (position + 1) / 10
    assert resolved() == DEFAULTS.gain


def test_keys_of_a_task_are_settings_of_the_task():
    task = {"contract": 0.3, "retries": {"oom": 4}, "on_failure": "hold", "evaluator": "8s"}
    workflow = flow({"contract": {"factor": 0.9, "grace": "5s"}}, **task)
    found = WorkflowSettings(SettingsLayers(), workflow).of(workflow.tasks[0])
    assert (found.contract, found.grace_s, found.iteration_limit_s) == (0.3, 5.0, 8.0)
    assert (found.retries["oom"], found.retries["lost"], found.on_failure) == (4, 10, "hold")
    overrides = make_settings({"retries": 0, "contract": "none"})
    found = WorkflowSettings(SettingsLayers(overrides=overrides), workflow).of(workflow.tasks[0])
    assert set(found.retries.values()) == {0}
    assert found.contract is None


@pytest.mark.parametrize(
    ("lower", "contract", "expected"),
    [
        ({"factor": 0.5, "grace": "10s"}, {"factor": 0.3}, (0.3, 10.0, None)),
        ({"factor": 0.5, "grace": "10s"}, 0.3, (0.3, 10.0, None)),
        ({"factor": 0.9, "iteration": "8s"}, {"grace": "1s"}, (0.9, 1.0, 8.0)),
        ({"factor": "none"}, {"grace": "1s"}, (None, 1.0, None)),
        ({"grace": "10s"}, {"grace": "1s"}, (0.5, 1.0, None)),
        ({"grace": "10s"}, {}, (0.5, 10.0, None)),
        ({"factor": 0.5, "grace": "10s"}, "none", (None, 10.0, None)),
    ],
)
def test_contract_of_a_task_is_merged_with_lower_layers_key_by_key(lower, contract, expected):
    stated = make_settings({"contract": lower})
    for settings, layers in (
        ({"contract": lower}, SettingsLayers()),
        ({}, SettingsLayers(profile=stated)),
        ({"contract": lower}, SettingsLayers(base=DEFAULTS.with_layers(stated))),
    ):
        workflow = flow(settings, contract=contract)
        found = WorkflowSettings(layers, workflow).of(workflow.tasks[0])
        assert (found.contract, found.grace_s, found.iteration_limit_s) == expected


def test_contract_of_a_task_is_merged_with_the_preset():
    workflow = flow({}, contract={"grace": "1s"})
    found = WorkflowSettings(SettingsLayers(base=preset_settings("s3")), workflow).of(workflow.tasks[0])
    assert (found.contract, found.grace_s) == (1.0, 1.0)


def test_settings_of_a_task_are_merged_with_its_contract():
    workflow = flow({}, contract={"factor": 0.3}, settings={"contract": {"grace": "4s", "iteration": "2s"}})
    found = WorkflowSettings(SettingsLayers(), workflow).of(workflow.tasks[0])
    assert (found.contract, found.grace_s, found.iteration_limit_s) == (0.3, 4.0, 2.0)


def test_workflows_that_share_machines_must_agree_on_common_settings():
    one, other = flow({"state_every": "5s", "migration": {"gain": 0.1}}), flow({"state_every": "9s"})
    with pytest.raises(InvalidInput, match=r"different values of state_every: 5\.0 and 9\.0"):
        SettingsLayers().of_execution([one, other])
    chosen = SettingsLayers(overrides=make_settings({"state_every": "7s"})).of_execution([one, other])
    assert chosen.fetch_every_s == 7.0
    alone = SettingsLayers().of_execution([one, flow({})])
    assert (alone.fetch_every_s, alone.gain) == (5.0, DEFAULTS.gain)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"migration": {"gian": 0.1}}, ["gian", "gain"]),
        ({"migrate": "never"}, ["migrate", "migration"]),
        ({"migration": {"gain": 2}}, ["2", "at most 1"]),
        ({"poll_every": "soon"}, ["soon", "time"]),
        ({"retries": {"omm": 1}}, ["omm", "oom"]),
        ({"replan": "sometimes"}, ["sometimes", "violated"]),
        ({"state_every": 0}, ["0", "above 0"]),
        ({"on_failure": "retry"}, ["retry", "hold"]),
    ],
)
def test_error_about_a_wrong_setting_names_the_key_and_the_rule(stated, words):
    with pytest.raises(InvalidInput) as refused:
        make_settings(stated)
    assert all(word in str(refused.value) for word in words)


def test_task_cannot_state_a_setting_of_the_whole_run():
    reader = Reader()
    layer = read_settings(reader, from_python({"policy": "fcfs", "migration": {"gain": 0.4}}), scope="task")
    assert layer == {"gain": 0.4}
    assert "concerns the whole run" in str(reader.problems[0])


def test_presets_are_profiles_with_settings_of_the_papers():
    assert list_presets() == ["default", "patient", "s1", "s3"]
    assert load_preset("default") == {}
    assert preset_settings("patient") == replace(DEFAULTS, migrate="never")
    first, third = preset_settings("s1"), preset_settings("s3")
    assert (first.contract, first.grace_s, first.migrate, first.replan_planner) == (
        0.5,
        0.0,
        "always",
        "genetic",
    )
    assert (third.discover_every_s, third.fetch_every_s, third.on_failure) == (300.0, 30.0, "reschedule")
    with pytest.raises(InvalidInput, match="did you mean 's3'"):
        load_preset("s33")


def test_profile_is_found_by_file_and_by_name(tmp_path, monkeypatch):
    text = "weft: 1\nprofile: {on: grid.yaml, planner: heft, settings: {planner: cpop, contract: 0.7}}\n"
    folder = tmp_path / "weft" / "profiles"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(text)
    (folder / "grid.yaml").write_text("weft: 1\nmachines: {m: {}}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("mine", str(folder / "mine.yaml")):
        found = load_profile(name)
        assert found.settings == {"planner": "heft", "contract": 0.7}
        assert found.on == str(folder / "grid.yaml")
    with pytest.raises(InvalidInput, match="did you mean 'mine'"):
        load_profile("min")
    with pytest.raises(InvalidInput, match="--preset s3"):
        load_profile("s3")
    (folder / "wrong.yaml").write_text("weft: 1\nprofile: {settings: {contrct: 0.7}}\n")
    with pytest.raises(InvalidInput, match=r"wrong\.yaml:2:\d+.*contrct.*contract"):
        load_profile("wrong")


def test_assignments_on_the_command_line_are_read_like_keys_of_a_file():
    texts = ["migration.gain=0.1", "retries.oom=3", "contract=0.4", "contract.grace=2s", "replan=[machines]"]
    assert read_assignments(texts) == {
        "gain": 0.1,
        "retries": {"oom": 3},
        "contract": 0.4,
        "grace_s": 2.0,
        "replan_when": ("machines",),
    }
    with pytest.raises(InvalidInput, match="KEY=VALUE"):
        read_assignments(["gain"])
    with pytest.raises(InvalidInput, match=r"--set migration\.gian.*did you mean 'gain'"):
        read_assignments(["migration.gian=1"])
