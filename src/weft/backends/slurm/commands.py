"""Argument lists and job scripts for Slurm, and parsers of what its commands print.

All functions are pure. A parser never raises: lines that it cannot read are returned beside the others, and
an unknown job state is ``JobState.UNKNOWN``. The control character ``SEPARATOR`` ends the columns, because
names, comments and reasons contain commas and blanks (``ReqNodeNotAvail, UnavailableNodes:node3``). Checked
with Slurm 22.05. Login nodes load this module without weft being installed there: it uses Python 3.8 and
the standard library.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from weft.errors import Problem, shorten
from weft.records import dataclass

SEPARATOR = "\x1f"
"""Unit separator of ASCII: it ends every column."""
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}")
"""Names of jobs that every command takes unquoted and that no column cuts."""
MOST_NODES = 100_000
"""Number of names to which a list of nodes may expand; a longer list is malformed."""
EXIT_NOT_FOUND = 127
"""Exit code of a command that is not installed, as in a shell."""
EXIT_TIMEOUT = 124
"""Exit code of a command that was killed after its timeout, as by ``timeout``."""

_Row = TypeVar("_Row")


class JobPhase(enum.Enum):
    """What a state of a job means for the engine."""

    PENDING = "pending"
    RUNNING = "running"
    """Processes of the job may exist: running, suspended, completing, and so on."""
    FINAL = "final"
    UNKNOWN = "unknown"


class JobState(enum.Enum):
    """States of jobs as Slurm names them; a state that is not listed is UNKNOWN."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    RESIZING = "RESIZING"
    SIGNALING = "SIGNALING"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAIL = "NODE_FAIL"
    """A node died. The exit code is 0, although the program did not succeed."""
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    PREEMPTED = "PREEMPTED"
    REVOKED = "REVOKED"
    UNKNOWN = "UNKNOWN"

    @property
    def phase(self) -> JobPhase:
        """Whether a job in this state waits, may have processes, or has ended."""
        return _PHASES[self]


_PHASES: Mapping[JobState, JobPhase] = {
    **dict.fromkeys(list(JobState)[:7], JobPhase.PENDING),
    **dict.fromkeys(list(JobState)[7:14], JobPhase.RUNNING),
    **dict.fromkeys(list(JobState)[14:-1], JobPhase.FINAL),
    JobState.UNKNOWN: JobPhase.UNKNOWN,
}


class SlurmCause(enum.Enum):
    """Reasons for which Slurm refuses a job, does not start it, or does not answer."""

    PARTITION = "partition"
    ACCOUNT = "account"
    QOS = "qos"
    QUEUE_FULL = "queue full"
    """A limit on submitted or running jobs; it passes when jobs end."""
    TIME_LIMIT = "time limit"
    CONFIGURATION = "configuration"
    UNREACHABLE = "unreachable"
    """No answer: a job may have been submitted, and the states of jobs are unknown."""
    NOT_INSTALLED = "not installed"
    NO_ACCOUNTING = "no accounting"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """What a job needs. Empty texts and None leave a choice to the site's defaults."""

    name: str
    """Unique name with the identity of the attempt: letters, digits, and ``. _ + -``."""
    output: str
    """File for standard output; ``%a`` is the index of an array element."""
    error: str
    comment: str = ""
    partition: str = ""
    nodes: int = 1
    most_nodes: int | None = None
    """Largest number of nodes of a moldable job, at least ``nodes``; None: exactly ``nodes``."""
    cores: int | None = None
    """Cores of the one task on each node; None: one, or all with ``exclusive``."""
    memory_per_node_bytes: int | None = None
    gres: str = ""
    """Generic resources per node, such as ``gpu:2``."""
    limit_s: float | None = None
    """Time limit; Slurm rounds it up to minutes."""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    exclusive: bool = False
    """Whether the nodes are shared with no other job."""
    signal: str = ""
    """Signal before the time limit, such as ``USR1``; the program that the script started receives it."""
    signal_before_s: int = 60
    array_size: int = 0
    """Number of elements 0, 1, ... of an array; 0: a single job."""
    array_throttle: int | None = None
    """Number of elements that run at once at most."""

    def __post_init__(self) -> None:
        if not JOB_NAME.fullmatch(self.name):
            raise ValueError(f"the job name {self.name!r} does not match {JOB_NAME.pattern}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job, or one element of an array, as ``squeue`` or ``sacct`` describe it."""

    id: str
    """Number, with the index of an array element: ``17``, ``17_3``."""
    name: str
    state: JobState
    comment: str = ""
    exit_code: int | None = None
    """Exit code of the script; None: not ended by itself, or unknown."""
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    reason: str = ""
    start_s: float | None = None
    """Start, for a pending job the expected one, in seconds since 1970; None: unknown."""
    end_s: float | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Alike nodes of a partition, as ``sinfo`` groups them by configuration and state."""

    partition: str
    default: bool
    """Whether jobs without a partition run here."""
    available: bool
    count: int
    nodes: tuple[str, ...]
    cores: int
    """Cores per node."""
    memory_per_node_bytes: int
    gres: Mapping[str, int]
    """Generic resources per node, such as ``{"gpu": 2}``; types of one resource are added up."""
    features: tuple[str, ...]
    limit_s: float
    """Longest time limit; infinity: none."""
    default_limit_s: float | None
    most_nodes: float
    """Largest number of nodes of one job; infinity: no limit."""
    state: str
    """State of the nodes, such as ``idle`` or ``down``."""
    responding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRows(Generic[_Row]):
    """Rows that a command printed, and the lines that could not be read."""

    rows: tuple[_Row, ...] = ()
    malformed: tuple[str, ...] = ()


def sbatch_arguments(job: SlurmJob) -> list[str]:
    """Return the command that submits a job; the script is its standard input.

    The job is never requeued by Slurm: only the engine decides on another attempt. No number of tasks is
    requested: it is one for each node, and with one stated Slurm would give a moldable job the fewest nodes.
    """
    nodes = f"{job.nodes}-{max(job.nodes, job.most_nodes)}" if job.most_nodes else f"{job.nodes}"
    array = f"0-{job.array_size - 1}" if job.array_size else ""
    if array and job.array_throttle:
        array += f"%{job.array_throttle}"
    options = {
        "job-name": job.name,
        "comment": job.comment,
        "output": job.output,
        "error": job.error,
        "partition": job.partition,
        "nodes": nodes,
        "cpus-per-task": f"{job.cores}" if job.cores else "",
        "mem": f"{math.ceil(job.memory_per_node_bytes / 2**20)}M" if job.memory_per_node_bytes else "",
        "gres": job.gres,
        "time": format_limit(job.limit_s) if job.limit_s is not None else "",
        "account": job.account,
        "qos": job.qos,
        "constraint": job.constraint,
        "signal": f"B:{job.signal}@{job.signal_before_s}" if job.signal else "",
        "array": array,
    }
    return [
        *("sbatch", "--parsable", "--no-requeue", "--open-mode=append"),
        *(["--exclusive"] if job.exclusive else []),
        *(f"--{name}={value}" for name, value in options.items() if value),
    ]


def job_script(program: Sequence[str], directory: str) -> str:
    """Return a script that replaces itself by a program, in a directory.

    The program is the process that receives signals. The script is free of control characters other than line
    ends: sbatch refuses carriage returns and reads options from lines that start with ``#SBATCH``.
    """
    where = quote(directory)
    return f"#!/bin/bash\ncd -- {where} || exit 1\nexec {' '.join(map(quote, program))}\n"


def array_script(program: Sequence[str], root: str, folders: Sequence[str], log: str) -> str:
    """Return the script of a job array, whose element number N runs a program on the folder number N.

    The folder is the last argument of the program. ``folders`` are names below ``root``; ``log`` is the file
    in the folder for the output of the element.
    """
    return (
        f"#!/bin/bash\nfolders=({' '.join(map(quote, folders))})\n"
        f'folder={quote(root)}/"${{folders[SLURM_ARRAY_TASK_ID]}}"\n'
        f'exec >> "$folder"/{quote(log)} 2>&1 || exit 1\ncd / || exit 1\n'
        f'exec {" ".join(map(quote, program))} "$folder"\n'
    )


def quote(text: str) -> str:
    r"""Return a text as one word of bash; bytes that are not UTF-8 are surrogates, as in ``os.fsdecode``.

    >>> print(quote("it's"), quote("two\nlines"))
    'it'"'"'s' $'two\nlines'
    """
    if "\0" in text:
        raise ValueError("an argument of a program contains a NUL character")
    if text.isascii() and text.isprintable():
        return shlex.quote(text)
    escaped = []
    for byte in text.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if character in "\\'":
            escaped.append("\\" + character)
        elif character == "\n":
            escaped.append("\\n")
        else:
            # Three octal digits: a digit that follows is not taken as part of the number.
            escaped.append(character if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
    return f"$'{''.join(escaped)}'"


_JOB_COLUMNS = {
    "JobArrayID": 40,
    "Name": 128,
    "Comment": 256,
    "State": 32,
    "exit_code": 16,
    "NodeList": 512,
    "Reason": 256,
    "StartTime": 24,
    "EndTime": 24,
    "RestartCnt": 12,
}
"""Columns of squeue with their widths; squeue cuts longer values."""


def squeue_arguments() -> list[str]:
    """Return the command that lists all jobs of this user, array elements one by one, ended ones too."""
    columns = ",".join(f"{name}:{width}{SEPARATOR}" for name, width in _JOB_COLUMNS.items())
    # The format of times makes them independent of the time zone.
    return [
        *("env", "SLURM_TIME_FORMAT=%s", "squeue", "--noheader", "--me", "--array", "--states=all"),
        f"--Format={columns}",
    ]


def sacct_arguments(jobs: Iterable[str]) -> list[str]:
    """Return the command that asks the accounting database about jobs, also ended ones of long ago."""
    return [
        *("env", "SLURM_TIME_FORMAT=%s", "sacct", "--noheader", "--allocations", "--parsable2"),
        *(f"--delimiter={SEPARATOR}", f"--jobs={','.join(jobs)}"),
        "--format=JobID,JobName,Comment,State,ExitCode,NodeList,Reason,Start,End,Restarts",
    ]


def scancel_arguments(jobs: Iterable[str], *, signal: str = "", batch_only: bool = True) -> list[str]:
    """Return the command that ends jobs, or sends them a signal.

    By default only the program that the script started receives the signal, else job steps do too.
    """
    if not signal:
        return ["scancel", *jobs]
    return ["scancel", "--batch" if batch_only else "--full", f"--signal={signal}", *jobs]


def ping_arguments() -> list[str]:
    """Return the command that fails quickly if the controller does not answer."""
    return ["scontrol", "ping"]


def resize_arguments(job: str, nodes: int) -> list[str]:
    """Return the command that changes the number of nodes of a pending job."""
    return ["scontrol", "update", f"JobId={job}", f"NumNodes={nodes}"]


def config_arguments() -> list[str]:
    """Return the command that prints the configuration of the cluster."""
    return ["scontrol", "show", "config"]


def partitions_arguments() -> list[str]:
    """Return the command that prints the settings of all partitions."""
    return ["scontrol", "show", "partition"]


def parse_default_memory(config: str, partitions: str, partition: str, cores: int) -> int | None:
    r"""Return the bytes that a job with so many cores on a node gets there without a request; None: no limit.

    The texts are the printed configuration and the printed partitions; "" is the default partition. Its own
    setting holds, otherwise that of the cluster. The numbers of Slurm are in MiB.

    >>> partitions = "PartitionName=a\n Default=YES\nPartitionName=b\n DefMemPerCPU=5"
    >>> [parse_default_memory("DefMemPerNode = 100\n", partitions, name, 4) for name in ("", "b")]
    [104857600, 20971520]
    """
    own = ""
    for block in re.split(r"(?m)^(?=PartitionName=)", partitions):
        name = re.match(r"PartitionName=(\S+)", block)
        if name and (name[1] == partition or (not partition and re.search(r"\bDefault=YES\b", block))):
            own = block
    for text in (own, config):
        if found := re.search(r"\bDefMemPer(CPU|Node)\s*=\s*([0-9]{1,15})\b", text):
            return (int(found[2]) * (cores if found[1] == "CPU" else 1)) << 20 or None
    return None


def parse_array_limit(text: str) -> int | None:
    r"""Return the largest number of elements of an array in a printed configuration; None: it is not there.

    >>> parse_array_limit("MailProg = /bin/true\nMaxArraySize            = 1001\n")
    1001
    """
    found = re.search(r"^\s*MaxArraySize\s*=\s*([0-9]{1,9})\s*$", text, re.MULTILINE)
    return int(found[1]) if found else None


def element_index(job: str) -> int:
    """Return the index of an array element in a job number, and -1 for a job that is not an element.

    >>> element_index("17_3"), element_index("17")
    (3, -1)
    """
    index = job.partition("_")[2]
    return int(index) if index.isdecimal() else -1


_NODE_COLUMNS = ("%P", "%a", "%D", "%N", "%c", "%m", "%G", "%f", "%l", "%L", "%s", "%T")


def sinfo_arguments() -> list[str]:
    """Return the command that lists the partitions, one line for each group of alike nodes."""
    return ["sinfo", "--noheader", "--exact", f"--format={SEPARATOR.join(_NODE_COLUMNS)}"]


def parse_job_id(text: str) -> str | None:
    """Return the number that ``sbatch --parsable`` printed, or None. Sites may print messages before it."""
    for line in reversed(text.splitlines()):
        if found := re.fullmatch(r"([0-9]{1,18})(;.*)?", line.strip()):
            return found[1]
    return None


def parse_squeue(text: str) -> ParsedRows[JobStatus]:
    """Return the jobs that ``squeue_arguments`` lists."""
    return _parse_lines(text, _parse_job)


def parse_sacct(text: str) -> ParsedRows[JobStatus]:
    """Return the jobs that ``sacct_arguments`` lists."""
    return _parse_lines(text, _parse_job)


def parse_sinfo(text: str) -> ParsedRows[NodeGroup]:
    """Return the groups of nodes that ``sinfo_arguments`` lists."""
    return _parse_lines(text, _parse_nodes)


def _parse_lines(text: str, parse: Callable[[list[str]], _Row | None]) -> ParsedRows[_Row]:
    rows: list[_Row] = []
    malformed: list[str] = []
    for line in text.split("\n"):
        if not line.strip(" \r\t"):
            continue
        row = parse([column.strip() for column in line.split(SEPARATOR)])
        if row is None:
            malformed.append(shorten(line, 200))
        else:
            rows.append(row)
    return ParsedRows(rows=tuple(rows), malformed=tuple(malformed))


def _parse_job(columns: list[str]) -> JobStatus | None:
    if len(columns) == len(_JOB_COLUMNS) + 1 and not columns[-1]:
        columns = columns[:-1]  # squeue ends the last column too, sacct does not
    if len(columns) != len(_JOB_COLUMNS):
        return None
    number, name, comment, state, status, nodes, reason, start, end, restarts = columns
    expanded = expand_nodes("" if nodes in _NOTHING else nodes)
    if not re.fullmatch(r"[0-9]{1,18}(_[0-9]{1,18}|_\[.*\])?", number) or expanded is None or not state:
        return None
    exit_code, exit_signal = parse_exit_code(status)
    return JobStatus(
        id=number,
        name=name,
        comment="" if comment in _NOTHING else comment,
        state=parse_state(state),
        exit_code=exit_code,
        exit_signal=exit_signal,
        nodes=expanded,
        reason="" if reason in _NOTHING else reason,
        start_s=_parse_number(start),
        end_s=_parse_number(end),
        restarts=int(_parse_number(restarts) or 0),
    )


_NOTHING = {"", "(null)", "n/a", "N/A", "NONE", "None", "none", "None assigned", "Unknown"}


def parse_state(text: str) -> JobState:
    """Return a state; details such as ``CANCELLED by 1000`` and ``COMPLETED+`` are dropped."""
    word = text.split(" ", 1)[0].rstrip("+")
    return JobState(word) if word in JobState.__members__ else JobState.UNKNOWN


def parse_exit_code(text: str) -> tuple[int | None, int | None]:
    """Return exit code and signal from a wait status (``768``) or a pair (``3:0``); None if it is neither.

    >>> parse_exit_code("768"), parse_exit_code("3:0"), parse_exit_code("0:9"), parse_exit_code("?")
    ((3, None), (3, None), (None, 9), (None, None))
    """
    if found := re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text):
        code, number = int(found[1]), int(found[2])
    elif re.fullmatch(r"[0-9]{1,9}", text):
        code, number = int(text) >> 8, int(text) & 0x7F
    else:
        return None, None
    return (None, number) if number else (code, None)


def expand_nodes(text: str) -> tuple[str, ...] | None:
    """Return the names of a list of nodes, in order; None if it is malformed or far too long.

    >>> expand_nodes("login,node[08-10,12],rack[1-2]n[1-2]")
    ('login', 'node08', 'node09', 'node10', 'node12', 'rack1n1', 'rack1n2', 'rack2n1', 'rack2n2')
    """
    if not text:
        return ()
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text):
        pieces = re.split(r"\[([^\[\]]*)\]", part)
        choices: list[list[str]] = []
        count = 1
        for position, piece in enumerate(pieces):
            choice = [piece] if position % 2 == 0 else _expand_ranges(piece)
            if choice is None:
                return None
            count *= len(choice)
            choices.append(choice)
        if not re.fullmatch(r"[^\[\]\s,]+", "".join(pieces[::2]) + "0") or not part:
            return None
        if len(names) + count > MOST_NODES:
            return None
        names += map("".join, itertools.product(*choices))
    return tuple(names)


def _expand_ranges(text: str) -> list[str] | None:
    found: list[str] = []
    for part in text.split(","):
        if not (match := re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part, re.ASCII)):
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or len(found) + last - first >= MOST_NODES:
            return None
        found += (f"{number:0{len(match[1])}d}" for number in range(first, last + 1))
    return found


def _parse_nodes(columns: list[str]) -> NodeGroup | None:
    if len(columns) != len(_NODE_COLUMNS):
        return None
    partition, available, count, names, cores, memory, gres, features, limit, default, size, state = columns
    numbers = [_parse_number(each.rstrip("+")) for each in (count, cores, memory)]
    longest, most = parse_limit(limit), _parse_number(size.rpartition("-")[2])
    nodes = expand_nodes("" if names in _NOTHING else names)
    if None in numbers or longest is None or most is None or nodes is None or not partition.rstrip("*"):
        return None
    nodes_count, cores_count, memory_mb = (int(number or 0) for number in numbers)
    return NodeGroup(
        partition=partition.rstrip("*"),
        default=partition.endswith("*"),
        available=available == "up",
        count=nodes_count,
        nodes=nodes,
        cores=cores_count,
        memory_per_node_bytes=memory_mb * 2**20,
        gres=parse_gres(gres),
        features=() if features in _NOTHING else tuple(features.split(",")),
        limit_s=longest,
        default_limit_s=parse_limit(default),
        most_nodes=most,
        state=state.rstrip("*~#!%$@^-+"),
        responding=not state.endswith("*"),
    )


def parse_gres(text: str) -> dict[str, int]:
    """Return the amounts of generic resources; types and sockets are ignored.

    >>> parse_gres("gpu:a100:2(S:0-1),gpu:t4:1,licence:2K,shard")
    {'gpu': 3, 'licence': 2048, 'shard': 1}
    """
    amounts: dict[str, int] = {}
    if text in _NOTHING:
        return amounts
    for part in re.split(r",(?![^(]*\))", text):
        name, *rest = re.sub(r"\(.*\)", "", part).strip().split(":")
        found = re.fullmatch(r"([0-9]{1,15})([KMGTP]?)", rest[-1]) if rest else None
        amount = int(found[1]) << 10 * " KMGTP".index(found[2] or " ") if found else 1
        if name:
            amounts[name] = amounts.get(name, 0) + amount
    return amounts


def parse_limit(text: str) -> float | None:
    """Return a time limit (``MM:SS``, ``HH:MM:SS``, ``D-HH:MM:SS``) in seconds; None: not given or malformed.

    >>> parse_limit("2-01:00:00"), parse_limit("10:00"), parse_limit("infinite"), parse_limit("n/a")
    (176400.0, 600.0, inf, None)
    """
    if text.lower() in {"infinite", "unlimited"}:
        return math.inf
    found = re.fullmatch(r"(?:(?:([0-9]{1,6})-)?([0-9]{1,6}):)?([0-9]{1,6}):([0-9]{1,6})", text, re.ASCII)
    if not found:
        return None
    days, hours, minutes, seconds = (int(group or 0) for group in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def format_limit(seconds: float) -> str:
    """Return a time limit for sbatch; at least a second, because 0 means none.

    >>> format_limit(90), format_limit(176400), format_limit(math.inf)
    ('0-00:01:30', '2-01:00:00', 'UNLIMITED')
    """
    if math.isinf(seconds):
        return "UNLIMITED"
    minutes, second = divmod(max(1, math.ceil(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours // 24}-{hours % 24:02d}:{minute:02d}:{second:02d}"


def _parse_number(text: str) -> float | None:
    if text.lower() in {"infinite", "unlimited"}:
        return math.inf
    return float(text) if re.fullmatch(r"[0-9]{1,15}", text, re.ASCII) else None


_ERROR_TEXTS: tuple[tuple[SlurmCause, str], ...] = (
    (SlurmCause.NO_ACCOUNTING, r"accounting storage is disabled"),
    (SlurmCause.PARTITION, r"invalid partition|partition.*(not available|is down|not in a valid state)"),
    (SlurmCause.ACCOUNT, r"invalid account|invalid user id|no account|account.*not permitted"),
    (
        SlurmCause.QUEUE_FULL,
        (
            r"violates accounting/qos policy|submit\w* limit|maxsubmit|temporarily unable to accept job"
            r"|too many jobs|job (count )?limit"
        ),
    ),
    (SlurmCause.QOS, r"invalid qos|qos.*not permitted"),
    (SlurmCause.TIME_LIMIT, r"time limit is invalid|invalid.*time limit|requested time limit|timelimit"),
    (
        SlurmCause.CONFIGURATION,
        (
            r"node configuration is not available|node count specification|more processors requested"
            r"|memory specification|invalid generic resource|invalid feature|invalid node name|invalid gres"
        ),
    ),
    (
        SlurmCause.UNREACHABLE,
        (
            r"unable to contact slurm controller|socket timed out|zero bytes were transmitted|standby mode"
            r"|connection (refused|reset|timed out|closed)|configuration source|communication|munge"
            r"|transport endpoint|authentication|no route to host"
        ),
    ),
    (SlurmCause.NOT_INSTALLED, r"command not found|no such file or directory: '?(sbatch|squeue|env)"),
)
_PENDING_REASONS: Mapping[SlurmCause, str] = {
    SlurmCause.PARTITION: r"PartitionDown|PartitionInactive",
    SlurmCause.ACCOUNT: r"InvalidAccount|AccountNotAllowed",
    SlurmCause.QOS: r"InvalidQOS|QOSNotAllowed",
    SlurmCause.TIME_LIMIT: r"PartitionTimeLimit|(QOS|Assoc)MaxWallDurationPerJobLimit",
    SlurmCause.CONFIGURATION: r"PartitionNodeLimit|BadConstraints|(QOS|Assoc)Max\w*PerJob(Limit)?",
    SlurmCause.QUEUE_FULL: r"(QOS|Assoc)(Max|Grp)\w+",
}


def find_error_cause(code: int, text: str) -> SlurmCause:
    """Return why a command failed, from its exit code and what it printed to standard error."""
    lowered = text.lower()
    for cause, pattern in _ERROR_TEXTS:
        if re.search(pattern, lowered):
            return cause
    if code == EXIT_NOT_FOUND:
        return SlurmCause.NOT_INSTALLED
    return SlurmCause.UNREACHABLE if code == EXIT_TIMEOUT else SlurmCause.OTHER


def find_pending_cause(reason: str) -> SlurmCause | None:
    """Return why a pending job does not start without a change; None: it waits for its turn or for nodes.

    QUEUE_FULL passes when other jobs end; the other causes do not pass by themselves.
    """
    word = re.split(r"[,( ]", reason, maxsplit=1)[0]
    for cause, pattern in _PENDING_REASONS.items():
        if re.fullmatch(pattern, word):
            return cause
    return None


_ADVICE: Mapping[SlurmCause, tuple[str, str]] = {
    SlurmCause.PARTITION: ("the partition must exist and accept jobs", "see `sinfo --summarize`"),
    SlurmCause.ACCOUNT: (
        "this site requires a valid account",
        "set `account` of the machine; `sacctmgr show associations user=$USER` lists yours",
    ),
    SlurmCause.QOS: (
        "the QOS must exist and be allowed",
        "set `qos` of the machine; see `sacctmgr show qos`",
    ),
    SlurmCause.QUEUE_FULL: (
        "a limit on jobs of this user, account or QOS is reached",
        "wait until jobs have ended, or use arrays",
    ),
    SlurmCause.TIME_LIMIT: (
        "the time limit must be within the limit of the partition",
        "request less time or use another partition; `sinfo --format='%P %l'` lists the limits",
    ),
    SlurmCause.CONFIGURATION: (
        "some nodes of the partition must have the requested nodes, cores, memory, GPUs and features",
        "request less; `sinfo --Node --long` lists the nodes",
    ),
    SlurmCause.UNREACHABLE: (
        "without the controller the states of jobs are unknown; the jobs themselves continue",
        "wait, or ask the site; `scontrol ping` shows when the controller answers again",
    ),
    SlurmCause.NOT_INSTALLED: (
        "sbatch, squeue, scancel and sinfo must be on the PATH",
        "run weft on a login node, or name one with `via`",
    ),
    SlurmCause.NO_ACCOUNTING: ("this site keeps no record of ended jobs", ""),
    SlurmCause.OTHER: ("", "read the message of Slurm"),
}


def describe_failure(command: Sequence[str], code: int, text: str) -> Problem:
    """Return what users read about a command of Slurm that failed."""
    rule, advice = _ADVICE[find_error_cause(code, text)]
    name = next(word for word in command if word != "env" and "=" not in word)
    lines = [re.sub(rf"^{name}: (error: |fatal: )?", "", line.strip()) for line in text.splitlines()]
    detail = "; ".join(filter(None, lines))
    if code == EXIT_TIMEOUT:
        detail = detail or "no answer within its timeout"
    return Problem(what=f"{name}: {shorten(detail or f'exit code {code}', 300)}", rule=rule, advice=advice)
