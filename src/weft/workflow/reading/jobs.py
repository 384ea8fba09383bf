"""The facets of a task that its execution needs: what is run, how it is watched, what if it fails."""

from __future__ import annotations

from weft.documents import Node, Reader
from weft.expressions import Expression
from weft.workflow.reading import keys
from weft.workflow.reading.values import read_seconds
from weft.workflow.records.job import Environment, Job
from weft.workflow.records.recovery import CAUSES, NO_RECOVERY, ON_FAILURE, Checkpoint, Contract, Recovery

__all__ = ["read_job", "read_recovery"]

_STREAM_KEYS = ("stdin", "stdout", "stderr")
_MODULE_KEYS = ("prolog", "wrapper", "epilog", "selector", "evaluator")
_TEXT_KEYS = ("call", *_STREAM_KEYS, *_MODULE_KEYS, "version")
_RECOVERY_KEYS = ("checkpoint", "progress", "contract", "retries", "on_failure", "time_limit")


def read_job(reader: Reader, entries: dict[str, Node]) -> Job | None:
    """Read what a task executes; None when it says nothing of it."""
    fields: dict[str, object] = {key: reader.text(entries[key]) for key in _TEXT_KEYS if key in entries}
    if "command" in entries:
        fields["command"] = _read_command(reader, entries["command"])
    if "arguments" in entries:
        fields["arguments"] = _texts(reader, entries["arguments"])
    if "env" in entries:
        fields["env"] = {key: reader.text(node) or "" for key, node in reader.mapping(entries["env"]).items()}
    if "environment" in entries:
        fields["environment"] = _read_environment(reader, entries["environment"])
    return Job(**fields) if fields else None  # type: ignore[arg-type]


def _texts(reader: Reader, node: Node) -> tuple[str, ...]:
    return tuple(reader.text(item) or "" for item in reader.listing(node))


def _read_command(reader: Reader, node: Node) -> str | tuple[str, ...] | None:
    return _texts(reader, node) if isinstance(node.value, list) else reader.text(node)


def _read_environment(reader: Reader, node: Node) -> Environment:
    entries = reader.mapping(node, keys.ENVIRONMENT_KEYS)
    return Environment(
        container=reader.text(entries["container"]) if "container" in entries else None,
        conda=reader.text(entries["conda"]) if "conda" in entries else None,
        modules=_texts(reader, entries["modules"]) if "modules" in entries else (),
    )


def read_recovery(reader: Reader, entries: dict[str, Node]) -> Recovery:
    """Read how a task is watched and what happens when it fails."""
    if not any(key in entries for key in _RECOVERY_KEYS):
        return NO_RECOVERY
    retries, by_cause = _read_retries(reader, entries["retries"]) if "retries" in entries else (None, {})
    return Recovery(
        checkpoint=_read_checkpoint(reader, entries["checkpoint"]) if "checkpoint" in entries else None,
        progress=reader.text(entries["progress"]) if "progress" in entries else None,
        contract=_read_contract(reader, entries["contract"]) if "contract" in entries else None,
        retries=retries,
        retries_by_cause=by_cause,
        on_failure=reader.choice(entries["on_failure"], ON_FAILURE) if "on_failure" in entries else None,
        time_limit=read_seconds(reader, entries["time_limit"]) if "time_limit" in entries else None,
    )


def _read_retries(reader: Reader, node: Node) -> tuple[int | None, dict[str, int]]:
    if not isinstance(node.value, dict):
        return reader.integer(node, least=0), {}
    found = {
        cause: reader.integer(value, least=0)
        for cause, value in reader.mapping(node, CAUSES, "cause of failure").items()
    }
    return None, {cause: count for cause, count in found.items() if count is not None}


def _read_checkpoint(reader: Reader, node: Node) -> Checkpoint:
    if not isinstance(node.value, dict):
        return Checkpoint(files=_texts(reader, node))
    entries = reader.mapping(node, keys.CHECKPOINT_KEYS)
    if "files" not in entries:
        reader.complain(node, "a checkpoint without files", advice="name the restart files: `files: [...]`")
    return Checkpoint(
        files=_texts(reader, entries["files"]) if "files" in entries else (),
        every=read_seconds(reader, entries["every"]) if "every" in entries else None,
        nodes=(reader.choice(entries["nodes"], ("same", "any")) if "nodes" in entries else None) or "same",
    )


def _read_contract(reader: Reader, node: Node) -> Contract | None:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return Contract(factor=float(node.value))
    if node.value in ("none", None):
        return Contract(factor=None)
    if not isinstance(node.value, dict):
        reader.wanted(node, "a number, none, or a mapping of factor and grace")
        return None
    entries = reader.mapping(node, keys.CONTRACT_KEYS)
    numbers: dict[str, float] = {}
    for key, value in entries.items():
        number = read_seconds(reader, value)
        if isinstance(number, Expression):
            reader.complain(value, f"{value.shown()} is an expression", rule="must be a number")
        elif number is not None:
            numbers[key] = number
    return Contract(factor=numbers.get("factor", 0.5), grace_s=numbers.get("grace"))
