"""GridWay job templates, read only: docs/papers/adaptive-jobs.md, section 6."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.documents import Document
from weft.errors import shorten, suggest
from weft.expressions import parse
from weft.formats.format import ProblemCollector, ReadOnlyFormat, SourceFile, file_error
from weft.formats.graph import escape_braces
from weft.formats.gridway_template import TemplateEntry, parse_template, translate_expression
from weft.units import parse_bytes
from weft.urls import is_url, split_url
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import NO_RECOVERY, Checkpoint, Input, JobSpec, Output, Recovery, Task
from weft.workflow.workflow import Workflow

INDEX = "task_id"
"""The sweep variable of an array job: 0 for its first task."""

_COUNT_NAME = "total_tasks"
"""The parameter with the number of tasks of an array job."""

_VARIABLE = re.compile(r"\$\{([^{}]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_ARRAY_NAMES = ("TASK_ID", "TOTAL_TASKS")
_BULK_NAMES = ("PARAM", "MAX_PARAM")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IN_SHELL = {
    "RESTARTED": "${GW_RESTARTED:-0}",
    "RANDOM": "$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')",  # not every shell has this variable
}
"""Shell text for variables that the shell of the machine expands; used in command lines only."""


def _variable_name(match: re.Match[str]) -> str:
    return (match[1] if match[1] is not None else match[2]).removeprefix("GW_")


class _TemplateVariables:
    """Translates the variables of one template, such as ``${GW_ARCH}``, to the names of weft.

    The translations are resolved at run time, for the chosen machine and the job. ``$NAME`` means
    ``${NAME}``, and every name may have the prefix ``GW_``. A variable that the template's ENVIRONMENT
    defines has the value that is stated there.
    """

    def __init__(self, problems: ProblemCollector, *, name: str, swept: bool, count: str) -> None:
        """Set the translations of the variables.

        ``count`` is the number of tasks as text. TASK_ID is the index of the array task, or 0 if not
        ``swept``.
        """
        index = f"{{{INDEX}}}" if swept else "0"
        self.problems = problems
        self.swept = swept
        self.environment: dict[str, str] = {}
        """Variables of the template's ENVIRONMENT with their translated values."""
        self._known = {
            "ARCH": "{machine.arch}",
            "HOSTNAME": "{machine.name}",
            "TASK_ID": index,
            "TOTAL_TASKS": count,
            "ARRAY_ID": escape_braces(name),
            # GridWay assigns a number; the task's name makes file names unique as well.
            "JOB_ID": f"{escape_braces(name)}.{index}" if swept else escape_braces(name),
        }

    def unique(self, name: str) -> str:
        """Return a file name with the index of the array task appended, unless it contains this index."""
        return name if not self.swept or f"{{{INDEX}}}" in name else f"{name}.{{{INDEX}}}"

    def translate(self, entry: TemplateEntry, text: str, *, in_line: bool = False) -> str:
        """Return the translation of a file name or, if ``in_line``, of a part of a command line.

        An unknown variable in a file name is a problem; in a command line the shell expands it.
        """
        parts: list[str] = []
        end = 0
        for match in _VARIABLE.finditer(text):
            parts += [_double_braces(text[end : match.start()]), self._value(entry, match, in_line=in_line)]
            end = match.end()
        return "".join([*parts, _double_braces(text[end:])])

    def _value(self, entry: TemplateEntry, match: re.Match[str], *, in_line: bool) -> str:
        name = _variable_name(match)
        own = self.environment.get(match[1] if match[1] is not None else match[2])
        if own is not None:
            return own
        if name in self._known:
            return self._known[name]
        if name in _BULK_NAMES:
            rule = "its value is an option of the bulk submission, which is not in a template"
            self.problems.add(
                f"${{{name}}} in {entry.key}", rule=rule, advice="use ${TASK_ID}", line=entry.line
            )
        elif in_line:
            # In GridWay's wrapper an unset variable is empty; a task's shell (``sh -u``) would fail.
            stated = match[1] if match[1] is not None else match[2]
            return _IN_SHELL.get(name) or (f"${{{stated}-}}" if _NAME.fullmatch(stated) else match[0])
        else:
            known = [*self._known, *self.environment]
            advice = suggest(name, known, f"known: {', '.join(known)}")
            what = f"unknown variable ${{{name}}} in a file name of {entry.key}"
            self.problems.add(what, advice=advice, line=entry.line)
        return match[0]


def _double_braces(text: str) -> str:
    """Return a text with braces doubled, so that they are literal; the text must contain no variables."""
    return text.replace("{", "{{").replace("}", "}}")


_PART = re.compile(r'(?:"[^"]*"|[^,"]|")+')
_FLAGS = re.compile(r"\s*\[([^\]]*)\]\s*")
_SAFE = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)


def _split_list(text: str) -> list[str]:
    """Return the non-empty parts of a value, split at commas outside quotes."""
    return [part for match in _PART.finditer(text) if (part := match[0].strip())]


def _is_elsewhere(name: str) -> bool:
    return is_url(name) or name.startswith("/")


def _word(name: str) -> str:
    """Return a name quoted as one word of a command line."""
    return name if _SAFE.fullmatch(name) else shlex.quote(name)


@dataclass(slots=True, kw_only=True)
class _StagedFiles:
    """Collects the inputs and outputs of one job, each name once.

    Entries are separated by commas. An input is ``NAME`` or ``LOCAL REMOTE``, an output is ``NAME`` or
    ``REMOTE LOCAL``; LOCAL may be a URL. REMOTE is the name in the directory of the job. A file with an
    absolute path is already on the machine and is not copied. Since an output has only one name in a
    workflow, the command of the task finally renames REMOTE to LOCAL. The flags ``[shared]``,
    ``[compressed]`` and ``[size=12.2MB]`` after an input are additions of weft.
    """

    variables: _TemplateVariables
    problems: ProblemCollector
    inputs: dict[str, Input] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)
    """Commands that rename outputs after the program has succeeded."""
    on_machine: list[str] = field(default_factory=list)
    """Files with absolute paths in INPUT_FILES and OUTPUT_FILES, which are not copied."""

    def add_inputs(self, entry: TemplateEntry) -> None:
        """Add the files of INPUT_FILES."""
        for part in _split_list(entry.value):
            flags = _FLAGS.search(part)
            words = (part if flags is None else part[: flags.start()]).split()
            if pair := self._pair(entry, words):
                if (name := self._add_input(entry, *pair)) is None:
                    self._keep(pair[0])
                elif flags is not None:
                    self._flag(entry, name, flags[1])

    def add_outputs(self, entry: TemplateEntry) -> None:
        """Add the files of OUTPUT_FILES."""
        for part in _split_list(entry.value):
            if pair := self._pair(entry, part.split()):
                self._add_output(entry, *pair)

    def read(self, entry: TemplateEntry) -> str:
        """Add the file that a keyword names as an input; return its name in the directory of the job."""
        path = self.variables.translate(entry, entry.value)
        return self._add_input(entry, path, None) or path

    def write(self, entry: TemplateEntry) -> str:
        """Add the file of an output stream as an output; return its name in the directory of the job."""
        if (name := self.variables.translate(entry, entry.value)) == "/dev/null":
            return name
        if not _is_elsewhere(name):
            self.outputs.setdefault(name, Output(file=name))
            return name
        inside = self.variables.unique(self._base(entry, name))
        self.outputs.setdefault(inside, Output(file=inside, target=name))
        return inside

    def program(self, entry: TemplateEntry) -> str:
        """Add a program as an input unless its path is absolute; return the word that calls the program."""
        path = self.variables.translate(entry, entry.value)
        name = self._add_input(entry, path, None) or path
        return _word(name if "/" in name else f"./{name}")

    def _pair(self, entry: TemplateEntry, words: list[str]) -> tuple[str, str | None] | None:
        names = [self.variables.translate(entry, word.strip('"')) for word in words]
        if len(names) in (1, 2) and all(names):
            return names[0], names[1] if len(names) == 2 else None
        what = f"{shorten(repr(' '.join(words)), 60)} in {entry.key}"
        rule = "an entry has one name, or two: source and destination"
        self.problems.add(what, rule=rule, advice="separate entries by commas", line=entry.line)
        return None

    def _add_input(self, entry: TemplateEntry, local: str, remote: str | None) -> str | None:
        """Add an input and return its name in the directory of the job.

        Return None if the file is already on the machine.
        """
        if local.startswith("/"):
            if remote is not None:
                self._refuse_renaming(entry, local, remote, f"write file://{local} {remote}")
            return None
        name = remote or (self._base(entry, local) if is_url(local) else local)
        self.inputs.setdefault(name, Input(file=name, source=None if name == local else local))
        return name

    def _add_output(self, entry: TemplateEntry, remote: str, local: str | None) -> None:
        if remote.startswith("/"):
            self._keep(remote)
            if local is not None:
                self._refuse_renaming(entry, remote, local, "name a file in the directory of the job")
        elif is_url(remote):
            what = f"the URL {shorten(remote, 60)} in {entry.key}"
            rule = "the first name must be a file of the job"
            self.problems.add(what, rule=rule, advice="write NAME URL", line=entry.line)
        else:
            target = local if local is not None and _is_elsewhere(local) else None
            # Without the index in the name, all tasks of an array would write the same file.
            name = remote if local is None else self.variables.unique(remote) if target else local
            self.outputs.setdefault(name, Output(file=name, target=target))
            if name != remote:
                self.moves.append(f"mv {_word(remote)} {_word(name)}")

    def _keep(self, path: str) -> None:
        if path not in self.on_machine:
            self.on_machine.append(path)

    def _refuse_renaming(self, entry: TemplateEntry, path: str, other: str, advice: str) -> None:
        what = f"{shorten(path, 60)} is renamed to {shorten(other, 60)} in {entry.key}"
        rule = "a file with an absolute path is not moved"
        self.problems.add(what, rule=rule, advice=advice, line=entry.line)

    def _base(self, entry: TemplateEntry, name: str) -> str:
        """Return the last part of a path or URL."""
        try:
            base = (split_url(name).path if is_url(name) else name).rpartition("/")[2]
        except ValueError:
            base = ""
        if not base:
            what = f"{shorten(name, 60)} in {entry.key} names no file"
            self.problems.add(what, advice="end it with a file name", line=entry.line)
        return base or name

    def _flag(self, entry: TemplateEntry, name: str, flags: str) -> None:
        given = self.inputs[name]
        for flag in flags.replace(",", " ").split():
            key, _, value = flag.partition("=")
            if flag in ("shared", "compressed"):
                given = replace(given, **{flag: True})  # type: ignore[arg-type]
            elif key == "size":
                given = replace(given, size=self._size(entry, value))
            else:
                what = f"flag {shorten(repr(flag), 40)} in {entry.key}"
                self.problems.add(what, rule="must be shared, compressed or size=BYTES", line=entry.line)
        self.inputs[name] = given

    def _size(self, entry: TemplateEntry, text: str) -> float | None:
        if (size := parse_bytes(text)) is None:
            what = f"size={shorten(text, 40)} in {entry.key}"
            self.problems.add(
                what, rule="must be a number of bytes, or a size with a unit such as 12.2MB", line=entry.line
            )
        return size


_CHECKPOINT_S = 300.0
_SEARCHED_S = 300.0
"""Default of RESCHEDULING_THRESHOLD: a job that has run for longer is not moved to a better machine."""
_CPU_PERCENT = 50
_OWN_PROGRAMS = ("libexec/gw_wrapper.sh", "libexec/gw_monitor.sh")
"""GridWay's default wrapper and monitor; they are not run, because weft has its own."""
_DEADLINE = re.compile(r"(?:(?:([0-9]{1,4}):)?([0-9]{1,4}):)?([0-9]{1,6})")
_ASSIGNMENT = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)(?:\s*=\s*|\s+)(?:"([^"]*)"|([^"]*?))\s*')
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
_COUNT = re.compile(r"[0-9]{1,9}")
_YES_NO = {"yes": "reschedule", "no": "hold"}


class JobTemplate:
    """The entries of one template, and the task that they describe."""

    def __init__(self, entries: Mapping[str, TemplateEntry], problems: ProblemCollector) -> None:
        self.entries = entries
        self.problems = problems
        total = entries.get("TOTAL_TASKS")
        self.total_tasks = 1 if total is None else self._count(total, least=1)
        """Number of tasks of the array; 1 by default."""

    @property
    def is_array(self) -> bool:
        """Return whether the template describes an array job."""
        return "TOTAL_TASKS" in self.entries or any(
            _variable_name(match) in _ARRAY_NAMES
            for entry in self.entries.values()
            for match in _VARIABLE.finditer(entry.value)
        )

    def task(self, name: str, *, as_parameter: bool) -> Task | None:
        """Return the task; if the template names no program, add a problem and return None.

        If ``as_parameter``, the parameter ``total_tasks`` of the workflow sets the size of an array job.
        """
        executable = self.entries.get("EXECUTABLE")
        self._refuse_unsupported()
        if not as_parameter and (entry := self.entries.get("DEADLINE")):
            rule = "the deadline of one job of a graph is not supported"
            advice = "state it for the whole run: weft run --deadline TIME"
            self.problems.add(
                f"DEADLINE = {shorten(entry.value, 40)}", rule=rule, advice=advice, line=entry.line
            )
        if executable is None:
            self.problems.add("no EXECUTABLE", rule="a job template must name its program")
            return None
        swept = self.is_array and (as_parameter or "TOTAL_TASKS" in self.entries)
        count = f"{{{_COUNT_NAME}}}" if as_parameter else str(self.total_tasks)
        variables = _TemplateVariables(self.problems, name=name, swept=swept, count=count)
        files = _StagedFiles(variables=variables, problems=self.problems)
        job = self._job(executable, variables, files)
        return Task(
            name=name,
            sweep=self._sweep(as_parameter) if swept else None,
            inputs=tuple(files.inputs.values()),
            outputs=tuple(files.outputs.values()),
            nodes=(self._nodes(),),
            requirements=translate_expression(self.entries.get("REQUIREMENTS"), self.problems),
            rank=translate_expression(self.entries.get("RANK"), self.problems, is_rank=True),
            job=job,
            recovery=self._recovery(variables),
            settings=self._settings(),
            attributes=self._attributes(files),
        )

    @property
    def run_settings(self) -> dict[str, float]:
        """Return the run settings that the template states (DEADLINE), by attribute of ``RunSettings``."""
        if (entry := self.entries.get("DEADLINE")) is None:
            return {}
        if (parts := _DEADLINE.fullmatch(entry.value)) is None:
            what = f"DEADLINE = {shorten(entry.value, 40)}"
            self.problems.add(what, rule="must be [[DAYS:]HOURS:]MINUTES", line=entry.line)
            return {}
        days, hours, minutes = (int(part or 0) for part in parts.groups())
        deadline_s = 60.0 * (minutes + 60 * (hours + 24 * days))
        return {"deadline_s": deadline_s} if deadline_s else {}

    def _settings(self) -> dict[str, float | None]:
        """Return the task settings that the template states, by attribute of ``RunSettings``.

        As in GridWay, 0 disables a limit; the setting is None then.
        """
        found: dict[str, float | None] = {}
        if entry := self.entries.get("RESCHEDULING_INTERVAL"):
            found["better_every_s"] = float(self._number(entry)) or None
            threshold = self.entries.get("RESCHEDULING_THRESHOLD")
            within_s = _SEARCHED_S if threshold is None else float(self._number(threshold))
            if found["better_every_s"]:
                found["better_until_s"] = within_s
        if entry := self.entries.get("SUSPENSION_TIMEOUT"):
            found["suspension_timeout_s"] = float(self._number(entry)) or None
        if entry := self.entries.get("PROFILE_THRESHOLD"):
            found["iteration_limit_s"] = float(self._number(entry)) or None
        if "MONITOR" in self.entries:
            found["evaluator_timeout_s"] = None  # a monitor runs as long as the job
        return found

    def _sweep(self, as_parameter: bool) -> Sweep:
        last = parse(f"{_COUNT_NAME} - 1" if as_parameter else str(self.total_tasks - 1))
        return Sweep(variables=((INDEX, Range(low=parse("0"), high=last)),))

    def _refuse_unsupported(self) -> None:
        """Add a problem for JOB_DEPENDENCIES, which has no equivalent in weft."""
        if entry := self.entries.get("JOB_DEPENDENCIES"):
            rule = "ids of running jobs are known only to GridWay"
            advice = "list the templates in a DAGMan file: JOB A a.jt, PARENT A CHILD B"
            self.problems.add(f"{entry.key} = {shorten(entry.value, 40)}", rule=rule, advice=advice,
                                line=entry.line)  # fmt: skip

    def _job(self, executable: TemplateEntry, variables: _TemplateVariables, files: _StagedFiles) -> JobSpec:
        given, filled = self._environment(variables)
        # Double quotes let the shell of the machine expand its variables, as in GridWay's wrapper.
        words = [f'{name}="{value}"' for name, value in filled.items()]
        words = ["env", *words] if words else []
        words.append(files.program(executable))
        if arguments := self.entries.get("ARGUMENTS"):
            words.append(variables.translate(arguments, arguments.value, in_line=True))
        if entry := self.entries.get("INPUT_FILES"):
            files.add_inputs(entry)
        if entry := self.entries.get("OUTPUT_FILES"):
            files.add_outputs(entry)
        return JobSpec(
            command=" && ".join([" ".join(words), *files.moves]),
            env=given,
            stdin=None if (entry := self.entries.get("STDIN_FILE")) is None else files.read(entry),
            stdout=None if (entry := self.entries.get("STDOUT_FILE")) is None else files.write(entry),
            stderr=None if (entry := self.entries.get("STDERR_FILE")) is None else files.write(entry),
            prolog=self._module("PRE_WRAPPER", variables, files),
            wrapper=self._module("WRAPPER", variables, files) or self._mpi_wrapper(),
            evaluator=self._evaluator(variables, files),
        )

    def _mpi_wrapper(self) -> str | None:
        kind = self.entries.get("TYPE")
        return "mpirun -n {nodes}" if kind is not None and kind.value.lower() == "mpi" else None

    def _evaluator(self, variables: _TemplateVariables, files: _StagedFiles) -> str | None:
        """Return the evaluator: the MONITOR, called with the job's process id; a CPU load limit; or None."""
        own, limit = self.entries.get("MONITOR"), self.entries.get("CPULOAD_THRESHOLD")
        percent = _CPU_PERCENT if limit is None else self._number(limit)
        if own is not None and own.value not in _OWN_PROGRAMS:
            return f'{self._module("MONITOR", variables, files)} "$WEFT_PID"'
        return f"cpu:{percent:g}%" if (own or limit) and percent else None

    def _environment(self, variables: _TemplateVariables) -> tuple[dict[str, str], dict[str, str]]:
        """Return (variables with fixed values, variables whose values are expanded at run time).

        Fields are substituted in commands only, so the variables of the second kind are set in the command.
        """
        fixed: dict[str, str] = {}
        filled: dict[str, str] = {}
        entry = self.entries.get("ENVIRONMENT")
        for part in _split_list(entry.value) if entry is not None else ():
            assert entry is not None
            if (match := _ASSIGNMENT.fullmatch(part)) is None:
                what, rule = f"{shorten(repr(part), 60)} in ENVIRONMENT", "must be NAME=value"
                self.problems.add(what, rule=rule, line=entry.line)
                continue
            value = match[2] if match[2] is not None else match[3]
            translated = variables.translate(entry, value, in_line=True)
            variables.environment[match[1]] = translated
            (filled if "$" in value else fixed)[match[1]] = (
                translated if "$" in value else escape_braces(value)
            )
        return fixed, filled

    def _module(self, key: str, variables: _TemplateVariables, files: _StagedFiles) -> str | None:
        if (entry := self.entries.get(key)) is None or entry.value in _OWN_PROGRAMS:
            return None
        words = [files.program(entry)]
        if arguments := self.entries.get(f"{key}_ARGUMENTS"):
            words.append(variables.translate(arguments, arguments.value, in_line=True))
        return " ".join(words)

    def _nodes(self) -> int:
        kind, count = self.entries.get("TYPE"), self.entries.get("NP")
        named = "single" if kind is None else kind.value.lower()
        if kind is not None and named not in ("single", "mpi"):
            advice = suggest(named, ("single", "mpi"))
            what = f"TYPE = {shorten(kind.value, 40)}"
            self.problems.add(what, rule="must be single or mpi", advice=advice, line=kind.line)
        processors = 1 if count is None else self._count(count, least=1)
        if count is not None and processors > 1 and named != "mpi":
            rule = "NP is the number of processors of an MPI job"
            self.problems.add(f"NP = {processors}", rule=rule, advice="add TYPE = mpi", line=count.line)
        return processors

    def _recovery(self, variables: _TemplateVariables) -> Recovery:
        retries, after = self.entries.get("NUMBER_OF_RETRIES"), self.entries.get("RESCHEDULE_ON_FAILURE")
        profile = self.entries.get("PERFORMANCE_PROFILE")
        found = Recovery(
            checkpoint=self._checkpoint(variables),
            progress=None if profile is None else variables.translate(profile, profile.value),
            retries=None if retries is None else self._count(retries, least=0),
            on_failure=None if after is None else _YES_NO.get(after.value.lower()),
        )
        if after is not None and found.on_failure is None:
            what = f"RESCHEDULE_ON_FAILURE = {shorten(after.value, 40)}"
            self.problems.add(what, rule="must be yes or no", line=after.line)
        return NO_RECOVERY if found == NO_RECOVERY else found

    def _checkpoint(self, variables: _TemplateVariables) -> Checkpoint | None:
        files, interval = self.entries.get("RESTART_FILES"), self.entries.get("CHECKPOINT_INTERVAL")
        every_s = _CHECKPOINT_S if interval is None else self._number(interval)
        store = self.entries.get("CHECKPOINT_URL")
        if files is None:
            if store is not None and store.value:
                what = f"CHECKPOINT_URL = {shorten(store.value, 60)} without RESTART_FILES"
                rule = "only declared restart files are copied to the store"
                advice = "name them under RESTART_FILES, or leave out CHECKPOINT_URL"
                self.problems.add(what, rule=rule, advice=advice, line=store.line)
            return None
        names = _split_list(files.value)
        for name in names:
            if is_url(name):
                what = f"the URL {shorten(name, 60)} in RESTART_FILES"
                rule = "restart files are files of the job"
                advice = "name the file, and its storage under CHECKPOINT_URL"
                self.problems.add(what, rule=rule, advice=advice, line=files.line)
        # An interval of 0 means no periodic checkpoints; restart files that an attempt leaves are still used.
        return Checkpoint(
            files=tuple(variables.translate(files, name) for name in names),
            every=every_s or None,
            url=None if store is None else variables.translate(store, store.value),
        )

    def _attributes(self, files: _StagedFiles) -> dict[str, object]:
        kept: dict[str, object] = {}
        if entry := self.entries.get("CPULOAD_THRESHOLD"):
            kept[entry.key] = self._number(entry)
        if files.on_machine:
            kept["files_on_machine"] = list(files.on_machine)
        return kept

    def _count(self, entry: TemplateEntry, *, least: int) -> int:
        if _COUNT.fullmatch(entry.value) and int(entry.value) >= least:
            return int(entry.value)
        what = f"{entry.key} = {shorten(entry.value, 40)}"
        self.problems.add(what, rule=f"must be a whole number, at least {least}", line=entry.line)
        return least

    def _number(self, entry: TemplateEntry) -> float:
        if _NUMBER.fullmatch(entry.value):
            return float(entry.value) if "." in entry.value else int(entry.value)
        what = f"{entry.key} = {shorten(entry.value, 40)}"
        self.problems.add(what, rule="must be a number, at least 0", line=entry.line)
        return 0


_PROGRAM = re.compile(r"^[ \t]*EXECUTABLE[ \t]*=", re.MULTILINE)


class GridWay(ReadOnlyFormat):
    """Job templates of GridWay.

    A template is a workflow of one task. A template that uses ``${TASK_ID}`` or ``${TOTAL_TASKS}``, or has
    the key TOTAL_TASKS, is an array job: a sweep ``task_id: 0..total_tasks-1``. Its size is the parameter
    ``total_tasks``, so ``-p total_tasks=50`` corresponds to ``gwsubmit -n 50``.

    Keywords about rescheduling, suspension and the performance profile become settings of the task; DEADLINE
    becomes a setting of the run. A keyword without an equivalent is an error; no keyword is ignored.
    GridWay's defaults belong to an installation, not to a template. Only three of them are used: 300 s for
    CHECKPOINT_INTERVAL and for RESCHEDULING_THRESHOLD, and 50 % for the CPU load in GridWay's own monitor.
    """

    name = "gridway"
    title = "GridWay job template"
    extensions: tuple[str, ...] = (".jt",)

    def recognises(self, source: SourceFile) -> bool:
        """Return whether a file is plain text with a line ``EXECUTABLE = ...``."""
        head = source.head
        return not head.lstrip().startswith(("<", "{")) and _PROGRAM.search(head) is not None

    def read(self, source: SourceFile) -> Workflow:
        """Return the workflow, which has one task. Raises InvalidInput."""
        if not source.data.strip():
            raise file_error(source, "the file is empty")
        problems = ProblemCollector(source)
        template = JobTemplate(parse_template(source.text(), problems), problems)
        name = entry.value if (entry := template.entries.get("NAME")) else source.stem
        task = template.task(name, as_parameter=True)
        settings = template.run_settings
        problems.finish()
        assert task is not None, "a template without a program is a problem"
        return Workflow(
            name=source.stem,
            tasks=(task,),
            params={_COUNT_NAME: template.total_tasks} if template.is_array else {},
            settings=settings,
            document=Document(file=source.name),
        )
