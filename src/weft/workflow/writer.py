"""From a workflow back to the keys of the file format: what is written reads back as the same workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.expressions import Expression
from weft.units import parse_seconds
from weft.workflow.keys import VERSION
from weft.workflow.quantity import Amount, Range, Sweep
from weft.workflow.task import (
    Amdahl,
    Checkpoint,
    CommunicationOverhead,
    ContractTerms,
    Dependency,
    Environment,
    IndexRange,
    Input,
    JobSpec,
    MeasuredSeconds,
    Output,
    Recovery,
    Roofline,
    SpeedUp,
    Task,
    TaskKind,
)
from weft.workflow.workflow import Loop, Workflow

__all__ = ["workflow_document"]


_Plain = dict[str, Any]


def workflow_document(workflow: Workflow) -> _Plain:
    """Give a workflow as plain data with the keys of the file format; what is default is left out."""
    return _without_nothing(
        {
            "weft": VERSION,
            "name": workflow.name,
            "description": workflow.description,
            "owner": workflow.owner,
            "params": {name: _parameter(value) for name, value in workflow.params.items()} or None,
            "budgets": {name: _quantity(amount) for name, amount in workflow.budgets.items()} or None,
            "tasks": {task.name: _task(task) for task in workflow.tasks},
            "loops": {loop.name: _loop(loop) for loop in workflow.loops} or None,
        }
    )


def _without_nothing(entries: _Plain) -> _Plain:
    return {key: value for key, value in entries.items() if value is not None}


def _parameter(value: object) -> object:
    return f"={value}" if isinstance(value, Expression) else value


def _quantity(value: object) -> Any:
    """Write a number as it is and a formula as text; with ``=`` where the text would read as a number."""
    if not isinstance(value, Expression):
        return value
    return f"={value}" if parse_seconds(value.text) is not None else value.text


def _amount(amount: Amount) -> Any:
    """Write an amount; one by node count as the table it is."""
    if isinstance(amount, Mapping):
        return {str(count): _quantity(quantity) for count, quantity in amount.items()}
    return _quantity(amount)


def _text(value: Expression | None) -> str | None:
    return None if value is None else value.text


def _task(task: Task) -> _Plain:
    seconds = task.seconds
    attributes = {key: value for key, value in task.attributes.items() if key != "description"}
    entries = {
        "description": task.attributes.get("description"),
        "kind": None if task.kind is TaskKind.COMPUTE else task.kind.value,
        "sweep": None if task.sweep is None else _sweep(task.sweep),
        "after": [_dependency(dependency) for dependency in task.after] or None,
        **_transfer(task),
        **_job(task.job or JobSpec()),
        "inputs": [_input(given) for given in task.inputs] or None,
        "outputs": _outputs(task.outputs) or None,
        "work": _quantity(task.work),
        "seconds": {k: _quantity(v) for k, v in seconds.items()}
        if isinstance(seconds, Mapping)
        else _quantity(seconds),
        "nodes": _nodes(task),
        "speedup": None if task.speedup is None else _speedup(task.speedup),
        "machine": task.machine,
        "service": task.service,
        "requirements": _text(task.requirements),
        "rank": _text(task.rank),
        "cores": _quantity(task.cores),
        **_resources(task),
        "consumes": {name: _amount(amount) for name, amount in task.consumes.items()} or None,
        **_recovery(task.recovery),
        "outcomes": list(task.outcomes) or None,
        "attributes": attributes or None,
    }
    return _without_nothing(entries)


def _sweep(sweep: Sweep) -> _Plain:
    def values(given: object) -> object:
        if isinstance(given, Range):
            return str(given)
        return given.text if isinstance(given, Expression) else list(given)  # type: ignore[call-overload]

    found = {name: values(given) for name, given in sweep.variables}
    return {**found, "zip": True} if sweep.paired else found


def _dependency(dependency: Dependency) -> object:
    reference = dependency.task
    if dependency.index is not None:
        parts = [f"{i.low}..{i.high}" if isinstance(i, IndexRange) else str(i) for i in dependency.index]
        reference += f"[{', '.join(parts)}]"
    if dependency.pairs is None and dependency.condition is None:
        return reference
    pairs = None if dependency.pairs is None else [list(pair) for pair in dependency.pairs]
    return _without_nothing({"task": reference, "pairs": pairs, "if": _text(dependency.condition)})


def _input(given: Input) -> object:
    entries = {
        "file": given.file,
        "from": given.source,
        "size": _quantity(given.size),
        "shared": given.shared or None,
        "compressed": given.compressed or None,
    }
    found = _without_nothing(entries)
    return given.file if list(found) == ["file"] else found


def _outputs(outputs: tuple[Output, ...]) -> object:
    if all(output.size is None and output.seconds is None and output.target is None for output in outputs):
        return [output.file for output in outputs]
    return {output.file: _output(output) for output in outputs}


def _output(output: Output) -> object:
    if output.seconds is None and output.target is None:
        return _quantity(output.size)
    return _without_nothing(
        {"size": _quantity(output.size), "seconds": _quantity(output.seconds), "to": output.target}
    )


def _nodes(task: Task) -> object:
    counts = [str(count) if isinstance(count, Range) else _quantity(count) for count in task.nodes]
    if isinstance(task.speedup, MeasuredSeconds):
        return None if task.nodes == tuple(sorted(task.speedup.seconds)) else counts
    return None if counts == [1] else counts[0] if len(counts) == 1 else counts


def _speedup(law: SpeedUp) -> _Plain:
    match law:
        case Amdahl():
            return {"amdahl": law.serial}
        case Roofline():
            return {"roofline": law.limit}
        case CommunicationOverhead():
            return {"communication": law.overhead}
        case MeasuredSeconds():
            return {"seconds": {str(count): seconds for count, seconds in law.seconds.items()}}


def _resources(task: Task) -> _Plain:
    found = {name: _amount(amount) for name, amount in task.resources.items()}
    own: _Plain = {name: found.pop(name) for name in ("memory", "gpus") if name in found}
    return {**own, "resources": found} if found else own


def _transfer(task: Task) -> _Plain:
    if task.transfer is None:
        return {}
    moved = task.transfer
    return {"from": moved.source, "to": moved.target, "file": moved.file, "size": _quantity(moved.size)}


def _job(job: JobSpec) -> _Plain:
    return {
        "command": list(job.command) if isinstance(job.command, tuple) else job.command,
        "arguments": list(job.arguments) or None,
        "call": job.call,
        "env": dict(job.env) or None,
        "stdin": job.stdin,
        "stdout": job.stdout,
        "stderr": job.stderr,
        "environment": None if job.environment is None else _environment(job.environment),
        "prolog": job.prolog,
        "wrapper": job.wrapper,
        "epilog": job.epilog,
        "selector": job.selector,
        "evaluator": job.evaluator,
        "version": job.version,
    }


def _environment(environment: Environment) -> _Plain:
    return _without_nothing(
        {
            "container": environment.container,
            "conda": environment.conda,
            "modules": list(environment.modules) or None,
        }
    )


def _recovery(recovery: Recovery) -> _Plain:
    return {
        "checkpoint": None if recovery.checkpoint is None else _checkpoint(recovery.checkpoint),
        "progress": recovery.progress,
        "contract": None if recovery.contract is None else _contract(recovery.contract),
        "retries": dict(recovery.retries_by_cause) or recovery.retries,
        "on_failure": recovery.on_failure,
        "time_limit": _quantity(recovery.time_limit),
    }


def _checkpoint(checkpoint: Checkpoint) -> _Plain:
    return _without_nothing(
        {
            "files": list(checkpoint.files),
            "every": _quantity(checkpoint.every),
            "nodes": None if checkpoint.nodes == "same" else checkpoint.nodes,
        }
    )


def _contract(contract: ContractTerms) -> object:
    if contract.factor is None:
        return "none"
    if contract.grace_s is None:
        return contract.factor
    return {"factor": contract.factor, "grace": contract.grace_s}


def _loop(loop: Loop) -> _Plain:
    return _without_nothing(
        {
            "from": loop.last,
            "to": loop.first,
            "until": _text(loop.until),
            "max_iterations": _quantity(loop.max_iterations),
            "expect": _quantity(loop.expect),
            "on_exhausted": None if loop.on_exhausted == "fail" else loop.on_exhausted,
        }
    )
