"""The keys of a workflow file with one line on each: the reader, the JSON Schema and the docs share them."""

from __future__ import annotations

__all__ = [
    "CHECKPOINT_KEYS",
    "CONTRACT_KEYS",
    "DEPENDENCY_KEYS",
    "ENVIRONMENT_KEYS",
    "INPUT_KEYS",
    "LOOP_KEYS",
    "OUTPUT_KEYS",
    "SPEEDUP_KEYS",
    "TASK_KEYS",
    "VERSION",
    "WORKFLOW_KEYS",
]


VERSION = 1
"""The version of the file format: ``weft: 1``."""

WORKFLOW_KEYS = {
    "weft": "version of the format: 1",
    "name": "name of the workflow; default: the file's name",
    "description": "free text",
    "owner": "whose workflow it is",
    "params": "parameters: values, lists, mappings, or formulas in text that starts with =",
    "defaults": "task keys that hold for every task that does not set them itself",
    "budgets": "amounts by name that all tasks together may consume",
    "tasks": "the tasks by name",
    "loops": "the loops by name",
}

TASK_KEYS = {
    "description": "free text",
    "kind": "compute (default), transfer or virtual",
    "sweep": "variables and their values: one subtask per point; `zip: true` pairs instead of crossing",
    "zip": "true: sweep variables are paired, not crossed",
    "after": "what must have ended before: tasks, subtasks by index, loops, with conditions",
    "inputs": "files read; a file that another task writes is a dependency",
    "outputs": "files written, with sizes or fixed transfer times",
    "work": "seconds on a machine of speed 1",
    "seconds": "explicit seconds, everywhere or per machine, instead of work",
    "nodes": "allowed node counts: a number, a list, a range",
    "speedup": "how time falls with the nodes: amdahl, roofline, communication, or measured seconds",
    "machine": "abstract machine: tasks of the same name land on the same machine",
    "service": "only machines that offer it",
    "requirements": "only machines for which this expression holds",
    "rank": "machines with a higher value are preferred",
    "cores": "cores needed on each node",
    "memory": "memory taken while running: an amount, or amounts by node count",
    "gpus": "GPUs taken while running: a number, or numbers by node count",
    "resources": "other countable resources taken while running, by name, each as memory is",
    "consumes": "what is used up of the workflow's budgets, by name, each as memory is",
    "time_limit": "an attempt is ended after this time",
    "command": "text: a line for the shell; list: program and arguments without a shell",
    "arguments": "arguments appended to the command",
    "call": "a Python function, module:name",
    "env": "environment variables",
    "stdin": "file for the standard input",
    "stdout": "file for the standard output",
    "stderr": "file for the standard error",
    "environment": "container, conda file or modules around the command",
    "prolog": "own command that prepares the machine",
    "wrapper": "own command that runs the task",
    "epilog": "own command that cleans up",
    "selector": "own policy that chooses the machine",
    "evaluator": "own contract that judges progress",
    "version": "part of the fingerprint",
    "checkpoint": "restart files",
    "progress": "file in which the task reports its progress",
    "contract": "the performance owed: a factor, or factor and grace",
    "retries": "how often a failed task is tried again: a number, or numbers by cause",
    "on_failure": "hold, reschedule, stop or continue when the retries are used up",
    "outcomes": "exit codes that are results, not failures",
    "from": "transfer: abstract machine the file comes from",
    "to": "transfer: abstract machine the file goes to",
    "file": "transfer: the file moved",
    "size": "transfer: its size",
    "attributes": "kept for other systems, not read",
}

LOOP_KEYS = {
    "from": "the last task of the body, where the back edge starts",
    "to": "the first task of the body, where the back edge leads",
    "until": "the loop is left when this holds after the last task",
    "max_iterations": "the loop is left after this many iterations",
    "expect": "how many iterations are expected, for the plan's total",
    "on_exhausted": "fail (default) or continue when max_iterations is reached",
}

INPUT_KEYS = {
    "file": "name in the task's directory",
    "from": "path or URL it is staged from",
    "size": "bytes",
    "shared": "true: cached on the machine for all its jobs",
    "compressed": "true: decompressed on the machine",
}

OUTPUT_KEYS = {
    "size": "bytes",
    "seconds": "fixed transfer time between different machines",
    "to": "path or URL it is staged to",
}

DEPENDENCY_KEYS = {
    "task": "the task (or loop) waited for, with an index if wanted",
    "pairs": "explicit [value there, value here] pairs",
    "if": "condition over exit_code and result of that task",
}

CHECKPOINT_KEYS = {
    "files": "restart files",
    "every": "time between two checkpoints",
    "nodes": "any: valid for any node count; same (default): only for the count it was written with",
}

CONTRACT_KEYS = {
    "factor": "allowed excess over the estimate: 0.5 means half as long again",
    "grace": "time before it is first judged",
}

SPEEDUP_KEYS = {
    "amdahl": "serial share of the work, 0 to 1",
    "roofline": "perfect speed-up up to this node count",
    "communication": "overhead per added node, as a share of the serial time",
    "seconds": "measured seconds on speed 1 by node count",
}

ENVIRONMENT_KEYS = {
    "container": "container image",
    "conda": "conda environment file",
    "modules": "environment modules to load",
}
