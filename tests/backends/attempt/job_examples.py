"""Jobs of small workflows, rendered and run as processes without a backend."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from patience import PATIENCE_S
from weft.backends.attempt.command import render_job
from weft.engine.messages import Start
from weft.engine.state.compiled import CompiledWorkflow
from weft.instance.compilation import compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold

__all__ = ["LOCAL", "compile_flow", "rendered", "run_job", "with_task"]

LOCAL = Machine(name="here", nodes=4, arch="x86_64", memory=8e9, backend={"kind": "local"})


def compile_flow(flow, machine=LOCAL):
    """Return a workflow compiled for one machine."""
    return CompiledWorkflow(
        "w", compile_instance(check_and_unfold(flow.build()), Platform(machines=(machine,)))
    )


def with_task(params=None, machine=LOCAL, **facets):
    """Return the compiled workflow of the single task ``job``."""
    flow = Builder("one", params=params or {})
    flow.task("job", **{"work": 1, **facets})
    return compile_flow(flow, machine)


def rendered(
    known,
    place: Path,
    name="job",
    machine=LOCAL,
    *,
    nodes=1,
    count=1,
    iteration=1,
    limits=(None, None),
    **more,
):
    """Return the rendered job of a task, with the working directory ``place/box/1/7``."""
    start = Start(
        attempt=7,
        run=0,
        task=known.names.index(name),
        machine=0,
        nodes=nodes,
        count=count,
        iteration=iteration,
        time_limit_s=limits[0],
        memory_bytes=limits[1],
    )
    places = {
        "workdir": str(place / "box" / "1" / "7"),
        "records": str(place / "records"),
        "project": place,
        "folder": place,
    }
    return render_job(known, start, machine, **{**places, **more})


def run_job(job, **more):
    """Run a rendered job the way a runner does; return the finished process."""
    Path(job.workdir).mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        job.argv,
        cwd=job.workdir,
        env={**os.environ, **job.env},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        **more,
    )
