"""The inner loop of HEFT on machines that run one task at a time, as one flat function."""

from __future__ import annotations

from weft.kernels.compilation import kernel
from weft.kernels.placement import Workspace
from weft.kernels.problem import CLASSES, COMPUTE, INFINITY, OPEN, RELATED, Indices, ProblemArrays
from weft.kernels.timelines import append_gap, cut_gap, find_gap, reset_gaps

_NEARLY_ONE = 1.0 - 1e-15
"""Tolerance for rounding: modes are sorted by 1 / rate / gain, but take work / rate / gain seconds."""


@kernel
def place_earliest_finish(problem: ProblemArrays, order: Indices, workspace: Workspace) -> int:
    """Place each task where it finishes first; return a task that fits nowhere, or the number of tasks.

    The schedule is the same as that of ``placement.place_in_order``. This kernel supports only the most
    common case (one count per task, no transfers, no countable amounts, earliest finish) and is ten times
    faster: every array is read into a local variable once, and kernels are called only to search and change
    gaps, because a call that passes named tuples of arrays takes longer than placing a task. Modes are tried
    by ascending seconds; the first mode that would finish too late on an idle machine ends the search. Gaps
    are searched from the time when the task is ready to the time after which it would finish later than in
    the best mode so far.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    timelines, arrivals, schedule = workspace
    number, m, hosts, places = tasks.number, machines.number, machines.hosts, machines.locations
    apart = machines.apart
    kind, variable, earliest = tasks.kind, tasks.variable, tasks.earliest
    pointer, before, size, files, fixed = tasks.pointer, tasks.before, tasks.size, tasks.files, tasks.fixed
    candidate_set, candidate = tasks.candidate_set, tasks.candidate
    candidate_pointer = tasks.candidate_pointer
    layout, groups, mode_pointer = modes.layout, modes.group, modes.first
    on, by_seconds, rate, gain = modes.machine, modes.sorted, modes.rate, modes.gain
    work, row, cell, count = modes.work, modes.row, modes.cell, modes.nodes
    form, location, host_of = machines.form, machines.location, machines.host
    on_host_pointer, on_host = machines.on_host_pointer, machines.on_host
    latency, inverse = machines.latency, machines.inverse
    free_from, gaps, reach = timelines.free_from, timelines.gaps, timelines.gaps.reach
    latest, second, sender, home = arrivals.latest, arrivals.second, arrivals.sender, arrivals.home
    is_home, at_home = arrivals.is_home, arrivals.at_home
    machine_of, start_of, finish_of, bound = schedule.machine, schedule.start, schedule.finish, schedule.bound
    nodes_of, mode_of = schedule.nodes, schedule.mode
    modes_scaled = modes.scaled
    made_gaps = False
    # There are no busy intervals: a machine with a busy interval is SHARED.
    reset_gaps(m, gaps)
    for machine in range(m):
        free_from[machine] = 0.0
    for host in range(hosts):
        is_home[host] = 0
    for turn in range(number):
        task = order[turn]
        mark = turn + 1

        # Compute the arrivals as ``arrivals.gather_data`` does.
        base = earliest[task]
        first_edge = pointer[task]
        end_edge = pointer[task + 1]
        for edge in range(first_edge, end_edge):
            done = finish_of[before[edge]]
            if done > base and size[edge] == 0.0 and files[edge] == 0.0 and fixed[edge] == 0.0:
                base = done
        for place in range(places):
            latest[place] = base
            second[place] = base
            sender[place] = hosts
        homes = 0
        for edge in range(first_edge, end_edge):
            bytes_moved = size[edge]
            number_moved = files[edge]
            seconds_moved = fixed[edge]
            if bytes_moved != 0.0 or number_moved != 0.0 or seconds_moved != 0.0:
                earlier = before[edge]
                done = finish_of[earlier]
                source = machine_of[earlier]
                links = location[source] * places
                if apart != 0:
                    own = location[source]
                    here = latest[own]
                    for place in range(places):
                        there = done + (
                            seconds_moved
                            + number_moved * latency[links + place]
                            + bytes_moved * inverse[links + place]
                        )
                        latest[place] = max(there, latest[place])
                    latest[own] = max(done, here)
                    continue
                host = host_of[source]
                if is_home[host] != mark:
                    is_home[host] = mark
                    at_home[host] = done
                    home[homes] = host
                    homes += 1
                elif done > at_home[host]:
                    at_home[host] = done
                for place in range(places):
                    there = done + (
                        seconds_moved
                        + number_moved * latency[links + place]
                        + bytes_moved * inverse[links + place]
                    )
                    if there > latest[place]:
                        if host != sender[place]:
                            second[place] = latest[place]
                            sender[place] = host
                        latest[place] = there
                    elif there > second[place] and host != sender[place]:
                        second[place] = there

        chosen = m
        chosen_start = INFINITY
        best = INFINITY
        taken = bound[variable[task]]
        if kind[task] != COMPUTE:
            # A virtual task goes where its data arrive first.
            found = candidate_set[variable[task]]
            for position in range(candidate_pointer[found], candidate_pointer[found + 1]):
                machine = candidate[position]
                if taken == m or machine == taken:
                    place = location[machine]
                    host = host_of[machine]
                    ready = latest[place]
                    if is_home[host] == mark:
                        if sender[place] == host:
                            ready = second[place]
                        if at_home[host] > ready:
                            ready = at_home[host]
                    if ready < best or chosen == m:
                        best = ready
                        chosen = machine
            machine_of[task] = chosen
            nodes_of[task] = 0
            start_of[task] = best
            finish_of[task] = best
            bound[variable[task]] = chosen
            continue

        group = groups[task]
        first = 0 + mode_pointer[group]
        end = 0 + mode_pointer[group + 1]
        weight = work[task]
        cells = row[task] - first
        chosen_mode = end

        # Machines that have data, and a bound machine, are evaluated one by one.
        looks = homes
        if taken != m:
            looks = 1
        for index in range(looks):
            host = host_of[taken] if taken != m else home[index]
            for position in range(on_host_pointer[host], on_host_pointer[host + 1]):
                machine = on_host[position]
                if taken != m and machine != taken:
                    continue
                low = first
                high = end
                while low < high:
                    middle = (low + high) // 2
                    if on[middle] < machine:
                        low = middle + 1
                    else:
                        high = middle
                if low == end or on[low] != machine:
                    continue
                if layout == RELATED:
                    spent = weight / rate[low] / gain[low]
                elif layout == CLASSES:
                    spent = rate[low]
                else:
                    spent = cell[cells + low]
                place = location[machine]
                ready = latest[place]
                if is_home[host] == mark:
                    if sender[place] == host:
                        ready = second[place]
                    if at_home[host] > ready:
                        ready = at_home[host]
                possible = ready + spent
                start = ready
                if form[machine] != OPEN and spent != 0.0:
                    start = free_from[machine]
                    if ready > start:
                        start = ready
                    elif reach[machine] >= possible:
                        start = find_gap(gaps, machine, start, ready, spent, best)
                finish = start + spent
                if finish < best or (finish == best < INFINITY and machine < chosen):
                    best = finish
                    chosen = machine
                    chosen_start = start
                    chosen_mode = low
        if taken == m:
            soonest = latest[0]
            for place in range(1, places):
                if latest[place] < soonest:
                    soonest = latest[place]
            # First try to append: the finish found this way ends many searches for a gap early.
            scaled = modes_scaled[group]
            passes = 2 if layout <= CLASSES and made_gaps else 1
            for turn_left in range(passes):
                gaps_too = turn_left + 1 == passes
                for position in range(first, end):
                    mode = by_seconds[position]
                    if layout == RELATED:
                        spent = weight / rate[mode]
                        if scaled != 0:
                            spent /= gain[mode]
                    elif layout == CLASSES:
                        spent = rate[mode]
                    else:
                        spent = cell[cells + mode]
                    machine = on[mode]
                    ready = soonest if places == 1 else latest[location[machine]]
                    possible = ready + spent
                    if possible > best:
                        if layout <= CLASSES and soonest + spent * _NEARLY_ONE > best:
                            break
                        continue
                    start = ready
                    if form[machine] != OPEN and spent != 0.0 and free_from[machine] > ready:
                        start = free_from[machine]
                        if gaps_too and reach[machine] >= possible:
                            start = find_gap(gaps, machine, start, ready, spent, best)
                    finish = start + spent
                    if finish < best or (finish == best < INFINITY and machine < chosen):
                        best = finish
                        chosen = machine
                        chosen_start = start
                        chosen_mode = mode
        if chosen_start == INFINITY:
            return task
        machine_of[task] = chosen
        nodes_of[task] = count[chosen_mode]
        mode_of[task] = chosen_mode
        start_of[task] = chosen_start
        finish_of[task] = best
        bound[variable[task]] = chosen
        if form[chosen] == OPEN or best == chosen_start:
            continue

        free = free_from[chosen]
        if chosen_start < free:
            cut_gap(gaps, chosen, chosen_start, best)
        else:
            if chosen_start > free:
                append_gap(gaps, chosen, free, chosen_start)
                made_gaps = True
            free_from[chosen] = best
    return number
