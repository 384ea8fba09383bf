"""Files of running programs: valid content is parsed, anything else is reported and ignored."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.attempt.job_examples import with_task
from weft.backends.attempt.substitution import JobProblem
from weft.backends.attempt.task_files import Observation, ReportedProgress, TaskFiles, parse_progress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.4", ReportedProgress(done=0.4)),
        ("1", ReportedProgress(done=1.0)),
        (".5\n", ReportedProgress(done=0.5)),
        ("40%\n", ReportedProgress(done=0.4)),
        (f"{1 / 12}\n", ReportedProgress(done=1 / 12)),
        (f"{1 / 1200}\n", ReportedProgress(done=1 / 1200)),
        (f"{1 / 12_000_000}\n", ReportedProgress(done=1 / 12_000_000)),
        (f"{1 / 12:.40f}", ReportedProgress(done=1 / 12)),
        (f".{'3' * 20}", ReportedProgress(done=1 / 3)),
        (f"{100 / 3}%", ReportedProgress(done=100 / 3 / 100)),
        (f"{1 / 3}/1", ReportedProgress(done=1 / 3)),
        ("12.5 %", ReportedProgress(done=0.125)),
        ("3/10\n", ReportedProgress(done=0.3, iterations=3, all_iterations=10)),
        ("0.1\n0.2\n0.3", ReportedProgress(done=0.2)),
        ("0.1\r\n0.2\r\n", ReportedProgress(done=0.2)),
        ("0.1\n\n", ReportedProgress(done=0.1)),
        ('{"done": 0.5, "last_iteration_s": 2}\n', ReportedProgress(done=0.5, last_iteration_s=2.0)),
        (
            '{"iterations": 5, "all_iterations": 20, "more": "x"}',
            ReportedProgress(done=0.25, iterations=5, all_iterations=20),
        ),
        ("", None),
        ("\n \n", None),
    ],
)
def test_progress_file_formats_are_parsed(text, expected):
    assert parse_progress(text) == expected


@pytest.mark.parametrize(
    "text",
    ["3", "-1", "140%", "11/10", "1/0", "nan", "inf", "done", "{", "{1}", "[1]\n", '{"done": 2}', '{"done": NaN}', '{"done": true}',
     '{"iterations": "5"}', '{"iterations": 1e400}', "1e99", "9" * 5000, '{"a":' * 9000, "__import__('os').system('true')"],
)  # fmt: skip
def test_invalid_progress_is_reported(text):
    with pytest.raises(JobProblem, match="cannot be parsed"):
        parse_progress(text)


@given(st.text(max_size=60) | st.text(alphabet='0123456789.%/eE+-{}":,\n done', max_size=30))
def test_any_progress_text_is_read_as_a_share_from_0_to_1_or_reported_as_a_problem(text):
    try:
        found = parse_progress(text)
    except JobProblem:
        return
    assert found is None or found.done is None or 0 <= found.done <= 1


def test_changed_files_of_a_task_are_reported_once_and_the_last_progress_is_kept(tmp_path):
    news = TaskFiles(tmp_path, "progress")
    assert news.observe() == Observation()
    (tmp_path / "progress").write_text("3/10\n")
    (tmp_path / "gw_reqs").write_text('SIZE_MEM_MB > 512 & ARCH = "i?86";\n')
    (tmp_path / "gw_rank").write_text("2 * CPU_MHZ")
    (tmp_path / "gw_perf").write_text("8.5 s\n")
    seen = news.observe()
    assert (seen.done, seen.iterations, seen.all_iterations) == (0.3, 3, 10)
    assert seen.requirements == 'default(memory, 0) / MB > 512 and matches(arch, "i?86")'
    assert seen.rank == "2 * default(CPU_MHZ, 0)"
    assert (seen.degraded, seen.mandatory, seen.problems) == ("8.5 s", True, ())
    assert news.observe() == Observation(done=0.3, iterations=3, all_iterations=10)
    (tmp_path / "gw_reqs").write_text("# optional\nmemory >= 512*MB and speed > 2\n")
    seen = news.observe()
    assert (seen.requirements, seen.mandatory, seen.rank) == ("memory >= 512 * MB and speed > 2", False, None)
    (tmp_path / "gw_reqs").write_text(" ;\n")
    assert news.observe().requirements == ""


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('touch canary')", "$(touch canary)", "memory >=", "ARCH = 5 6", "a" * 70_000, "((((", "lambda: 1",
     "exec('x')", '"; touch canary; "'],
)  # fmt: skip
def test_requirement_file_that_contains_code_is_reported_and_ignored(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gw_reqs").write_text(text)
    (tmp_path / "gw_rank").write_text(text)
    seen = TaskFiles(tmp_path, "progress").observe()
    assert (seen.requirements, seen.rank) == (None, None)
    assert len(seen.problems) == 2
    assert all(len(problem) < 400 and "gw_r" in problem for problem in seen.problems)
    assert not (tmp_path / "canary").exists()


def test_only_regular_files_inside_the_directory_are_read(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("0.9")
    (work / "progress").symlink_to(tmp_path / "secret")
    os.mkfifo(work / "gw_reqs")
    (work / "gw_rank").mkdir()
    (work / "gw_perf").symlink_to("/dev/zero")
    seen = TaskFiles(work, "progress").observe()
    assert (seen.done, seen.requirements, seen.rank, seen.degraded) == (None, None, None, None)
    with_parent = TaskFiles(work, "../secret", ["../secret"]).observe()
    assert (with_parent.done, with_parent.restart_changed) == (None, False)


def test_end_of_a_long_progress_file_is_read(tmp_path):
    (tmp_path / "progress").write_text("0.1\n" * 100_000 + "0.75\n")
    assert TaskFiles(tmp_path, "progress").observe().done == 0.75


def test_restart_files_of_a_wildcard_are_reported_when_they_change(tmp_path):
    files = TaskFiles(tmp_path, "progress", ["state.*"])
    assert not files.observe().restart_changed
    (tmp_path / "state.1").write_text("a")
    assert files.observe().restart_changed
    assert not files.observe().restart_changed
    (tmp_path / "state.2").write_text("b")
    assert files.observe().restart_changed
    (tmp_path / "state.1").unlink()
    assert files.observe().restart_changed
    assert not files.observe().restart_changed


def test_restart_files_are_reported_when_complete(tmp_path):
    for name in ("r1", "r2"):
        (tmp_path / name).write_text("old")
    restored = TaskFiles(tmp_path, "progress", ["r1", "r2"], from_now=True)
    found_again = TaskFiles(tmp_path, "progress", ["r1", "r2"])
    assert not restored.observe().restart_changed
    assert found_again.observe().restart_changed
    assert not found_again.observe().restart_changed
    (tmp_path / "r2").write_text("newer")
    assert restored.observe().restart_changed
    assert not restored.observe().restart_changed
    (tmp_path / "r1").unlink()
    assert not restored.observe().restart_changed
    (tmp_path / "r1").write_text("x")
    assert restored.observe().restart_changed


def test_names_of_progress_and_restart_files_may_have_fields(tmp_path):
    known = with_task(sweep={"k": [3]}, command="x", progress="p.{k}.{task}", checkpoint={"files": ["r.{k}"]})
    news = TaskFiles.of(known, 0, tmp_path)
    (tmp_path / "p.3.job[3]").write_text("50%")
    (tmp_path / "r.3").write_text("x")
    seen = news.observe()
    assert (seen.done, seen.restart_changed, news.restart_files) == (0.5, True, ("r.3",))
