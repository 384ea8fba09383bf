"""The progress line is shown on a terminal, erased afterwards, and names the kernel being compiled."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from weft.cli import terminal as progress
from weft.cli.terminal import stage
from weft.kernels import compilation
from weft.planners.planner import PlanProgress

CLEAR = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))
    return shown


@compilation.kernel
def double_it(value):
    return 2 * value


class NotCompiled:
    """Stands for a compiled kernel, and calls the plain function."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)

    def compile(self, types):
        assert types


@pytest.fixture
def uncompiled(monkeypatch):
    """Report every kernel as not compiled, and make compiling do nothing."""
    monkeypatch.setenv("WEFT_KERNELS", "compiled")
    monkeypatch.setattr(compilation, "_needs_compilation", lambda function: True)
    monkeypatch.setattr(compilation, "compile_kernel", NotCompiled)


def test_progress_line_is_shown_and_erased(terminal):
    with stage("planning"):
        assert terminal.getvalue() == f"{CLEAR}planning …"
    assert terminal.getvalue() == f"{CLEAR}planning …{CLEAR}"


def test_progress_line_is_erased_after_an_error(terminal):
    with pytest.raises(ValueError, match="wrong"), stage("planning"):
        raise ValueError("wrong")
    assert terminal.getvalue().endswith(CLEAR)


def test_no_progress_is_shown_on_a_dumb_terminal(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with stage("planning"):
        assert terminal.getvalue() == ""


def test_no_progress_is_shown_if_the_output_is_not_a_terminal(monkeypatch, uncompiled):
    shown = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))
    with stage("planning"):
        assert compilation.run_kernel(double_it, (3,), (), work_s=1.0) == 6
    assert shown.getvalue() == ""


def test_progress_line_names_the_kernel_that_is_being_compiled(terminal, uncompiled):
    with stage("planning 3 tasks"):
        assert compilation.run_kernel(double_it, (3,), (), work_s=1.0) == 6
    reported = f"{CLEAR}planning 3 tasks: compiling double_it for this processor (once) …"
    assert terminal.getvalue() == f"{CLEAR}planning 3 tasks …{reported}{CLEAR}planning 3 tasks …{CLEAR}"


def test_progress_callbacks_are_removed_after_the_stage(terminal, uncompiled):
    with stage("planning"):
        pass
    compilation.run_kernel(double_it, (3,), (), work_s=1.0)
    assert "compiling" not in terminal.getvalue()


def test_a_long_progress_text_is_cut_to_one_line(terminal, uncompiled):
    with stage("x" * 500):
        compilation.run_kernel(double_it, (3,), (), work_s=1.0)
    lines = terminal.getvalue().split(CLEAR)
    assert max(len(line) for line in lines) <= 102
    assert "compiling double_it" in lines[2]


def news(**values):
    return PlanProgress(
        **{"by": "weave", "value": 1.0, "makespan_s": 150.0, "bound_s": 120.0, "steps": 9, **values}
    )


def test_a_search_reports_plan_bound_gap_and_planner(terminal):
    with stage("planning") as line:
        line.on_progress(news())
    reported = f"{CLEAR}planning: 2m 30s by weave, bound 2m 0s, gap 25.0% …"
    assert terminal.getvalue() == f"{CLEAR}planning …{reported}{CLEAR}"


def test_progress_of_a_search_without_a_bound_shows_no_gap(terminal):
    with stage("planning") as line:
        line.on_progress(news(bound_s=0.0))
    assert "planning: 2m 30s by weave …" in terminal.getvalue()


def test_progress_updates_in_quick_succession_are_skipped(terminal):
    with stage("planning") as line:
        for _ in range(1000):
            line.on_progress(news())
    assert terminal.getvalue().count("by weave") < 20


def test_no_progress_callback_is_set_if_the_output_is_not_a_terminal(monkeypatch):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=io.StringIO()))
    with stage("planning") as line:
        assert line.on_progress is None
