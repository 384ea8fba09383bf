"""Settings of a command: preset, profile, the caller's settings and single options as layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.api.request import (
    DEFAULT_PLANNER,
    DEFAULT_POLICY,
    check_values,
    find_unknown_names,
    refuse_unknown_names,
)
from weft.documents import Document
from weft.engine.state.state import MEASURE_EVERY_S
from weft.errors import InvalidInput, Problem, suggest
from weft.formats.profiles import DEFAULT_PRESET, SETTINGS_PATHS, Profile, load_preset, load_profile
from weft.instance.instance import Instance
from weft.instance.preferences import measures_machines
from weft.records import dataclass
from weft.runtime.budget import DEFAULT_PLAN_TIME_S
from weft.schedule.objective import make_objective
from weft.workflow.settings import (
    DEFAULTS,
    RunSettings,
    Setting,
    SettingsLayer,
    SettingsLayers,
    WorkflowSettings,
    complete_layer,
    default_layer,
    explain_settings,
    make_settings,
    merge_layers,
    task_layer,
    write_settings,
)
from weft.workflow.task import Task
from weft.workflow.workflow import Workflow

ProfileSource = Profile | str | Path | None
SettingsSource = RunSettings | SettingsLayers | Mapping[str, Any] | None
"""Complete settings, layers, or a mapping with the keys of a file (``{"migration": {"gain": 0.1}}``)."""


def find_profile(profile: ProfileSource) -> Profile | None:
    """Return a profile; a file or name is loaded, a Profile or None is returned unchanged.

    Raises InvalidInput if the profile names an unknown policy, planner, objective or option.
    """
    found = profile if profile is None or isinstance(profile, Profile) else load_profile(profile)
    if found is not None:
        refuse_unknown_names(found.settings, found.document, *SETTINGS_PATHS)
    return found


def load_layers(
    *,
    preset: str = DEFAULT_PRESET,
    profile: ProfileSource = None,
    settings: SettingsSource = None,
    options: SettingsLayer | None = None,
) -> SettingsLayers:
    """Return the settings layers of a run; ``options`` have precedence over ``settings``.

    A RunSettings object replaces the defaults and the preset. SettingsLayers are returned unchanged.
    """
    if isinstance(settings, SettingsLayers):
        return settings
    base = settings if isinstance(settings, RunSettings) else DEFAULTS.with_layers(load_preset(preset))
    stated = make_settings(settings) if isinstance(settings, Mapping) else {}
    found = find_profile(profile)
    return SettingsLayers(
        base=base,
        profile={} if found is None else found.settings,
        overrides=merge_layers(stated, options or {}),
    )


_POLLS_PER_TASK = 5
"""Number of polls of a task's progress within its estimated time."""
_MIN_POLL_S = 0.5


def set_poll_interval(layers: SettingsLayers, instances: Iterable[Instance]) -> SettingsLayers:
    """Return layers in which tasks with a contract are polled several times within their estimated time.

    The default interval of half a minute suits tasks that take hours; a task that takes seconds would end
    before its first poll. An interval stated by a workflow, a profile or the user has precedence.
    """
    shortest_s = [least_s for each in instances for least_s in _shortest_contract_task(each, layers)]
    if not shortest_s:
        return layers
    poll_every_s = max(_MIN_POLL_S, min(shortest_s) / _POLLS_PER_TASK)
    base = layers.base
    return replace(layers, base=replace(base, poll_every_s=min(base.poll_every_s, poll_every_s)))


def _shortest_contract_task(instance: Instance, layers: SettingsLayers) -> Iterator[float]:
    """Yield the estimated seconds of the shortest task with a contract, if there is one."""
    graph = instance.graph
    settings = WorkflowSettings(layers, graph.workflow)
    owing = [settings.of(task).has_contract for task in graph.workflow.tasks]
    if not any(owing):
        return
    seconds = instance.shortest_s()[np.asarray(owing)[graph.template]]
    if (seconds > 0.0).any():
        yield float(seconds[seconds > 0.0].min())


def set_state_interval(layers: SettingsLayers, instances: Iterable[Instance]) -> SettingsLayers:
    """Return layers with an interval for measuring machines, if a requirement or rank uses measured states.

    An interval that a preset, a workflow, a profile or the user states has precedence.
    """
    if layers.base.fetch_every_s is not None:
        return layers
    if not any(measures_machines(instance.graph, instance.machines) for instance in instances):
        return layers
    return replace(layers, base=replace(layers.base, fetch_every_s=MEASURE_EVERY_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting of a run: its value, and the layer that states it."""

    key: str
    value: Any
    """Value that a run uses, as it would be written in a file."""
    origin: str
    help: str
    scope: str
    note: str = ""
    """Meaning of a value that no layer states; otherwise ""."""
    changed: bool = False
    """Whether the value differs from the default."""


def list_settings(
    layers: SettingsLayers,
    *,
    preset: str = DEFAULT_PRESET,
    profile: Profile | None = None,
    workflow: Workflow | None = None,
    task: str | None = None,
) -> list[SettingRow]:
    """Return every setting of a run or, with ``task``, of one of its tasks.

    Raises InvalidInput if a policy, planner or objective is unknown, or if values do not fit together.
    """
    stated = None if task is None else _find_task(workflow, task)
    default = {**complete_layer(DEFAULTS), **({} if stated is None else default_layer(stated))}
    named: list[tuple[str, SettingsLayer]] = [("default", default)]
    named.append((f"preset {preset}", load_preset(preset)))
    if workflow is not None:
        named.append((f"workflow {workflow.name}", workflow.settings))
    named.append((f"profile {profile.name if profile else ''}", layers.profile))
    if stated is not None:
        named.append((f"task {task}", task_layer(stated)))
    named.append(("--set", layers.overrides))
    _check_layers(named, workflow)
    found = list(explain_settings(named))
    used = _chosen_values(DEFAULTS.with_layers({setting.attribute: value for setting, value, _ in found}))
    defaults = {**complete_layer(DEFAULTS), **_chosen_values(DEFAULTS)}
    return [
        _row(setting, used.get(setting.attribute, value), origin, value, defaults[setting.attribute])
        for setting, value, origin in found
    ]


def _check_layers(named: Sequence[tuple[str, SettingsLayer]], workflow: Workflow | None) -> None:
    """Raise InvalidInput as ``weft run`` does for unknown names and values that exclude each other."""
    problems = list[Problem]()
    if workflow is not None:
        problems += find_unknown_names(workflow.settings, workflow.document, ("settings",))
    for origin, layer in named:
        if workflow is None or layer is not workflow.settings:
            problems += find_unknown_names(layer, Document(file=origin))
    if problems:
        raise InvalidInput(problems)
    check_values(DEFAULTS.with_layers(*(layer for _, layer in named)))


def _chosen_values(settings: RunSettings) -> dict[str, Any]:
    """Return, by attribute, the values that ``weft run`` of one workflow uses where a setting may be None."""
    planner = settings.planner or DEFAULT_PLANNER
    values: dict[str, Any] = {
        "policy": settings.policy or DEFAULT_POLICY,
        "planner": planner,
        "replan_planner": settings.replan_planner or planner,
        "alpha": make_objective(settings.objective).alpha if settings.alpha is None else settings.alpha,
        "plan_time_s": settings.plan_time_s,
    }
    if settings.plan_time_s is None and settings.plan_steps is None:
        values["plan_time_s"] = DEFAULT_PLAN_TIME_S
    return values


def _note(setting: Setting, value: Any) -> str:
    """Return the meaning of an unstated setting in words; "" if the words would only repeat the value."""
    if setting.attribute == "plan_time_s" and value is None:
        return "plan_steps is stated instead"
    text = setting.default_text.replace("`", "")
    return "" if text == str(value) else text


def _row(setting: Setting, value: Any, origin: str, stated: Any, default: Any) -> SettingRow:
    """Return the row of a setting.

    ``stated`` is the value in the layer, None if no layer states the setting. ``value`` is the value that a
    run uses.
    """
    plain = write_settings({setting.attribute: value})
    for part in setting.key.split("."):
        plain = plain[part]
    return SettingRow(
        key=setting.key,
        value=plain,
        origin=origin,
        help=setting.help,
        scope=setting.scope,
        note=_note(setting, value) if stated is None else "",
        changed=value != default,
    )


def _find_task(workflow: Workflow | None, name: str) -> Task:
    if workflow is None:
        raise InvalidInput(
            f"the settings of task {name!r} need a workflow",
            advice="name the workflow: weft settings WORKFLOW",
        )
    tasks = {task.name: task for task in workflow.tasks}
    if name not in tasks:
        what = f"no task {name!r} in {workflow.name!r}"
        raise InvalidInput(what, advice=suggest(name, tasks, f"tasks: {', '.join(list(tasks)[:20])}"))
    return tasks[name]
