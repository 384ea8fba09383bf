"""The checker refuses a forged history for every rule, and accepts the true one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.checker import RULES, History, check_history
from chaos.claims import ClaimedAttempt, ClaimedEnd, ClaimedProduct, ClaimedRun, Claims
from chaos.evidence import Evidence
from chaos.program import digest

_FIRST, _LAST, _SEED = (digest(text) for text in (b"first", b"last", b"seed"))
Records = list[dict[str, Any]]


def _program(task: str, number: int, *, inputs: dict[str, str], outputs: dict[str, str]) -> Records:
    stated = {
        "task": task, "iteration": 1, "execution": "1", "identity": f"{number}-{number:x}f", "pid": 100 + number,
        "group": 200 + number, "boot": "b", "at": 0.0, "started_s": 1.0,
    }  # fmt: skip
    return [
        {"what": "begin", **stated, "alone": True, "inputs": inputs},
        {"what": "end", **stated, "code": 0, "outputs": outputs},
    ]


def _attempt(number: int, entry: int) -> ClaimedAttempt:
    end = ClaimedEnd(entry=entry + 1, exit_code=0, cause="", taken_over=None, story="")
    return ClaimedAttempt(1, number, 0, number, nonce=f"{number:x}fffff", started=entry, ends=[end])


def _product(number: int, name: str, files: dict[str, str]) -> ClaimedProduct:
    return ClaimedProduct(number + 1, 1, 0, number, name, "flow", number, 1, f"box/{number}", 0, files)


class Forge:
    """A true history of two tasks in sequence, to be changed by a test."""

    def __init__(self, project: Path) -> None:
        self.project = project
        for place, name, text in (("box/0", "first.txt", b"first"), ("box/1", "last.txt", b"last")):
            (project / place).mkdir(parents=True)
            (project / place / name).write_bytes(text)
        (project / "last.txt").write_bytes(b"last")
        (project / "seed.txt").write_bytes(b"seed")
        self.given: Records = [{"what": "given", "name": "seed.txt", "digest": _SEED}]
        self.first = _program("first", 0, inputs={"seed.txt": _SEED}, outputs={"first.txt": _FIRST})
        self.last = _program("last", 1, inputs={"first.txt": _FIRST}, outputs={"last.txt": _LAST})
        self.attempts = [_attempt(0, 0), _attempt(1, 1)]
        self.attempts[1].published = True
        self.claims = Claims(
            products=[_product(0, "first", {"first.txt": _FIRST}), _product(1, "last", {"last.txt": _LAST})],
            runs=[ClaimedRun(1, 0, "flow", "completed")],
            executions={1: "completed"},
            settled={(1, 0, 0): "COMPLETED", (1, 0, 1): "COMPLETED"},
            descriptions={
                (1, "first"): {"inputs": ["seed.txt"], "outputs": ["first.txt"]},
                (1, "last"): {"inputs": ["first.txt"], "outputs": ["last.txt"]},
            },
        )
        self.records: Records | None = None

    def found(self) -> list[str]:
        self.claims.attempts = {(1, each.number): each for each in self.attempts}
        records = self.records or [*self.given, *self.first, *self.last]
        return check_history(History(self.project, self.claims, Evidence(records)))

    @property
    def end(self) -> ClaimedEnd:
        return self.attempts[1].ends[0]

    def fail(self, cause: str) -> None:
        """Claim that the last task failed, and was not tried again."""
        self.end.cause, self.end.exit_code = cause, None
        self.claims.products.pop()
        self.last.pop()
        self.attempts[1].published = False


def _restart(forge: Forge) -> None:
    """Let the program of an unknown attempt end after the loss, beside a new one."""
    lost = _program("other", 7, inputs={}, outputs={})
    loss = {"what": "loss", "kind": "restored"}
    forge.records = [*forge.given, *forge.first, lost[0], loss, forge.last[0], lost[1], forge.last[1]]


def _reuse(forge: Forge) -> None:
    """Claim that the first task was reused, although the user has changed its input since."""
    forge.attempts[0].ends[0].taken_over = 1
    forge.records = [*forge.given, *forge.first, *forge.last, {**forge.given[0], "digest": _LAST}]


_FORGERIES: dict[str, Callable[[Forge], object]] = {
    "programs_run_alone": lambda forge: forge.last[0].update(alone=False),
    "attempts_begin_once": lambda forge: setattr(forge, "last", [*forge.last, {**forge.last[0], "pid": 9}]),
    "programs_are_in_the_journal": lambda forge: forge.last.extend(
        _program("other", 7, inputs={}, outputs={})
    ),
    "lost_programs_end_first": _restart,
    "completions_have_evidence": lambda forge: forge.last.pop(),
    "attempts_end_once": lambda forge: forge.attempts[1].ends.append(forge.end),
    "tasks_are_complete": lambda forge: forge.claims.settled.update({(1, 0, 1): "READY"}),
    "causes_are_true": lambda forge: forge.fail("preempted"),
    "inputs_are_current": lambda forge: forge.last[0].update(inputs={"first.txt": _SEED}),
    "products_have_the_witnessed_content": lambda forge: forge.last[1].update(outputs={"last.txt": _SEED}),
    "given_files_are_unchanged": lambda forge: (forge.project / "seed.txt").write_bytes(b"changed"),
    "reuse_is_current": _reuse,
    "dependents_begin_later": lambda forge: setattr(forge.attempts[1], "started", 0),
    "published_files_are_results": lambda forge: (forge.project / "last.txt").write_bytes(b"first"),
}


def test_checker_accepts_a_true_history(tmp_path: Path) -> None:
    assert Forge(tmp_path).found() == []


def test_every_rule_of_the_checker_is_tested_with_a_forged_history() -> None:
    assert set(_FORGERIES) == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize("rule", sorted(_FORGERIES))
def test_checker_refuses_a_forged_history(tmp_path: Path, rule: str) -> None:
    forge = Forge(tmp_path)
    _FORGERIES[rule](forge)
    assert rule in {text.partition(":")[0] for text in forge.found()}, forge.found()


def _exit_with_another_code(forge: Forge) -> None:
    forge.last[1]["code"] = 3


def _answer_for_another_task(forge: Forge) -> None:
    """The record of an old attempt with the same number is used for another task."""
    for record in forge.last:
        record["task"] = "other"


def _answer_with_an_old_nonce(forge: Forge) -> None:
    for record in forge.last:
        record["identity"] = "1-abc"


def _lose_a_file(forge: Forge) -> None:
    (forge.project / "box/1/last.txt").unlink()


def _change_a_file(forge: Forge) -> None:
    (forge.project / "box/1/last.txt").write_bytes(b"changed")


def _read_an_older_file(forge: Forge) -> None:
    forge.given = [*forge.given, {**forge.given[0], "digest": _LAST}]


def _begin_before_the_producer(forge: Forge) -> None:
    forge.records = [*forge.given, *forge.last, *forge.first]


def _use_a_nonce_again(forge: Forge) -> None:
    """After a loss, the identity of a lost attempt is used for another task."""
    lost = [{**record, "task": "other"} for record in forge.last]
    forge.records = [*forge.given, *forge.first, *lost, {"what": "loss", "kind": "restored"}, *forge.last]


def _never_publish(forge: Forge) -> None:
    (forge.project / "last.txt").unlink()


_MORE: tuple[tuple[Callable[[Forge], object], str], ...] = (
    (_exit_with_another_code, "no program did"),
    (_answer_for_another_task, "its program was other#1"),
    (_answer_with_an_old_nonce, "no program did"),
    (_lose_a_file, "does not exist"),
    (_change_a_file, "another content than claimed"),
    (_read_an_older_file, "older content of the user's file"),
    (_begin_before_the_producer, "no program had written it"),
    (_use_a_nonce_again, "began twice: other#1, last#1"),
    (_never_publish, "was published and does not exist"),
)


@pytest.mark.parametrize(("change", "reason"), _MORE)
def test_checker_states_the_reason_for_refusing_a_forged_history(
    tmp_path: Path, change: Callable[[Forge], object], reason: str
) -> None:
    forge = Forge(tmp_path)
    change(forge)
    assert any(reason in text for text in forge.found()), forge.found()


@pytest.mark.parametrize(
    ("cause", "fault"),
    [
        ("preempted", {"kind": "task killed", "group": 201}),
        ("lost", {"kind": "runner killed"}),
        ("staging", {"kind": "full disk"}),
        ("error", {"kind": "failing calls"}),
    ],
)
def test_failure_cause_is_accepted_only_with_the_matching_fault(
    tmp_path: Path, cause: str, fault: dict[str, Any]
) -> None:
    forge = Forge(tmp_path)
    forge.fail(cause)
    assert [text for text in forge.found() if text.startswith("causes_are_true")]
    forge.last.append({"what": "fault", **fault})
    assert forge.found() == []


def test_kill_of_another_program_is_not_accepted_as_the_cause_of_a_preemption(tmp_path: Path) -> None:
    forge = Forge(tmp_path)
    forge.fail("preempted")
    forge.last.append({"what": "fault", "kind": "task killed", "group": 200})
    assert any("did not kill its program" in text for text in forge.found())


def test_checker_accepts_that_programs_before_a_power_cut_are_missing_in_the_journal(tmp_path: Path) -> None:
    forge = Forge(tmp_path)
    lost = _program("other", 7, inputs={}, outputs={})
    forge.records = [*forge.given, *lost, {"what": "loss", "kind": "power cut"}, *forge.first, *forge.last]
    assert forge.found() == []
