"""Arrival times of the input data of one task on every machine."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import Doubles, Indices, MachineArrays, TaskArrays


class Arrivals(NamedTuple):
    """Times at which the input data of one task arrive at each location and host.

    All machines of a location receive data at the same time, so arrivals are computed per location. The
    exceptions are machines on a host that already has some of the data: for them only arrivals from *other*
    hosts matter. Every location therefore stores its two latest arrivals, which come from different hosts.
    The computation takes O(d l) for a task with d predecessors on a platform of l locations.
    """

    latest: Doubles
    """Per location: time of the last arrival on machines whose host has none of the data."""
    second: Doubles
    """Per location: time of the last arrival among those from hosts other than ``sender``."""
    sender: Indices
    """Per location: the host whose data arrive last; the number of hosts if there is none."""
    home: Indices
    """Hosts that have some of the data."""
    is_home: Indices
    """Per host: the value of ``turn`` in the last call of ``gather_data`` in which the host had data."""
    at_home: Doubles
    """Per host: time when the data that are produced on it are complete."""
    turn: Indices
    """One element: the number of calls of ``gather_data``. Entries of ``is_home`` with another number are
    stale.
    """


@kernel
def reset_arrivals(machines: MachineArrays, arrivals: Arrivals) -> None:
    """Invalidate the arrivals of all earlier calls."""
    arrivals.turn[0] = 0
    for host in range(machines.hosts):
        arrivals.is_home[host] = 0


@kernel
def gather_data(
    tasks: TaskArrays,
    machines: MachineArrays,
    arrivals: Arrivals,
    task: int,
    machine: Indices,
    finish: Doubles,
) -> int:
    """Compute when the data of placed predecessors arrive; return the number of hosts that have data."""
    arrivals.turn[0] += 1
    base = tasks.earliest[task]
    first = tasks.pointer[task]
    end = tasks.pointer[task + 1]
    moving = 0
    for edge in range(first, end):
        if tasks.size[edge] != 0.0 or tasks.files[edge] != 0.0 or tasks.fixed[edge] != 0.0:
            moving += 1
        elif finish[tasks.before[edge]] > base:
            base = finish[tasks.before[edge]]
    for place in range(machines.locations):
        arrivals.latest[place] = base
        arrivals.second[place] = base
        arrivals.sender[place] = machines.hosts
    homes = 0
    if moving > 0:
        for edge in range(first, end):
            size = tasks.size[edge]
            files = tasks.files[edge]
            fixed = tasks.fixed[edge]
            if size != 0.0 or files != 0.0 or fixed != 0.0:
                before = tasks.before[edge]
                done = finish[before]
                if done == done:  # nan: not placed yet
                    homes = send_data(machines, arrivals, homes, machine[before], done, size, files, fixed)
    return homes


@kernel
def send_data(
    machines: MachineArrays,
    arrivals: Arrivals,
    homes: int,
    source: int,
    done: float,
    size: float,
    files: float,
    fixed: float,
) -> int:
    """Add data that are complete on machine ``source`` at ``done``; return the number of hosts with data."""
    host = machines.host[source]
    if arrivals.is_home[host] != arrivals.turn[0]:
        arrivals.is_home[host] = arrivals.turn[0]
        arrivals.at_home[host] = done
        arrivals.home[homes] = host
        homes += 1
    elif done > arrivals.at_home[host]:
        arrivals.at_home[host] = done
    links = machines.location[source] * machines.locations
    for place in range(machines.locations):
        there = done + (
            fixed + files * machines.latency[links + place] + size * machines.inverse[links + place]
        )
        if there > arrivals.latest[place]:
            if host != arrivals.sender[place]:
                arrivals.second[place] = arrivals.latest[place]
                arrivals.sender[place] = host
            arrivals.latest[place] = there
        elif there > arrivals.second[place] and host != arrivals.sender[place]:
            arrivals.second[place] = there
    return homes


@kernel
def data_ready_s(machines: MachineArrays, arrivals: Arrivals, machine: int) -> float:
    """Return the time when all input data of the task are on a machine."""
    place = machines.location[machine]
    host = machines.host[machine]
    ready = arrivals.latest[place]
    if arrivals.is_home[host] == arrivals.turn[0]:
        if arrivals.sender[place] == host:
            ready = arrivals.second[place]
        if arrivals.at_home[host] > ready:
            ready = arrivals.at_home[host]
    return ready
