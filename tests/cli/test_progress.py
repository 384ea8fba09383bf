"""The progress line: shown on a terminal, taken back afterwards, and it tells what is being compiled."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from weft.cli import progress
from weft.cli.progress import stage
from weft.kernels import forms

CLEAR = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))
    return shown


@forms.kernel
def double_it(value):
    return 2 * value


@pytest.fixture
def cold(monkeypatch):
    """Let every kernel be one that was never compiled; compiling it changes nothing."""
    monkeypatch.setenv("WEFT_KERNELS", "compiled")
    monkeypatch.setattr(forms, "is_cold", lambda function: True)
    monkeypatch.setattr(forms, "compiled", lambda function: function)


def test_the_line_is_shown_and_taken_back(terminal):
    with stage("planning"):
        assert terminal.getvalue() == f"{CLEAR}planning …"
    assert terminal.getvalue() == f"{CLEAR}planning …{CLEAR}"


def test_the_line_is_taken_back_after_an_error(terminal):
    with pytest.raises(ValueError, match="wrong"), stage("planning"):
        raise ValueError("wrong")
    assert terminal.getvalue().endswith(CLEAR)


def test_nothing_is_shown_where_nobody_looks(monkeypatch, cold):
    shown = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))
    with stage("planning"):
        assert forms.run(double_it, (3,), (), work_s=1.0) == 6
    assert shown.getvalue() == ""


def test_a_kernel_that_must_be_compiled_is_named(terminal, cold):
    with stage("planning 3 tasks"):
        assert forms.run(double_it, (3,), (), work_s=1.0) == 6
    told = f"{CLEAR}planning 3 tasks: compiling double_it for this processor (once) …"
    assert terminal.getvalue() == f"{CLEAR}planning 3 tasks …{told}{CLEAR}"


def test_after_the_stage_nobody_is_told(terminal, cold):
    with stage("planning"):
        pass
    forms.run(double_it, (3,), (), work_s=1.0)
    assert "compiling" not in terminal.getvalue()


def test_a_long_line_stays_on_one_line(terminal, cold):
    with stage("x" * 500):
        forms.run(double_it, (3,), (), work_s=1.0)
    lines = terminal.getvalue().split(CLEAR)
    assert max(len(line) for line in lines) <= 102
    assert "compiling double_it" in lines[2]
