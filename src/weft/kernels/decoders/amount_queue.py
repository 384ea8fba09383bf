"""The queue of one machine where tasks take amounts beside nodes, or where all of them reserve.

The rules are those of ``weft.kernels.decoders.queueing``, all four of them.
"""

from __future__ import annotations

from weft.kernels.decoders.queueing import (
    CONSERVATIVE,
    EASY,
    FIFO,
    WRONG,
    Desk,
    Jobs,
    Requests,
    insert,
    insert_until,
    remove,
    submit,
)
from weft.kernels.decoders.skylines import Skylines, ask, first_fit, lower
from weft.kernels.forms import kernel
from weft.kernels.types import Doubles, Indices, Integers

__all__ = ["run_amount_queue"]

_INFINITE = float("inf")


@kernel
def run_amount_queue(
    jobs: Jobs,
    rule: int,
    requests: Requests,
    line: Skylines,
    desk: Desk,
    makespan: Doubles,
    node_seconds: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Run all individuals; give the first that asks for what does not exist, or their number.

    ``line`` is one skyline, for CONSERVATIVE: what will be free beside all starts given so far.
    """
    for individual in range(requests.number):
        used = submit(jobs, requests, individual, desk)
        if used == WRONG:
            return individual
        row = individual * requests.kept * jobs.number
        makespan[individual] = _serve(jobs, rule, line, desk, row, start, finish)
        node_seconds[individual] = used
    return requests.number


@kernel
def _serve(
    jobs: Jobs, rule: int, line: Skylines, desk: Desk, row: int, start: Doubles, finish: Doubles
) -> float:
    """Run one individual; give its makespan."""
    tasks, resources = jobs.tasks, jobs.resources
    for resource in range(resources):
        desk.left[resource] = jobs.total[resource]
        line.left[resource] = jobs.total[resource]
    free = jobs.capacity
    line.first[0] = 0
    line.last[0] = 0
    line.time[0] = 0.0
    line.nodes[0] = free
    ready = 0
    ready_end = 0
    running = 0
    running_end = 1
    last = 0.0
    while running < running_end:
        now = desk.until[running]
        while running < running_end and desk.until[running] == now:
            job = desk.running[running]
            running += 1
            if job < tasks:
                last = now
            free += desk.nodes[job]
            if resources > 0 and desk.nodes[job] > 0:
                _give(desk.left, jobs.amount, desk.need[job], resources)
            for position in range(jobs.after_pointer[job], jobs.after_pointer[job + 1]):
                after = jobs.after[position]
                desk.missing[after] -= 1
                if desk.missing[after] == 0 and desk.nodes[after] > 0:
                    insert(desk.ready, ready, ready_end, desk.rank[after])
                    ready_end += 1
                elif desk.missing[after] == 0:
                    end = now + desk.spent[after]
                    start[row + after] = now
                    finish[row + after] = end
                    insert_until(desk.running, desk.until, running, running_end, after, end)
                    running_end += 1
        blocked = False
        shadow = _INFINITE
        extra = 0
        index = ready
        while index < ready_end and (free > 0 or rule == CONSERVATIVE):
            job = desk.job[desk.ready[index]]
            nodes = desk.nodes[job]
            spent = desk.spent[job]
            begin = now
            fits = nodes <= free
            if resources > 0:
                ask(resources, jobs.amount, desk.need[job], jobs.slack, 0, desk.taken, desk.least)
                fits = fits and _covers(desk.left, desk.least, resources)
            if rule == CONSERVATIVE:
                begin = first_fit(line, 0, now, spent, nodes, desk.least)
                lower(line, 0, begin, begin + spent, nodes, desk.taken)
                fits = True
            end = begin + spent
            if fits and end > shadow:
                # It would still run when the reserved job is to start: only beside it.
                fits = nodes <= extra and _covers(desk.extra, desk.least, resources)
                if fits:
                    extra -= nodes
                    _take(desk.extra, desk.taken, resources)
            if fits:
                free -= nodes
                _take(desk.left, desk.taken, resources)
                start[row + job] = begin
                finish[row + job] = end
                insert_until(desk.running, desk.until, running, running_end, job, end)
                running_end += 1
                remove(desk.ready, ready, index)
                ready += 1
            elif rule == FIFO:
                break
            elif rule == EASY and not blocked:
                blocked = True
                for resource in range(resources):
                    desk.extra[resource] = desk.left[resource]
                shadow, extra = _reserve(
                    desk.running,
                    desk.until,
                    desk.nodes,
                    desk.need,
                    jobs.amount,
                    desk.extra,
                    desk.least,
                    running,
                    running_end,
                    free,
                    nodes,
                    resources,
                )
                _take(desk.extra, desk.taken, resources)
            index += 1
    return last


@kernel
def _reserve(
    running: Indices,
    until: Doubles,
    nodes: Integers,
    need: Integers,
    amount: Doubles,
    extra: Doubles,
    least: Doubles,
    begin: int,
    end: int,
    free: int,
    wanted: int,
    resources: int,
) -> tuple[float, int]:
    """Give when a job can start at the earliest, as running jobs end, and how many nodes are then left.

    Amounts that are free then, without the job's own, are added to ``extra``.
    """
    shadow = _INFINITE
    found = False
    position = begin
    # Until it fits, and on to the end of that moment: what ends together is free together.
    while position < end and (not found or until[position] == shadow):
        job = running[position]
        if nodes[job] > 0:
            free += nodes[job]
            _give(extra, amount, need[job], resources)
        if not found and free >= wanted and _covers(extra, least, resources):
            found = True
            shadow = until[position]
        position += 1
    return shadow, free - wanted


@kernel
def _covers(left: Doubles, least: Doubles, resources: int) -> bool:
    covers = True
    for resource in range(resources):
        covers = covers and left[resource] >= least[resource]
    return covers


@kernel
def _take(left: Doubles, taken: Doubles, resources: int) -> None:
    for resource in range(resources):
        left[resource] -= taken[resource]


@kernel
def _give(left: Doubles, amount: Doubles, need: int, resources: int) -> None:
    for resource in range(resources):
        left[resource] += amount[need * resources + resource]
