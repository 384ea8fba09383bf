"""Profiles: files with settings, a platform and a planner for many runs; presets are profiles of weft."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from weft.documents import Document, DocumentNode, Reader, locate_problems
from weft.errors import InvalidInput, SourceLocation, suggest
from weft.fields import TEXT, Field, Record, Shape, ValueType, version_field
from weft.formats.files import load_platform, open_source
from weft.formats.format import SourceFile
from weft.platform.platform import Platform
from weft.records import dataclass
from weft.workflow.settings import (
    DEFAULTS,
    EXECUTION,
    SETTING_RECORDS,
    RunSettings,
    SettingsLayer,
    make_settings,
    merge_layers,
    read_settings,
    settings_shape,
)

_PRESETS = Path(__file__).parent / "presets"
DEFAULT_PRESET = "default"
"""Name of the preset that changes no setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The content of a profile file."""

    name: str
    description: str | None = None
    on: str | None = None
    """The platform: a file or a short form; None if the profile does not state one."""
    settings: SettingsLayer = field(default_factory=dict)
    document: Document | None = field(default=None, compare=False, repr=False)
    """The document it was read from, for the locations of errors; ignored by comparisons."""


SETTINGS_PATHS = (("profile",), ("profile", "settings"))
"""Paths in a profile file below which settings may be stated; those below the first one have precedence."""


def _planning_field(key: str) -> Field:
    """Return the field of a setting that may be stated in a profile directly or under ``settings``."""
    return next(each for each in SETTING_RECORDS["settings"].fields if each.key == key)


# fmt: off
PROFILE = Record("a profile", (
    Field("description", TEXT, "free text"),
    Field("on", TEXT, "platform: a short form, or a file, relative to the folder of the profile"),
    *map(_planning_field, ("policy", "planner", "objective", "alpha", "plan_time", "plan_steps")),
    Field("settings", ValueType("mapping", settings_shape(), read_settings), "settings of the runs",
          attribute="settings"),
))
_PROFILE_FILE = Record("a profile file", (
    version_field(required=True),
    Field("profile", ValueType("mapping", PROFILE.shape(), PROFILE.read), "the profile", required=True,
          advice="add `profile:` with `settings:` in it"),
))
# fmt: on

PROFILE_RECORDS = {"profile-file": _PROFILE_FILE, "profile": PROFILE}
"""Records of a profile file, by the name of their table on the reference page."""


def profile_schema() -> Shape:
    """Return the JSON Schema of a profile file."""
    return _PROFILE_FILE.shape()


def list_presets() -> list[str]:
    """Return the names of all presets."""
    return [DEFAULT_PRESET, *sorted(file.stem for file in _PRESETS.glob("*.yaml"))]


def load_preset(name: str) -> SettingsLayer:
    """Return the settings of a preset; raise InvalidInput for an unknown name."""
    if name == DEFAULT_PRESET:
        return {}
    if name not in (known := list_presets()):
        raise InvalidInput(
            f"unknown preset {name!r}", advice=suggest(name, known, f"known: {', '.join(known)}")
        )
    return read_profile(open_source(_PRESETS / f"{name}.yaml")).settings


def preset_settings(name: str, stated: Mapping[str, Any] | None = None) -> RunSettings:
    """Return the default settings, changed by a preset and then by ``stated`` (keys as in a file)."""
    return DEFAULTS.with_layers(load_preset(name), make_settings(stated or {}))


def profiles_folder() -> Path:
    """Return the folder with the user's own profiles."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "weft" / "profiles"


def load_profile(name: str | Path) -> Profile:
    """Return the profile in the file ``name``, or the profile of this name in ``profiles_folder()``."""
    text = str(name)
    if "/" in text or text.endswith((".yaml", ".yml", ".json")) or Path(text).is_file():
        return read_profile(open_source(text))
    folder = profiles_folder()
    file = folder / f"{text}.yaml"
    if file.is_file():
        return read_profile(open_source(file))
    known = sorted(each.stem for each in folder.glob("*.yaml")) if folder.is_dir() else []
    if text in list_presets():
        advice = f"it is a preset: --preset {text}"
    else:
        advice = suggest(text, known, f"name a file, or write {file}")
    raise InvalidInput(f"no profile {text!r} in {folder}", advice=advice)


def read_profile(source: SourceFile) -> Profile:
    """Return the profile of a file; raise InvalidInput with all its problems."""
    from weft.formats.yaml_document import parse_document

    document = parse_document(source.text(), source.name)
    reader = Reader()
    assert document.root is not None, "parse_document returns a root or raises"
    stated: Mapping[str, Any] = _PROFILE_FILE.read(reader, document.root).get("profile", {})
    reader.finish(document)
    layer = {key: value for key, value in stated.items() if key not in ("description", "on", "settings")}
    on = stated.get("on")
    if on is not None and (beside := Path(source.name).parent / on).is_file():
        on = str(beside)
    return Profile(
        name=source.stem,
        description=stated.get("description"),
        on=on,
        settings=merge_layers(stated.get("settings", {}), layer),
        document=document,
    )


def load_profile_platform(profile: Profile | None) -> Platform | None:
    """Return the platform that a profile names; None if it names none. Raises InvalidInput."""
    if profile is None or profile.on is None:
        return None
    try:
        return load_platform(profile.on)
    except InvalidInput as error:
        unplaced = (
            each if each.location is not None else replace(each, path=("profile", "on"))
            for each in error.problems
        )
        raise InvalidInput(list(locate_problems(unplaced, profile.document))) from None


def read_assignments(texts: Iterable[str], option: str = "--set") -> SettingsLayer:
    """Return the settings in assignments such as ``migration.gain=0.1``; later ones override earlier ones."""
    from weft.formats.yaml_document import parse_document

    layer: SettingsLayer = {}
    reader = Reader()
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            advice = "`weft settings` lists the keys"
            raise InvalidInput(f"{option} {text!r}", rule="must be KEY=VALUE", advice=advice)
        root = parse_document(value, f"{option} {key}").root if value.strip() else None
        node = root or DocumentNode(value="", location=SourceLocation(file=f"{option} {key}"))
        for part in reversed(key.split(".")):
            node = DocumentNode(value={part: node}, location=node.location)
        layer = merge_layers(layer, read_settings(reader, node, scope=EXECUTION))
    reader.finish()
    return layer
