"""Slow reference implementation of the queue of a machine: every time is tried for a reservation."""

from __future__ import annotations

import math

from weft.workflow.task_graph import COMPUTE

__all__ = ["Job", "jobs_of", "queue_by_reference"]


class Job:
    """A task on the machine: seconds, nodes and amounts."""

    def __init__(self, nodes, seconds, amounts=(), before=(), earliest=0.0):
        self.nodes, self.seconds, self.amounts = nodes, seconds, amounts
        self.before, self.earliest = frozenset(before), earliest


def jobs_of(made, counts):
    """Return the tasks of an instance as jobs with these node counts."""
    graph, jobs = made.graph, []
    for task in range(len(graph)):
        nodes, seconds, amounts = 0, 0.0, ()
        if graph.kind[task] == COMPUTE:
            modes = made.modes(task)
            index = modes.count.tolist().index(counts[task])
            nodes, seconds = int(modes.nodes[index]), float(modes.seconds[index])
            amounts = tuple(graph.demand_of(task, int(counts[task])).tolist())
        before = graph.predecessors(task).tolist()
        jobs.append(Job(nodes, seconds, amounts, before, float(made.earliest_start_s[task])))
    return jobs


class Queue:
    """A machine and its reservations: (start, finish, nodes, amounts)."""

    def __init__(self, nodes, totals, held):
        self.nodes, self.totals, self.held = nodes, totals, list(held)

    def fits(self, held, moment, job):
        running = [one for one in held if one[0] <= moment < one[1]]
        if sum(one[2] for one in running) + job.nodes > self.nodes:
            return False
        return all(
            sum(one[3][index] for one in running if one[3]) + amount <= self.totals[index] * (1 + 1e-9)
            for index, amount in enumerate(job.amounts)
            if amount > 0
        )

    def earliest(self, held, now, job):
        """Return the earliest time at which the job fits for its whole duration."""
        for moment in [now, *sorted({one[1] for one in held if one[1] > now})]:
            inside = {one[0] for one in held if moment < one[0] < moment + job.seconds}
            if all(self.fits(held, at, job) for at in {moment} | inside):
                return moment
        return math.inf

    def chosen(self, now, ready, rule):
        """Return the starts of ready jobs in order of submission, without jobs that cannot start yet."""
        starts, reserved = {}, []
        for index, job in ready:
            moment = self.earliest(self.held + reserved, now, job)
            stretch = (moment, moment + job.seconds, job.nodes, job.amounts)
            if moment == now or rule == "conservative":
                starts[index] = moment
                self.held.append(stretch)
            elif rule == "fifo":
                break
            elif rule == "easy" and not reserved:
                reserved.append(stretch)
        return starts


def queue_by_reference(jobs, order, nodes, rule, totals=(), busy=()):
    """Return start and finish of every job; busy intervals are (finish, nodes, amounts)."""
    queue = Queue(nodes, totals, [(0.0, finish, taken, amounts) for finish, taken, amounts in busy])
    rank = {job: place for place, job in enumerate(order)}
    start, finish = {}, {}
    now = 0.0
    while len(finish) < len(jobs):
        # Jobs without nodes or duration start when they are ready; others may become ready at the same time.
        while True:
            ended = {index for index, moment in finish.items() if moment <= now}
            ready = {
                index
                for index, job in enumerate(jobs)
                if index not in start and job.before <= ended and job.earliest <= now
            }
            at_once = {index for index in ready if jobs[index].nodes == 0 or jobs[index].seconds == 0}
            if not at_once:
                break
            for index in at_once:
                start[index] = now
                finish[index] = now + jobs[index].seconds
        listed = [(index, jobs[index]) for index in sorted(ready, key=rank.__getitem__)]
        for index, moment in queue.chosen(now, listed, rule).items():
            start[index] = moment
            finish[index] = moment + jobs[index].seconds
        moments = [*finish.values(), *(one[1] for one in queue.held), *(job.earliest for job in jobs)]
        now = min((moment for moment in moments if moment > now), default=math.inf)
    return [start[index] for index in range(len(jobs))], [finish[index] for index in range(len(jobs))]
