"""What is wrong with a job: its command cannot be written, or what it left cannot be read."""

from __future__ import annotations

from weft.errors import Problem, WeftError

__all__ = ["JobProblem"]


class JobProblem(WeftError):
    """An attempt cannot be started as described, or its files say nothing that can be understood."""

    def __init__(self, what: str, *, rule: str = "", advice: str = "") -> None:
        self.problem = Problem(what=what, rule=rule, advice=advice)
        super().__init__(str(self.problem))
