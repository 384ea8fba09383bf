"""Files of ended tasks: the result file, and the lines that define sweeps."""

from __future__ import annotations

import pytest

from backends.attempt.job_examples import compile_flow
from weft.backends.attempt.command import RESULT_FILE
from weft.backends.attempt.substitution import JobProblem
from weft.backends.attempt.task_files import read_result, read_sweep_lines
from weft.workflow.builder import Builder


def test_result_file_with_plain_values_is_read(tmp_path):
    assert read_result(tmp_path) == {}
    (tmp_path / RESULT_FILE).write_text("")
    assert read_result(tmp_path) == {}
    (tmp_path / RESULT_FILE).write_text(
        '{"delta": 1e-5, "n": 3, "ok": true, "text": "a\\u00e9", "none": null}'
    )
    assert read_result(tmp_path) == {"delta": 1e-5, "n": 3, "ok": True, "text": "aé", "none": None}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[1]", "one flat JSON object"),
        ('{"a": {"b": 1}}', "a in the result file"),
        ('{"a": [1]}', "a in the result file"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e999}', "inf"),
        ('{"a": "' + "x" * 70_000 + '"}', "at most 65536 bytes"),
        ("[" * 60_000, "not valid JSON"),
    ],
)
def test_invalid_results_are_refused(text, words, tmp_path):
    (tmp_path / RESULT_FILE).write_text(text)
    with pytest.raises(JobProblem, match=words):
        read_result(tmp_path)


def test_result_file_that_is_an_external_link_is_not_read(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "other").write_text('{"a": 1}')
    (work / RESULT_FILE).symlink_to(tmp_path / "other")
    with pytest.raises(JobProblem, match="leads out"):
        read_result(work)
    (work / RESULT_FILE).unlink()
    (work / RESULT_FILE).mkdir()
    with pytest.raises(JobProblem, match="not a regular file"):
        read_result(work)


def growing(file, outputs):
    flow = Builder("w")
    flow.task("split", work=1, command="s", outputs=outputs)
    flow.task("work", sweep={"part": f"lines({file})"}, after="split", work=1, command="w {part}")
    known = compile_flow(flow)
    return known, known.names.index("split"), known.names.index("work[*]")


@pytest.mark.parametrize(
    ("file", "outputs", "written"),
    [
        ('"parts.txt"', ["parts.txt"], "parts.txt"),
        ("split.parts", ["split.parts"], "split.parts"),
        ("split.parts", ["parts"], "parts"),
        ("split.parts", [], "split.parts"),
    ],
)
def test_lines_of_the_file_that_defines_a_sweep_are_read(file, outputs, written, tmp_path):
    known, split, work = growing(file, outputs)
    with pytest.raises(JobProblem, match="was not written"):
        read_sweep_lines(known, split, str(tmp_path), outputs)
    (tmp_path / written).write_text("a b\r\n\n  c'd\nlast")
    assert read_sweep_lines(known, split, str(tmp_path), outputs) == {file.strip('"'): ("a b", "c'd", "last")}
    assert read_sweep_lines(known, work, str(tmp_path), []) == {}


def test_lines_are_read_only_from_the_task_that_a_sweep_names(tmp_path):
    flow = Builder("w")
    flow.task("split", work=1, command="s", outputs=["l"])
    flow.task("other", work=1, command="o", outputs=["*"])
    flow.task("work", sweep={"part": "lines(split.l)"}, work=1, command="w {part}", outputs=["{part}"])
    known = compile_flow(flow)
    (tmp_path / "split.l").write_text("wrong\n")
    assert read_sweep_lines(known, known.names.index("other"), str(tmp_path), ["split.l"]) == {}
    (tmp_path / "l").write_text("right\n")
    found = read_sweep_lines(known, known.names.index("split"), str(tmp_path), ["l"])
    assert found == {"split.l": ("right",)}


def test_lines_that_make_the_workflow_invalid_are_refused(tmp_path):
    flow = Builder("w")
    flow.task("split", work=1, command="s", inputs=["data"], outputs=["l"])
    flow.task("work", sweep={"part": "lines(split.l)"}, work=1, command="w {part}", outputs=["{part}"])
    known = compile_flow(flow)
    (tmp_path / "l").write_text("data\n")
    with pytest.raises(JobProblem, match="a cycle: "):
        read_sweep_lines(known, known.names.index("split"), str(tmp_path), ["l"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\n\n", "has no lines"),
        (b"a\nb\na\n", "'a' twice"),
        (b"a\0\n", "is not text"),
        (b"\xff\xfe\n", "is not text"),
    ],
)
def test_invalid_lines_are_refused(content, words, tmp_path):
    known, split, _ = growing("split.parts", ["split.parts"])
    (tmp_path / "split.parts").write_bytes(content)
    with pytest.raises(JobProblem, match=words):
        read_sweep_lines(known, split, str(tmp_path), ["split.parts"])
