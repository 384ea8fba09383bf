"""Arrivals: when everything a task needs would be on each machine.

Machines of one location are reached alike, so data are followed to locations, not to machines. Only
machines on a host where some of the data already lie differ from their location; for them the latest
arrival from *another* host counts, which is why every location remembers its latest two, of different
hosts. O(d l) for a task with d predecessors on a platform of l locations.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import Doubles, Indices, MachineArrays, TaskArrays

__all__ = ["Arrivals", "data_ready_s", "gather_data", "reset_arrivals", "send_data"]


class Arrivals(NamedTuple):
    """The arrivals of one task."""

    latest: Doubles
    """Per location: when the last data are there, for machines on hosts without data."""
    second: Doubles
    """The same without the data of the host that sends the latest."""
    sender: Indices
    """Per location: the host that sends the latest; the number of hosts: none."""
    home: Indices
    """Hosts where some of the data lie."""
    is_home: Indices
    """Per host: the last turn in which data lay there."""
    at_home: Doubles
    """Per host: when the data that lie there are there."""
    turn: Indices
    """One number: how often arrivals were gathered, so that nothing needs to be wiped in between."""


@kernel
def reset_arrivals(machines: MachineArrays, arrivals: Arrivals) -> None:
    """Forget all data."""
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
    """Follow the data of all predecessors that have a finish; give the number of hosts where data lie."""
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
                if done == done:  # it is nan as long as nobody has placed it
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
    """Send data that are ready on a machine to every location; give the number of hosts where data lie."""
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
    """Give when all data are on a machine."""
    place = machines.location[machine]
    host = machines.host[machine]
    ready = arrivals.latest[place]
    if arrivals.is_home[host] == arrivals.turn[0]:
        if arrivals.sender[place] == host:
            ready = arrivals.second[place]
        if arrivals.at_home[host] > ready:
            ready = arrivals.at_home[host]
    return ready
