"""The keys of a scenario file with one line on each: the reader, the JSON Schema and the docs share them."""

from __future__ import annotations

from weft.simulation.scenario import FAILURE_WORDS, NETWORKS, SILENT_PARTS

__all__ = [
    "ARRIVAL_KEYS",
    "CANCELLATION_KEYS",
    "DURATION_KEYS",
    "FAILURE_KEYS",
    "LOAD_KEYS",
    "PERTURBATION_KEYS",
    "REPLANNING_KEYS",
    "REQUIREMENT_KEYS",
    "SCENARIO_KEYS",
    "SILENCE_KEYS",
    "SUSPENSION_KEYS",
    "TASK_DURATION_KEYS",
    "VERSION",
]

VERSION = 1
"""The version of the file format: ``weft: 1``."""

SCENARIO_KEYS = {
    "weft": "version of the format: 1",
    "name": "name of the scenario; default: the file's name",
    "description": "free text",
    "arrivals": "which workflows are submitted when, and by whom",
    "durations": "how long tasks really take, relative to their estimate",
    "perturbations": "machines that become slower for a time",
    "failures": "machines that fail, and when they are back",
    "loads": "competing processes on machines: n of them leave 1/(n + 1) of the speed",
    "silences": "machines that compute but do not answer",
    "suspensions": "tasks that the remote side suspends",
    "cancellations": "tasks that the remote side cancels",
    "requirements": "tasks that ask for other machines when they have done a part of their work",
    "exit_codes": f"by task: how its attempts end, codes or {', '.join(FAILURE_WORDS)}; the last is kept",
    "results": "by task: what its attempts write as their result; the last is kept",
    "iterations": "by loop: how often it really runs",
    "lines": "by file: how many lines a growing sweep finds in it",
    "network": f"whether transfers share the bandwidth of links: {', '.join(NETWORKS)}",
    "overhead_per_task": "seconds that every attempt takes besides its work (0)",
    "stage_latency": "seconds every stage takes besides moving data; cancelling and cleaning up half (0)",
    "profiles": "by task: how many iterations its application has and reports",
    "denied": "machines to which access is refused: names, wildcards, ranges",
    "replanning": "what a re-plan costs",
}

ARRIVAL_KEYS = {
    "workflow": "the file of a workflow, from the folder of the scenario",
    "mix": "files of workflows and how many of each; their order is drawn",
    "order": "files of workflows in the order in which they arrive",
    "trace": "a CSV file with the columns workflow, at and owner",
    "count": "how often the workflow arrives (1)",
    "at": "when it is submitted (0); several are submitted together",
    "every": "the interval between two arrivals",
    "poisson": "the mean interval between two arrivals, each drawn anew",
    "from": "when a series begins (0)",
    "owner": "whose workflows they are",
}

TASK_DURATION_KEYS = {
    "noise": "standard deviation of the true time, as a share of its mean (0)",
    "bias": "mean of the true time, relative to the estimate (1)",
}

DURATION_KEYS = {**TASK_DURATION_KEYS, "tasks": "by task: noise and bias that differ from these"}

_MACHINES = {
    "machine": "the name of a machine",
    "machines": 'names of machines: wildcards ("altix*"), ranges ("altix{1..4}"), a list of them',
}

PERTURBATION_KEYS = {
    **_MACHINES,
    "slowdown": "how many times slower, a number or a range to draw from: 3..10",
    "lasting": "how long, a time or a range to draw from: 100s..600s; for good by default",
    "at": "when all these machines are slowed, once (0)",
    "every": "the mean interval after which one of them, drawn at random, is slowed",
    "from": "with every: when that begins (0)",
    "until": "with every: when that ends",
}

FAILURE_KEYS = {
    **_MACHINES,
    "at": "when they fail, once (0)",
    "mtbf": "mean time from the start or a repair to the next failure of each",
    "repair": "how long the repair takes, its mean with mtbf; for good by default",
}

LOAD_KEYS = {
    **_MACHINES,
    "processes": "how many processes compete with ours (1)",
    "at": "when they begin (0)",
    "until": "when they end",
}

SILENCE_KEYS = {
    **_MACHINES,
    "at": "when it begins (0)",
    "lasting": "how long; for good by default",
    "what": f"what does not answer: {', '.join(SILENT_PARTS)}",
}

SUSPENSION_KEYS = {
    "task": "the task whose running attempts are suspended",
    "at": "when",
    "lasting": "how long; for good by default",
}

CANCELLATION_KEYS = {"task": "the task whose running attempts are cancelled", "at": "when"}

REQUIREMENT_KEYS = {
    "task": "the task that changes its mind",
    "after": "when this share of its work is done, 0 to 1",
    "expression": "its requirements from then on",
    "rank": "its rank from then on",
}

REPLANNING_KEYS = {"seconds_per_point": "seconds per schedule the planner looks at (0)"}
