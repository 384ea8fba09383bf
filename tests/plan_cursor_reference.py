"""Slow reference implementation of plan cursors: it sorts all tasks at every call, without partitions or streams."""

from __future__ import annotations

__all__ = ["ReferenceCursor"]

_MOST_WAITING = 16


class ReferenceCursor:
    """Traverse tasks given by their kind; classes and planned machines are recomputed for each task."""

    def __init__(self, plan, place, seconds, kinds, down, wants=None, *, strict=False):
        """``kinds``: the kind of each task that may be placed; ``down``: machines that are not usable; both
        are live.

        ``wants``: whether a machine and a count suit a task with changed requirements.
        """
        self._plan, self._place_of, self._seconds = plan, place, seconds
        self._kinds, self._down, self._strict = kinds, down, strict
        self._there, self._wants = set(kinds), wants
        self._place = 0
        self._left_out, self._kinds_out, self._waiting = set(), set(), {}
        self._is_free = None

    @property
    def waiting(self):
        return len(self._waiting)

    def gone(self, task):
        """Record that a task was placed; if it becomes available again, it counts as new."""
        self._there.discard(task)

    def head(self):
        return min(self._ahead(), key=self._place_of.__getitem__, default=None)

    def next(self):
        candidates = [task for task in self._ahead() if self._counts(task)]
        return min(candidates, key=self._place_of.__getitem__, default=None)

    def pass_by(self, task):
        self._place = self._place_of[task] + 1

    def let_wait(self, task):
        self.pass_by(task)
        whole = self._class(task)
        self._waiting[whole] = self._waiting.get(whole, 0) + 1
        if self._waiting[whole] == _MOST_WAITING:
            self._left_out.add(whole)

    def leave_out(self, task):
        self.pass_by(task)
        self._waiting.setdefault(self._class(task), 1)
        self._left_out.add(self._class(task))

    def leave_out_kind(self, task):
        self.pass_by(task)
        self._left_out.add(self._class(task))
        self._kinds_out.add(self._kinds[task])

    def hurry(self, is_free):
        self._is_free = is_free

    def _ahead(self):
        return [task for task in self._kinds if task in self._there and self._place_of[task] >= self._place]

    def _class(self, task):
        line = self._plan.planned_tasks.get(task)
        planned = None if line is None else (line.machine, line.count)
        return (self._seconds[task], planned, self._kinds[task])

    def _counts(self, task):
        line, kind = self._plan.planned_tasks.get(task), self._kinds[task]
        if self._class(task) in self._left_out:
            return False
        lost = line is not None and (line.machine in self._down or not self._suits(task, kind, line))
        if self._strict and lost:
            return False
        if self._is_free is None or line is None or lost:
            return kind not in self._kinds_out
        return self._is_free(line.machine)

    def _suits(self, task, kind, line):
        """Return whether a task may use its planned machine: not if it is bound elsewhere or excludes the
        machine.
        """
        wanted = kind[0] >= -1 or self._wants is None or self._wants(task, line.machine, line.count)
        return wanted and kind[1] in (-1, line.machine)
