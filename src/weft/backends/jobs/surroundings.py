"""Surroundings of a command: modules, containers, conda environments, own prolog, wrapper and epilog.

They become lines of the script that runs it (S3 section 3: prolog, wrapper and epilog are replaceable per
job). From the outside in: modules are loaded, the prolog runs, then the wrapper is given the command, which
stands in the container or the conda environment. The epilog runs when the command is over, also if it failed.
Which container program there is, only the machine knows: the script takes the first it finds.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from weft.backends.jobs.problem import JobProblem
from weft.workflow.records.job import Environment

__all__ = ["Around", "conda_prefix", "surround"]

_FIND_MODULES = """\
if ! command -v module >/dev/null 2>&1; then
  weft_home="${MODULESHOME:-/usr/share/modules}"
  for weft_file in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh "$weft_home/init/sh"; do
    if [ -r "$weft_file" ]; then . "$weft_file"; break; fi
  done
fi"""

_FIND_CONTAINERS = """\
for weft_runtime in apptainer singularity podman docker none; do
  if command -v "$weft_runtime" >/dev/null 2>&1; then break; fi
done
if [ "$weft_runtime" = none ]; then
  echo "weft: a container is asked for, but there is no apptainer, singularity, podman or docker here" >&2
  exit 127
fi"""

_CREATE_CONDA = """\
weft_conda={prefix}
if [ ! -d "$weft_conda/conda-meta" ]; then
  mkdir -p "${{weft_conda%/*}}"
  (flock 9; [ -d "$weft_conda/conda-meta" ] ||
    conda env create --quiet --prefix "$weft_conda" --file {file} >&2) 9>"$weft_conda.lock"
fi"""

_SPEC_FILE = re.compile(r".*\.ya?ml", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What stands around one command, filled in."""

    environment: Environment | None = None
    prolog: str = ""
    wrapper: str = ""
    epilog: str = ""
    conda_prefix: str = ""
    """Where the environment of a conda file is made; "": the name of an environment was given."""


def conda_prefix(environment: Environment | None, folder: Path, sandbox: Path) -> str:
    """Say where the environment of a conda file lies: by its content, so that another file makes another."""
    if environment is None or environment.conda is None or not _SPEC_FILE.fullmatch(environment.conda):
        return ""
    try:
        content = (folder / environment.conda).read_bytes()
    except OSError as error:
        what = f"the conda file {environment.conda} cannot be read: {error.strerror}"
        raise JobProblem(what, rule="it lies beside the workflow") from None
    return str(sandbox / "conda" / hashlib.blake2b(content, digest_size=10).hexdigest())


def surround(command: str, around: Around, variables: Iterable[str]) -> str:
    """Write the lines that run a command (one simple command of the shell) in its surroundings.

    ``variables``: the names that a container must be told of.
    """
    lines = []
    environment = around.environment or Environment()
    if environment.modules:
        # The files of module systems do not stand `set -u`.
        load = "module load " + " ".join(map(shlex.quote, environment.modules))
        lines += [_FIND_MODULES, f"{load} || exit"]
    lines.append("set -eu")
    if around.prolog:
        lines.append(around.prolog)
    if environment.conda is not None:
        if around.conda_prefix:
            prefix, file = shlex.quote(around.conda_prefix), shlex.quote(environment.conda)
            lines.append(_CREATE_CONDA.format(prefix=prefix, file=file))
        which = (
            '--prefix "$weft_conda"' if around.conda_prefix else f"--name {shlex.quote(environment.conda)}"
        )
        command = f"conda run --no-capture-output {which} {command}"
    if environment.container is not None:
        lines += [_FIND_CONTAINERS, _choose_container(environment.container, variables)]
        command = f'"$weft_runtime" "$@" {command}'
    if around.wrapper:
        command = f"{around.wrapper} {command}"
    if not around.epilog:
        return "\n".join([*lines, f"exec {command}"])
    # The shell has to outlive the command, also when both are told to end.
    return "\n".join(
        [
            *lines,
            "trap : TERM",
            "weft_code=0",
            f"{command} || weft_code=$?",
            around.epilog,
            'exit "$weft_code"',
        ]
    )


def _choose_container(image: str, variables: Iterable[str]) -> str:
    known = shlex.quote(image)
    stored = (
        image
        if "://" in image or image.endswith((".sif", ".img")) or image[:1] in "./"
        else f"docker://{image}"
    )
    told = " ".join(f"--env {name}" for name in variables)
    here = '--volume "$PWD:$PWD" --workdir "$PWD" --user "$(id -u):$(id -g)"'
    return "\n".join(
        [
            'case "$weft_runtime" in',
            f'apptainer | singularity) set -- exec --bind "$PWD" --pwd "$PWD" {shlex.quote(stored)} ;;',
            f"*) set -- run --rm --init --interactive {here} {told} {known} ;;",
            "esac",
        ]
    )
