"""Command lines, job scripts and parsers of Slurm, without a cluster."""

from __future__ import annotations

import math
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.backends.slurm import commands as slurm
from weft.backends.slurm.commands import SEPARATOR, JobPhase, JobState, SlurmCause, SlurmJob

ARGUMENTS = st.binary(max_size=12).filter(lambda text: b"\0" not in text).map(os.fsdecode) | st.sampled_from(
    [
        "",
        "#SBATCH --array=1-9",
        "a\n#SBATCH --hold\n",
        "dos\r\n",
        "it's",
        "$HOME `id`",
        "\\n",
        "\x011",
        "é 日",
    ]
)
ANY_TEXT = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [SEPARATOR, "\n", "17_3", "[", "]", "1-9", ",", "node", "RUNNING", "0:0", "-", "9" * 30, "*"]
    ),
    max_size=40,
).map("".join)


def job_line(**columns):
    """Return a line of squeue."""
    values = {
        "id": "17",
        "name": "weft-a",
        "comment": "(null)",
        "state": "RUNNING",
        "exit": "0",
        "nodes": "node[1-2]",
        "reason": "None",
        "start": "1795009698",
        "end": "N/A",
        "restarts": "0",
    } | columns
    return "".join(f"{value:<30}{SEPARATOR}" for value in values.values())


def test_a_small_job_states_only_what_it_needs() -> None:
    job = SlurmJob(name="weft-1", output="o", error="e")
    assert slurm.sbatch_arguments(job) == [
        *("sbatch", "--parsable", "--no-requeue", "--open-mode=append", "--job-name=weft-1"),
        *("--output=o", "--error=e", "--nodes=1"),
    ]


def test_every_requirement_of_a_job_is_an_option_of_sbatch() -> None:
    job = SlurmJob(
        name="weft-1",
        output="o",
        error="e",
        comment="a, b",
        partition="gpu",
        nodes=2,
        most_nodes=4,
        cores=8,
        memory_per_node_bytes=2**30 + 1,
        gres="gpu:2",
        limit_s=90.5,
        account="physics",
        qos="long",
        constraint="avx&fast",
        exclusive=True,
        signal="USR1",
        signal_before_s=30,
        array_size=200,
        array_throttle=4,
    )
    assert set(slurm.sbatch_arguments(job)) >= {
        *("--comment=a, b", "--partition=gpu", "--nodes=2-4", "--cpus-per-task=8", "--mem=1025M"),
        *("--gres=gpu:2", "--time=0-00:01:31", "--account=physics", "--qos=long", "--constraint=avx&fast"),
        *("--exclusive", "--signal=B:USR1@30", "--array=0-199%4"),
    }


@pytest.mark.parametrize("name", ["", "-a", "a b", "a,b", "ä", "a" * 121])
def test_names_that_commands_could_misread_are_refused(name) -> None:
    with pytest.raises(ValueError, match="job name"):
        SlurmJob(name=name, output="o", error="e")


@given(st.lists(ARGUMENTS, max_size=5))
def test_bash_passes_arguments_of_a_script_unchanged(arguments) -> None:
    program = ["printf", "%s\\0", *arguments, "end"]
    script = slurm.job_script(program, "/")
    assert script.count("\n") == 3
    assert script.isascii()
    assert "\r" not in script
    done = subprocess.run(["bash"], input=script.encode(), capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == [*map(os.fsencode, arguments), b"end"]


def test_a_script_does_not_start_the_program_elsewhere(tmp_path) -> None:
    script = slurm.job_script(["touch", str(tmp_path / "made")], str(tmp_path / "missing"))
    assert subprocess.run(["bash"], input=script, text=True, check=False, capture_output=True).returncode == 1
    assert not (tmp_path / "made").exists()


def test_no_word_of_a_shell_contains_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        slurm.quote("a\0b")


def test_reasons_and_comments_with_commas_and_blanks_stay_whole() -> None:
    reason = "ReqNodeNotAvail, UnavailableNodes:node3"
    parsed = slurm.parse_squeue(job_line(reason=reason, comment="a, b c", state="PENDING", nodes="") + "\n")
    [job] = parsed.rows
    assert (job.reason, job.comment, job.state.phase, job.nodes) == (reason, "a, b c", JobPhase.PENDING, ())
    assert parsed.malformed == ()


def test_a_malformed_line_is_reported_beside_the_others() -> None:
    parsed = slurm.parse_squeue(
        f"{job_line()}\nslurm: a message\n{job_line(id='18_4', exit='768')}\n{job_line(id='x')}"
    )
    assert [(job.id, job.exit_code, job.nodes) for job in parsed.rows] == [
        ("17", 0, ("node1", "node2")),
        ("18_4", 3, ("node1", "node2")),
    ]
    assert len(parsed.malformed) == 2
    assert parsed.malformed[0] == "slurm: a message"


def test_sacct_lines_end_without_a_separator_and_name_who_cancelled() -> None:
    line = SEPARATOR.join(
        ["5", "n", "", "CANCELLED by 1000", "0:15", "None assigned", "None", "Unknown", "2", "0"]
    )
    [job] = slurm.parse_sacct(line).rows
    assert (job.state, job.exit_code, job.exit_signal, job.nodes) == (JobState.CANCELLED, None, 15, ())
    assert (job.start_s, job.end_s) == (None, 2.0)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", JobPhase.PENDING),
        ("CONFIGURING", JobPhase.PENDING),
        ("SPECIAL_EXIT", JobPhase.PENDING),
        ("RUNNING", JobPhase.RUNNING),
        ("COMPLETING", JobPhase.RUNNING),
        ("SUSPENDED", JobPhase.RUNNING),
        ("COMPLETED", JobPhase.FINAL),
        ("NODE_FAIL", JobPhase.FINAL),
        ("REVOKED", JobPhase.FINAL),
        ("OUT_OF_ME+", JobPhase.UNKNOWN),
        ("MEDITATING", JobPhase.UNKNOWN),
        ("UNKNOWN", JobPhase.UNKNOWN),
    ],
)
def test_states_have_a_phase(state, phase) -> None:
    assert slurm.parse_state(state).phase is phase


@given(ANY_TEXT)
def test_parsers_never_raise_and_lose_no_line(text) -> None:
    for parse in (slurm.parse_squeue, slurm.parse_sacct, slurm.parse_sinfo):
        parsed = parse(text)
        assert len(parsed.rows) + len(parsed.malformed) == sum(
            bool(line.strip(" \r\t")) for line in text.split("\n")
        )
    slurm.parse_job_id(text)
    slurm.parse_exit_code(text)
    slurm.parse_gres(text)
    slurm.parse_limit(text)
    slurm.find_pending_cause(text)
    slurm.describe_failure(["sbatch"], 1, text)
    nodes = slurm.expand_nodes(text)
    assert nodes is None or len(nodes) <= slurm.MOST_NODES


@given(
    st.lists(st.from_regex(r"[a-z]{1,5}(-[a-z]{1,2})?[0-9]{0,4}", fullmatch=True), min_size=1, unique=True)
)
def test_plain_names_expand_to_themselves(names) -> None:
    assert slurm.expand_nodes(",".join(names)) == tuple(names)


@given(st.integers(0, 500), st.integers(0, 300), st.integers(1, 5))
def test_ranges_keep_leading_zeros(first, more, width) -> None:
    numbers = [f"{number:0{width}d}" for number in range(first, first + more + 1)]
    assert slurm.expand_nodes(f"n[{numbers[0]}-{numbers[-1]}]") == tuple(f"n{number}" for number in numbers)


@pytest.mark.parametrize(
    "text", ["n[", "n]", "n[]", "n[3-1]", "n[1-]", "n[a]", "n[1-999999999]", "n[1,]", ",", "a b"]
)
def test_malformed_lists_of_nodes_are_none(text) -> None:
    assert slurm.expand_nodes(text) is None


@given(st.integers(1, 10**8))
def test_time_limits_are_read_as_written(seconds) -> None:
    assert slurm.parse_limit(slurm.format_limit(seconds)) == seconds


def test_partitions_have_nodes_limits_and_resources() -> None:
    columns = [
        "main*",
        "up",
        "2",
        "node[3-4]",
        "4",
        "4000",
        "gpu:a100:2(S:0-1)",
        "slow,x",
        "2-00:00:00",
        "n/a",
        "1-infinite",
        "idle*",
    ]
    parsed = slurm.parse_sinfo(SEPARATOR.join(columns) + "\nweird\n")
    [group] = parsed.rows
    assert (group.partition, group.default, group.available, group.count) == ("main", True, True, 2)
    assert (group.nodes, group.cores, group.memory_per_node_bytes) == (("node3", "node4"), 4, 4000 * 2**20)
    assert (group.gres, group.features, group.limit_s) == ({"gpu": 2}, ("slow", "x"), 172_800.0)
    assert (group.default_limit_s, group.most_nodes, group.state, group.responding) == (
        None,
        math.inf,
        "idle",
        False,
    )
    assert parsed.malformed == ("weird",)


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("17\n", "17"),
        ("17;site\n", "17"),
        ("Welcome\n17\n", "17"),
        ("", None),
        ("Submitted batch job 17", None),
    ],
)
def test_job_numbers(output, number) -> None:
    assert slurm.parse_job_id(output) == number


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("sbatch: error: invalid partition specified: nix", SlurmCause.PARTITION),
        (
            "Batch job submission failed: Invalid account or account/partition combination specified",
            SlurmCause.ACCOUNT,
        ),
        ("Batch job submission failed: Invalid qos specification", SlurmCause.QOS),
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            SlurmCause.QUEUE_FULL,
        ),
        ("Slurm temporarily unable to accept job, sleeping and retrying", SlurmCause.QUEUE_FULL),
        ("Requested time limit is invalid (missing or exceeds some limit)", SlurmCause.TIME_LIMIT),
        ("Requested node configuration is not available", SlurmCause.CONFIGURATION),
        ("Unable to contact slurm controller (connect failure)", SlurmCause.UNREACHABLE),
        ("Socket timed out on send/recv operation", SlurmCause.UNREACHABLE),
        ("Slurm accounting storage is disabled", SlurmCause.NO_ACCOUNTING),
        ("bash: sbatch: command not found", SlurmCause.NOT_INSTALLED),
        ("something else", SlurmCause.OTHER),
    ],
)
def test_causes_of_errors(text, cause) -> None:
    assert slurm.find_error_cause(1, text) is cause


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("PartitionTimeLimit", SlurmCause.TIME_LIMIT),
        ("PartitionNodeLimit", SlurmCause.CONFIGURATION),
        ("QOSMaxJobsPerUserLimit", SlurmCause.QUEUE_FULL),
        ("AssocGrpCpuLimit", SlurmCause.QUEUE_FULL),
        ("QOSMaxCpuPerJobLimit", SlurmCause.CONFIGURATION),
        ("Resources", None),
        ("ReqNodeNotAvail, UnavailableNodes:node3", None),
    ],
)
def test_causes_of_waiting(reason, cause) -> None:
    assert slurm.find_pending_cause(reason) is cause


def test_failures_name_the_command_its_message_and_what_to_do() -> None:
    text = "sbatch: error: invalid partition specified: nix\n"
    problem = slurm.describe_failure(["env", "A=b", "sbatch", "--x"], 1, text)
    assert problem.what == "sbatch: invalid partition specified: nix"
    assert "sinfo" in problem.advice
