"""A share: nodes of a machine set aside for one service, a machine of its own to planners (S4 section 1)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from weft.platform.machine import Machine

__all__ = ["Share", "split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Some nodes of a machine that serve the tasks of one service and nothing else."""

    machine: str
    service: str
    nodes: int
    name: str | None = None

    @property
    def machine_name(self) -> str:
        """Name the machine that planners see."""
        return self.name if self.name is not None else f"{self.machine}/{self.service}"


def split(machine: Machine, shares: tuple[Share, ...]) -> tuple[Machine, ...]:
    """Cut shares off a machine: what is left of it first (if anything is), then the shares as written.

    Countable resources go with the nodes in proportion; GPUs are not cut, so a share gets the whole ones of
    its part and the machine keeps the others.
    """
    left = machine.nodes - sum(share.nodes for share in shares)
    parts = [_part(machine, share) for share in shares]
    if left <= 0:
        return tuple(parts)
    gpus = machine.gpus - sum(part.gpus for part in parts)
    rest = dataclasses.replace(_scaled(machine, left), nodes=left, gpus=gpus)
    return (rest, *parts)


def _part(machine: Machine, share: Share) -> Machine:
    return dataclasses.replace(
        _scaled(machine, share.nodes),
        name=share.machine_name,
        nodes=share.nodes,
        gpus=machine.gpus * share.nodes // machine.nodes,
        services=(share.service,),
        host=machine.name,
        only_service=share.service,
    )


def _scaled(machine: Machine, nodes: int) -> Machine:
    """Give a machine the part of the countable resources that goes with so many of its nodes."""

    def part(amount: float) -> float:
        return amount * nodes / machine.nodes

    return dataclasses.replace(
        machine,
        memory=None if machine.memory is None else part(machine.memory),
        disk=None if machine.disk is None else part(machine.disk),
        resources={name: part(amount) for name, amount in machine.resources.items()},
    )
