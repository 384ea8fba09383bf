"""The job facet of a task (S3 section 6): what is executed and in which surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Environment", "Job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The software surroundings, rendered into the command."""

    container: str | None = None
    conda: str | None = None
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a task executes. A command text is a line for the shell; a tuple runs without one."""

    command: str | tuple[str, ...] | None = None
    arguments: tuple[str, ...] = ()
    call: str | None = None
    """A Python function, ``module:name``."""
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    environment: Environment | None = None
    prolog: str | None = None
    """Own command that prepares the machine before the task."""
    wrapper: str | None = None
    """Own command that runs the task."""
    epilog: str | None = None
    """Own command that cleans up after it."""
    selector: str | None = None
    """Own policy that chooses the machine."""
    evaluator: str | None = None
    """Own contract that judges the progress."""
    version: str | None = None
    """Part of the fingerprint: raise it when the program changed in a way files don't show."""
