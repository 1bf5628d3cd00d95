"""Groups of alike nodes, and what one node has differently."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change, Except
from rackwright.model.units import Bytes, Day, Label

MOST_NODES: Final = 4096
"""Per group; four times what the design aims at. A larger number is a typing error that would only cost time to expand."""


class Role(StrEnum):
    """What a node does. The order is that of the hand-over."""

    LOGIN = "login"
    CONTROLLER = "controller"
    ACCOUNTING = "accounting"
    WORKER = "worker"
    STORAGE = "storage"


class State(StrEnum):
    """Whether a node takes part; `out` leaves it out of phases and checks."""

    IN = "in"
    OUT = "out"


class Gpus(Part):
    """The GPUs of each node of a group."""

    model: Annotated[Label, Change.RESTART] = Field(description="A row of the GPU catalogue, like h100.")
    count: Annotated[int, Change.RESTART, Except(lab=Change.REPLACE)] = Field(ge=0, description="GPUs per node.")


class NodeGpus(Part):
    """What one node has differently from its group."""

    model: Annotated[Label | None, Change.RESTART] = Field(default=None, description="Another model than the group's.")
    count: Annotated[int | None, Change.RESTART, Except(lab=Change.REPLACE)] = Field(
        default=None, ge=0, description="Another count than the group's; 0 means none."
    )


class Group(Part):
    """Alike nodes, named `<group><index>` from 0."""

    count: Annotated[int, Change.MEMBERS] = Field(ge=0, le=MOST_NODES, description="How many nodes.")
    roles: Annotated[tuple[Role, ...], Change.MEMBERS] = Field(
        default=(), description="What they do; the group's own name where that is a role."
    )
    cpus: Annotated[int | None, Change.RESTART] = Field(default=None, ge=1, description="Logical CPUs per node.")
    memory: Annotated[Bytes | None, Change.RESTART] = Field(default=None, description="Memory per node, like 2GiB.")
    gpus: Annotated[Gpus | None, Change.RESTART, Except(lab=Change.REPLACE)] = Field(default=None, description="GPUs per node.")
    capacity: Annotated[int | None, Change.RENUMBER, Except(hosts=Change.RUN)] = Field(
        default=None,
        ge=1,
        le=65536,
        description="Addresses set aside, so that scaling renumbers nothing: 64 for workers, 8 for others. "
        "Changing it moves the groups declared after this one.",
    )
    rack: Annotated[Label | None, Change.RUN] = Field(default=None, description="The rack they stand in.")


def roles_of(name: str, group: Group) -> tuple[Role, ...]:
    """The group's roles in the order of Role, or its own name where that is one.

    >>> roles_of("worker", Group(count=1))
    (<Role.WORKER: 'worker'>,)
    """
    if group.roles:
        return tuple(role for role in Role if role in group.roles)
    return tuple(role for role in Role if role.value == name)


class NodeOverride(Part):
    """What one node has differently from its group: second-hand machines differ, and some are broken."""

    cpus: Annotated[int | None, Change.RESTART] = Field(default=None, ge=1, description="Logical CPUs.")
    memory: Annotated[Bytes | None, Change.RESTART] = Field(default=None, description="Memory, like 2GiB.")
    gpus: NodeGpus | None = Field(default=None, description="GPUs; what is left out is the group's.")
    rack: Annotated[Label | None, Change.RUN] = Field(default=None, description="The rack it stands in.")
    state: Annotated[State, Change.MEMBERS] = Field(default=State.IN, description="`out` leaves it out of phases and checks.")
    reason: Annotated[str | None, Change.RUN] = Field(default=None, min_length=1, max_length=200, description="Why it is out.")
    until: Annotated[Day | None, Change.RUN] = Field(default=None, description="When it should be back, like 2026-12-01.")
