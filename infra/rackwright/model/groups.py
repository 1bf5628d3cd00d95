"""Groups of identical nodes, and per-node overrides."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from rackwright.model.base import ConfigModel
from rackwright.model.hostlists import NodeNames, expand_host_list
from rackwright.model.names import Feature, Label, Rack
from rackwright.model.units import Bytes, Day
from rackwright.model.update_policy import OnTarget, UpdatePolicy

_MAX_WEIGHT: Final = 2**31 - 1
"""Maximum weight of nodes. Chosen: Slurm stores 32 bits without a sign, whose highest values have a meaning of their own (slurm.h)."""
_MAX_CPUS: Final = 8192
"""Maximum number of CPUs of a node: NR_CPUS of Linux for x86-64 is at most 8192 (arch/x86/Kconfig). A larger number is a typing error."""
_MAX_SOCKETS: Final = 32
"""Maximum number of sockets per node: a server of HPE Superdome Flex has up to 32 (HPE: Superdome Flex QuickSpecs)."""
MAX_NODES: Final = 4096
"""Maximum number of nodes per group: four times the design target. A larger number is a typing error and would be slow to expand."""


class Role(StrEnum):
    """Roles of a node, in the order of the inventory."""

    LOGIN = "login"
    CONTROLLER = "controller"
    ACCOUNTING = "accounting"
    WORKER = "worker"
    STORAGE = "storage"
    RUNNER = "runner"


class State(StrEnum):
    """State of a node; `out` excludes it from playbooks and checks."""

    IN = "in"
    OUT = "out"


MigProfileName = Annotated[str, StringConstraints(min_length=1, max_length=32)]
MigCounts = dict[MigProfileName, Annotated[int | None, Field(ge=1, le=7)]]


class MigDevices(ConfigModel):
    """GPU instances of some of the GPUs of a node."""

    devices: Annotated[tuple[Annotated[int, Field(ge=0)], ...], UpdatePolicy.RESTART] = Field(
        default=(), description="GPUs, by the number of their device file: 0 for /dev/nvidia0. Default: all that no other entry names."
    )
    profiles: Annotated[MigCounts, UpdatePolicy.RESTART] = Field(
        min_length=1, description="Number of instances by profile, for example 3g.40gb: 2; without a number, as many as fit."
    )


def _form(declared: object) -> str | None:
    """Return which of the three forms of `mig` a value has; None for any other type."""
    for form, types in (("profile", str), ("profiles", dict), ("devices", (list, tuple))):
        if isinstance(declared, types):
            return form
    return None


Mig = Annotated[
    Annotated[MigProfileName, Tag("profile")] | Annotated[MigCounts, Tag("profiles")] | Annotated[tuple[MigDevices, ...], Tag("devices")],
    Discriminator(
        _form,
        custom_error_type="mig",
        custom_error_message="expected a profile, profiles with their numbers, or a list for some of the GPUs",
    ),
]


class OtherGpus(ConfigModel):
    """GPUs of another model among the GPUs of a node."""

    model: Annotated[Label, UpdatePolicy.RESTART] = Field(description="Model of these GPUs: a row of the GPU catalogue, for example t4.")
    devices: Annotated[tuple[Annotated[int, Field(ge=0)], ...], UpdatePolicy.RESTART] = Field(
        min_length=1,
        description="These GPUs, by the number of their device file: 2 for /dev/nvidia2. On the node, "
        "`grep -E 'Model|Minor' /proc/driver/nvidia/gpus/*/information` prints the model and the number of each GPU.",
    )


class Gpus(ConfigModel):
    """GPUs of each node of a group."""

    model: Annotated[Label, UpdatePolicy.RESTART] = Field(description="GPU model: a row of the GPU catalogue, for example h100.")
    count: Annotated[int, UpdatePolicy.RESTART, OnTarget(lab=UpdatePolicy.REPLACE)] = Field(ge=0, description="GPUs per node.")
    mig: Annotated[Mig | None, UpdatePolicy.RESTART] = Field(
        default=None,
        description="MIG instances into which the GPUs are divided: a profile, for example 3g.40gb, for as many as fit on each GPU; "
        "profiles with their numbers on each GPU, for example {3g.40gb: 1, 1g.10gb: 4}; or a list with other profiles for some GPUs. "
        "Jobs request them as gpu:<model>_<profile>. Default: MIG is not managed.",
    )
    others: Annotated[tuple[OtherGpus, ...], UpdatePolicy.RESTART] = Field(
        default=(),
        description="GPUs of other models, which `count` includes, for example [{model: t4, devices: [2]}]. "
        "Jobs request them as gpu:<model>. Default: all GPUs are of `model`.",
    )


def counts_by_model(gpus: Gpus) -> dict[str, int]:
    """Return the number of GPUs of each model, `model` first.

    >>> counts_by_model(Gpus(model="a100-pcie", count=3, others=(OtherGpus(model="t4", devices=(2,)),)))
    {'a100-pcie': 2, 't4': 1}
    """
    others = {one.model: len(one.devices) for one in gpus.others}
    return {gpus.model: gpus.count - sum(others.values()), **others}


def mig_devices(declared: Mig | None) -> tuple[MigDevices, ...]:
    """Return the list that a declaration of MIG stands for; empty without one.

    >>> mig_devices("3g.40gb")
    (MigDevices(devices=(), profiles={'3g.40gb': None}),)
    """
    if declared is None or isinstance(declared, tuple):
        return declared or ()
    return (MigDevices(profiles={declared: None} if isinstance(declared, str) else declared),)


class NodeGpus(ConfigModel):
    """GPUs of one node, where they differ from its group."""

    model: Annotated[Label | None, UpdatePolicy.RESTART] = Field(default=None, description="GPU model. Default: the group's.")
    count: Annotated[int | None, UpdatePolicy.RESTART, OnTarget(lab=UpdatePolicy.REPLACE)] = Field(
        default=None, ge=0, description="Number of GPUs; 0 for none. Default: the group's."
    )
    others: Annotated[tuple[OtherGpus, ...] | None, UpdatePolicy.RESTART] = Field(
        default=None, description="GPUs of other models, which `count` includes; [] for none. Default: the group's."
    )


class Group(ConfigModel):
    """Identical nodes, named `<group><index>`, counting from 0, or as `names` says."""

    count: Annotated[int, UpdatePolicy.MEMBERS] = Field(ge=0, le=MAX_NODES, description="Number of nodes.")
    names: Annotated[NodeNames | None, UpdatePolicy.RENUMBER] = Field(
        default=None,
        description="Names of the nodes in order, as a Slurm host list: node[001-064], r[1-4]n[01-16] or gpu-01,gpu-02. "
        "It may have more names than there are nodes. Default: worker0, worker1 … for group worker. No node can be renamed.",
    )
    roles: Annotated[tuple[Role, ...], UpdatePolicy.MEMBERS] = Field(
        default=(), description="Roles of the nodes. Default: the group's name, if it is a role."
    )
    cpus: Annotated[int | None, UpdatePolicy.RESTART] = Field(default=None, ge=1, le=_MAX_CPUS, description="Logical CPUs per node.")
    threads_per_core: Annotated[Literal[1, 2, 4] | None, UpdatePolicy.RESTART, OnTarget(aws=UpdatePolicy.FORBIDDEN)] = Field(
        default=None,
        description="Online threads of each core: 1 if simultaneous multithreading (SMT) is off, 2 if it is on, 4 on some processors. "
        "`cpus` counts threads. On aws, instances are launched with it; on hosts, a check compares it. "
        "Default: the instance type's; on hosts, not compared.",
    )
    sockets: Annotated[int | None, UpdatePolicy.RESTART] = Field(
        default=None,
        ge=1,
        le=_MAX_SOCKETS,
        description="Processor sockets per node, with `threads_per_core`: Slurm distributes the tasks of a job over them. A check compares "
        "them on hosts and aws. Default: Slurm takes each core for a socket.",
    )
    memory: Annotated[Bytes | None, UpdatePolicy.RESTART] = Field(
        default=None,
        description="Memory per node, for example 2GiB. On hosts, Slurm gives jobs 95 % of it: machines show less than they have.",
    )
    gpus: Annotated[Gpus | None, UpdatePolicy.RESTART, OnTarget(lab=UpdatePolicy.REPLACE)] = Field(
        default=None, description="GPUs per node."
    )
    reserved_addresses: Annotated[int | None, UpdatePolicy.RENUMBER, OnTarget(hosts=UpdatePolicy.RUN)] = Field(
        default=None,
        ge=1,
        le=65536,
        description="Number of addresses reserved for the group, so that scaling never renumbers nodes. "
        "Default: 64 for workers, 8 for other groups. Changing it renumbers the groups declared after this one.",
    )
    rack: Annotated[Rack | None, UpdatePolicy.RUN] = Field(default=None, description="Rack of the nodes.")
    features: Annotated[tuple[Feature, ...], UpdatePolicy.RESTART] = Field(
        default=(), description="Slurm features of the nodes, which jobs request with --constraint, for example [skylake, ib]."
    )
    weight: Annotated[int, UpdatePolicy.RESTART] = Field(
        default=1,
        ge=1,
        le=_MAX_WEIGHT,
        description="Slurm weight of the nodes: of all nodes that satisfy a job, those with the least weight are allocated first.",
    )


def node_names_of(name: str, group: Group) -> tuple[str, ...]:
    """Return the names of the group's nodes in order. A rule refuses a group with fewer names than nodes.

    >>> node_names_of("worker", Group(count=2)), node_names_of("worker", Group(count=2, names="node[001-064]"))
    (('worker0', 'worker1'), ('node001', 'node002'))
    """
    declared = expand_host_list(group.names) if group.names is not None else ()
    return declared[: group.count] + tuple(f"{name}{index}" for index in range(len(declared), group.count))


def roles_of(name: str, group: Group) -> tuple[Role, ...]:
    """Return the group's roles in the order of Role; without roles, the group's name if it is a role.

    >>> roles_of("worker", Group(count=1))
    (<Role.WORKER: 'worker'>,)
    """
    if group.roles:
        return tuple(role for role in Role if role in group.roles)
    return tuple(role for role in Role if role.value == name)


class NodeOverride(ConfigModel):
    """Overrides for one node: second-hand machines differ, and some are broken."""

    cpus: Annotated[int | None, UpdatePolicy.RESTART] = Field(default=None, ge=1, le=_MAX_CPUS, description="Logical CPUs.")
    memory: Annotated[Bytes | None, UpdatePolicy.RESTART] = Field(default=None, description="Memory, for example 2GiB.")
    gpus: NodeGpus | None = Field(default=None, description="GPUs; omitted values are taken from the group.")
    rack: Annotated[Rack | None, UpdatePolicy.RUN] = Field(default=None, description="Rack of the node.")
    state: Annotated[State, UpdatePolicy.MEMBERS] = Field(
        default=State.IN, description="State; `out` excludes the node from playbooks and checks."
    )
    reason: Annotated[str | None, UpdatePolicy.RUN] = Field(
        default=None, min_length=1, max_length=200, description="Reason for the state `out`."
    )
    until: Annotated[Day | None, UpdatePolicy.RUN] = Field(default=None, description="Expected return date, for example 2026-12-01.")
