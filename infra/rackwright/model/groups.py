"""Groups of identical nodes, and per-node overrides."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.units import Bytes, Day, Label
from rackwright.model.update_policy import Change, Except

MOST_NODES: Final = 4096
"""Maximum number of nodes per group: four times the design target. A larger number is a typing error and would be slow to expand."""


class Role(StrEnum):
    """Roles of a node, in the order of the inventory."""

    LOGIN = "login"
    CONTROLLER = "controller"
    ACCOUNTING = "accounting"
    WORKER = "worker"
    STORAGE = "storage"


class State(StrEnum):
    """State of a node; `out` excludes it from playbooks and checks."""

    IN = "in"
    OUT = "out"


class Gpus(Part):
    """GPUs of each node of a group."""

    model: Annotated[Label, Change.RESTART] = Field(description="GPU model: a row of the GPU catalogue, for example h100.")
    count: Annotated[int, Change.RESTART, Except(lab=Change.REPLACE)] = Field(ge=0, description="GPUs per node.")


class NodeGpus(Part):
    """GPUs of one node, where they differ from its group."""

    model: Annotated[Label | None, Change.RESTART] = Field(default=None, description="GPU model. Default: the group's.")
    count: Annotated[int | None, Change.RESTART, Except(lab=Change.REPLACE)] = Field(
        default=None, ge=0, description="Number of GPUs; 0 for none. Default: the group's."
    )


class Group(Part):
    """Identical nodes, named `<group><index>`, counting from 0."""

    count: Annotated[int, Change.MEMBERS] = Field(ge=0, le=MOST_NODES, description="Number of nodes.")
    roles: Annotated[tuple[Role, ...], Change.MEMBERS] = Field(
        default=(), description="Roles of the nodes. Default: the group's name, if it is a role."
    )
    cpus: Annotated[int | None, Change.RESTART] = Field(default=None, ge=1, description="Logical CPUs per node.")
    memory: Annotated[Bytes | None, Change.RESTART] = Field(default=None, description="Memory per node, for example 2GiB.")
    gpus: Annotated[Gpus | None, Change.RESTART, Except(lab=Change.REPLACE)] = Field(default=None, description="GPUs per node.")
    capacity: Annotated[int | None, Change.RENUMBER, Except(hosts=Change.RUN)] = Field(
        default=None,
        ge=1,
        le=65536,
        description="Number of addresses reserved for the group, so that scaling never renumbers nodes. "
        "Default: 64 for workers, 8 for other groups. Changing it renumbers the groups declared after this one.",
    )
    rack: Annotated[Label | None, Change.RUN] = Field(default=None, description="Rack of the nodes.")


def roles_of(name: str, group: Group) -> tuple[Role, ...]:
    """Return the group's roles in the order of Role; without roles, the group's name if it is a role.

    >>> roles_of("worker", Group(count=1))
    (<Role.WORKER: 'worker'>,)
    """
    if group.roles:
        return tuple(role for role in Role if role in group.roles)
    return tuple(role for role in Role if role.value == name)


class NodeOverride(Part):
    """Overrides for one node: second-hand machines differ, and some are broken."""

    cpus: Annotated[int | None, Change.RESTART] = Field(default=None, ge=1, description="Logical CPUs.")
    memory: Annotated[Bytes | None, Change.RESTART] = Field(default=None, description="Memory, for example 2GiB.")
    gpus: NodeGpus | None = Field(default=None, description="GPUs; omitted values are taken from the group.")
    rack: Annotated[Label | None, Change.RUN] = Field(default=None, description="Rack of the node.")
    state: Annotated[State, Change.MEMBERS] = Field(
        default=State.IN, description="State; `out` excludes the node from playbooks and checks."
    )
    reason: Annotated[str | None, Change.RUN] = Field(default=None, min_length=1, max_length=200, description="Reason for the state `out`.")
    until: Annotated[Day | None, Change.RUN] = Field(default=None, description="Expected return date, for example 2026-12-01.")
