"""From the keywords of a GridWay job template to a task (S3 section 6).

Each keyword has its place in our records; those that only tune GridWay's own daemon (RESCHEDULING_INTERVAL,
SUSPENSION_TIMEOUT, CPULOAD_THRESHOLD, PROFILE_THRESHOLD, CHECKPOINT_URL, DEADLINE) are kept as attributes.
What would change the meaning of the job and cannot be said here is refused by name. GridWay's defaults are
those of an installation, not of a template: only the checkpoint interval (300 s) is taken over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.errors import nearest, shorten
from weft.expressions import parse
from weft.formats.complaints import Complaints
from weft.formats.gridway_expressions import translate_rank, translate_requirement
from weft.formats.gridway_files import JobFiles, is_url, split_list
from weft.formats.gridway_template import Entry
from weft.formats.gridway_variables import COUNT, INDEX, Variables, speaks_of_array
from weft.workflow.records.job import Job
from weft.workflow.records.recovery import NO_RECOVERY, Checkpoint, Recovery
from weft.workflow.records.sweep import Range, Sweep
from weft.workflow.records.task import Task

__all__ = ["JobTemplate"]

_KEPT_NUMBERS = ("RESCHEDULING_INTERVAL", "RESCHEDULING_THRESHOLD", "SUSPENSION_TIMEOUT", "CPULOAD_THRESHOLD",
                 "PROFILE_THRESHOLD")  # fmt: skip
_KEPT_TEXTS = ("CHECKPOINT_URL", "DEADLINE")
_CHECKPOINT_S = 300.0
_OWN_WRAPPER = "libexec/gw_wrapper.sh"
"""GridWay's own wrapper: what it does every task of ours has anyway."""
_ASSIGNMENT = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)(?:\s*=\s*|\s+)(?:"([^"]*)"|([^"]*?))\s*')
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
_COUNT = re.compile(r"[0-9]{1,9}")
_YES_NO = {"yes": "reschedule", "no": "stop"}


class JobTemplate:
    """One template: its entries, and how they become a task."""

    def __init__(self, entries: Mapping[str, Entry], complaints: Complaints) -> None:
        self.entries = entries
        self.complaints = complaints
        total = entries.get("TOTAL_TASKS")
        self.total_tasks = 1 if total is None else self._count(total, least=1)
        """How many tasks the array has; 1 unless the template says."""

    @property
    def is_array(self) -> bool:
        """Say whether it is meant for an array job."""
        return speaks_of_array(self.entries)

    def task(self, name: str, *, as_parameter: bool) -> Task | None:
        """Make the task; None if it has no program. ``as_parameter``: the size of an array may be changed."""
        executable = self.entries.get("EXECUTABLE")
        self._refuse()
        if executable is None:
            self.complaints.add("no EXECUTABLE", rule="a job template names the program it runs")
            return None
        swept = self.is_array and (as_parameter or "TOTAL_TASKS" in self.entries)
        count = f"{{{COUNT}}}" if as_parameter else str(self.total_tasks)
        variables = Variables(self.complaints, name=name, swept=swept, count=count)
        files = JobFiles(variables=variables, complaints=self.complaints)
        job = self._job(executable, variables, files)
        requirements, rank = self.entries.get("REQUIREMENTS"), self.entries.get("RANK")
        return Task(
            name=name,
            sweep=self._sweep(as_parameter) if swept else None,
            inputs=tuple(files.inputs.values()),
            outputs=tuple(files.outputs.values()),
            nodes=(self._nodes(),),
            requirements=None
            if requirements is None
            else translate_requirement(requirements, self.complaints),
            rank=None if rank is None else translate_rank(rank, self.complaints),
            job=job,
            recovery=self._recovery(variables),
            attributes=self._attributes(files),
        )

    def _sweep(self, as_parameter: bool) -> Sweep:
        last = parse(f"{COUNT} - 1" if as_parameter else str(self.total_tasks - 1))
        return Sweep(variables=((INDEX, Range(low=parse("0"), high=last)),))

    def _refuse(self) -> None:
        """Complain about what cannot be kept."""
        if entry := self.entries.get("JOB_DEPENDENCIES"):
            rule = "numbers of jobs that run already mean nothing in another system"
            advice = "list the templates in a DAGMan file: JOB A a.jt, PARENT A CHILD B"
            self.complaints.add(f"{entry.key} = {shorten(entry.value, 40)}", rule=rule, advice=advice,
                                line=entry.line)  # fmt: skip

    def _job(self, executable: Entry, variables: Variables, files: JobFiles) -> Job:
        given, filled = self._environment(variables)
        # Double quotes: the shell of the machine fills in its own variables, as GridWay's wrapper does.
        words = [f'{name}="{value}"' for name, value in filled.items()]
        words = ["env", *words] if words else []
        words.append(files.program(executable))
        if arguments := self.entries.get("ARGUMENTS"):
            words.append(variables.in_command(arguments, arguments.value))
        self._stage(files)
        return Job(
            command=" && ".join([" ".join(words), *files.moves]),
            env=given,
            stdin=None if (entry := self.entries.get("STDIN_FILE")) is None else files.read(entry),
            stdout=None if (entry := self.entries.get("STDOUT_FILE")) is None else files.write(entry),
            stderr=None if (entry := self.entries.get("STDERR_FILE")) is None else files.write(entry),
            prolog=self._module("PRE_WRAPPER", variables, files),
            wrapper=self._module("WRAPPER", variables, files),
            evaluator=self._module("MONITOR", variables, files),
        )

    def _stage(self, files: JobFiles) -> None:
        if entry := self.entries.get("INPUT_FILES"):
            files.add_inputs(entry)
        if entry := self.entries.get("OUTPUT_FILES"):
            files.add_outputs(entry)

    def _environment(self, variables: Variables) -> tuple[dict[str, str], dict[str, str]]:
        """Read the environment: variables with fixed values, and those that are filled in at run time.

        Names in braces are replaced in commands, not in environments: the latter go before the program.
        """
        fixed: dict[str, str] = {}
        filled: dict[str, str] = {}
        entry = self.entries.get("ENVIRONMENT")
        for part in split_list(entry.value) if entry is not None else ():
            assert entry is not None
            match = _ASSIGNMENT.fullmatch(part)
            if match is None:
                what, rule = f"{shorten(repr(part), 60)} in ENVIRONMENT", "a variable is set by NAME=value"
                self.complaints.add(what, rule=rule, line=entry.line)
                continue
            value = match[2] if match[2] is not None else match[3]
            translated = variables.in_command(entry, value)
            variables.environment[match[1]] = translated
            (filled if "$" in value else fixed)[match[1]] = translated if "$" in value else value
        return fixed, filled

    def _module(self, key: str, variables: Variables, files: JobFiles) -> str | None:
        entry = self.entries.get(key)
        if entry is None or entry.value == _OWN_WRAPPER:
            return None
        words = [files.program(entry)]
        if arguments := self.entries.get(f"{key}_ARGUMENTS"):
            words.append(variables.in_command(arguments, arguments.value))
        return " ".join(words)

    def _nodes(self) -> int:
        kind, count = self.entries.get("TYPE"), self.entries.get("NP")
        named = "single" if kind is None else kind.value.lower()
        if kind is not None and named not in ("single", "mpi"):
            close = nearest(named, ("single", "mpi"))
            advice = f"did you mean {close}?" if close else ""
            what = f"TYPE = {shorten(kind.value, 40)}"
            self.complaints.add(what, rule="a job is single or mpi", advice=advice, line=kind.line)
        return 1 if count is None or named != "mpi" else self._count(count, least=1)

    def _recovery(self, variables: Variables) -> Recovery:
        retries, after = self.entries.get("NUMBER_OF_RETRIES"), self.entries.get("RESCHEDULE_ON_FAILURE")
        profile = self.entries.get("PERFORMANCE_PROFILE")
        found = Recovery(
            checkpoint=self._checkpoint(variables),
            progress=None if profile is None else variables.in_name(profile, profile.value),
            retries=None if retries is None else self._count(retries, least=0),
            on_failure=None if after is None else _YES_NO.get(after.value.lower()),
        )
        if after is not None and found.on_failure is None:
            what = f"RESCHEDULE_ON_FAILURE = {shorten(after.value, 40)}"
            self.complaints.add(what, rule="must be yes or no", line=after.line)
        return NO_RECOVERY if found == NO_RECOVERY else found

    def _checkpoint(self, variables: Variables) -> Checkpoint | None:
        files, interval = self.entries.get("RESTART_FILES"), self.entries.get("CHECKPOINT_INTERVAL")
        every_s = _CHECKPOINT_S if interval is None else self._number(interval)
        if files is None:
            return None
        names = split_list(files.value)
        for name in names:
            if is_url(name):
                what, rule = (
                    f"the URL {shorten(name, 60)} in RESTART_FILES",
                    "restart files are the job's own",
                )
                advice = "name the file, and the place to keep it under CHECKPOINT_URL"
                self.complaints.add(what, rule=rule, advice=advice, line=files.line)
        # An interval of 0 means that nothing is saved on the way: only what is left behind can be used.
        return Checkpoint(
            files=tuple(variables.in_name(files, name) for name in names), every=every_s or None
        )

    def _attributes(self, files: JobFiles) -> dict[str, object]:
        kept: dict[str, object] = {}
        for key in _KEPT_NUMBERS:
            if entry := self.entries.get(key):
                kept[key] = self._number(entry)
        for key in _KEPT_TEXTS:
            if entry := self.entries.get(key):
                kept[key] = entry.value
        if files.on_machine:
            kept["files_on_machine"] = list(files.on_machine)
        return kept

    def _count(self, entry: Entry, *, least: int) -> int:
        if _COUNT.fullmatch(entry.value) and int(entry.value) >= least:
            return int(entry.value)
        what = f"{entry.key} = {shorten(entry.value, 40)}"
        self.complaints.add(what, rule=f"must be a whole number, at least {least}", line=entry.line)
        return least

    def _number(self, entry: Entry) -> float:
        if _NUMBER.fullmatch(entry.value):
            return float(entry.value) if "." in entry.value else int(entry.value)
        what = f"{entry.key} = {shorten(entry.value, 40)}"
        self.complaints.add(what, rule="must be a number, at least 0", line=entry.line)
        return 0
