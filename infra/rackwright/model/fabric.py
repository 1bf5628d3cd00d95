"""The fabric: switches and cables between GPUs, apart from the network that manages the nodes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.groups import MOST_NODES
from rackwright.model.policy import Change, Except
from rackwright.model.units import Label

MOST_RAILS: Final = 16
"""One HCA for each GPU of a node; no server has more GPUs."""
_DEVICE: Final = r"^[a-z][a-z0-9_]{0,14}$"


class FabricKind(StrEnum):
    """What runs over the cables."""

    INFINIBAND = "infiniband"
    ROCE = "roce"


class FabricTopology(StrEnum):
    """What the HCAs of one node share: a rail each with its peers of other nodes, or a leaf with one another."""

    RAIL_OPTIMISED = "rail-optimised"
    FAT_TREE = "fat-tree"


class DpuMode(StrEnum):
    """What a BlueField card is set to, by hand: an adapter for its host, or a computer of its own in front of it."""

    NIC = "nic"
    DPU = "dpu"


DEFAULT_SWITCH: Final = {FabricKind.INFINIBAND: "qm9700", FabricKind.ROCE: "sn5400"}


class Floor(Part):
    """Where racks stand: cable lengths follow from it. All that will ever be, so that growth makes no cable longer."""

    rows: Annotated[tuple[tuple[Label, ...], ...], Change.RUN] = Field(
        min_length=1, description="Racks as they stand, row by row; those of future nodes, too."
    )
    switch_racks: Annotated[tuple[Label, ...], Change.RUN] = Field(min_length=1, description="Which of them hold leaves and spines.")
    rack_width_cm: Annotated[int, Change.RUN] = Field(default=60, ge=30, le=200, description="From one rack to the next in a row.")
    row_pitch_cm: Annotated[int, Change.RUN] = Field(default=300, ge=100, le=2000, description="From one row to the next.")


class Management(Part):
    """The plane that manages: nodes' own network ports and their management controllers, on switches in their racks."""

    switch: Annotated[Label, Change.RUN] = Field(default="sn2201", description="A row of the switch catalogue for management.")
    bmc: Annotated[bool, Change.RUN] = Field(default=True, description="Whether nodes have a management controller with a port of its own.")


class Dpus(Part):
    """BlueField cards of a group's nodes. An inventory: nobody sets their mode but by hand."""

    model: Annotated[Label, Change.RUN] = Field(description="What they are, like bluefield-3.")
    count: Annotated[int, Change.RUN] = Field(default=1, ge=1, le=8, description="Cards per node.")
    mode: Annotated[DpuMode, Change.RUN] = Field(default=DpuMode.NIC, description="What they are to be set to: nic or dpu.")
    slot: Annotated[str | None, Change.RUN] = Field(
        default=None, pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=64, description="Where they sit in the node, as its maker says it."
    )


class Fabric(Part):
    """Leaves and spines between the GPUs. The simulated one starts anew where it is edited; of real ones people move the cables."""

    kind: Annotated[FabricKind, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=FabricKind.INFINIBAND, description="InfiniBand, or RoCE over Ethernet."
    )
    switch: Annotated[Label | None, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=None, description="A row of the switch catalogue: qm9700 for InfiniBand, sn5400 for RoCE when left out."
    )
    topology: Annotated[FabricTopology, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=FabricTopology.RAIL_OPTIMISED,
        description="rail-optimised: one leaf for each rail of a scalable unit; fat-tree: all HCAs of a node on one leaf.",
    )
    groups: Annotated[tuple[Label, ...], Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=(), description="Groups on it; those with GPUs when left out."
    )
    rails: Annotated[int | None, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=None, ge=1, le=MOST_RAILS, description="HCAs per node; as many as GPUs when left out."
    )
    hcas: Annotated[tuple[Annotated[str, Field(pattern=_DEVICE)], ...], Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=(), max_length=MOST_RAILS, description="Device names of the HCAs by rail; mlx5_0, mlx5_1 … when left out."
    )
    oversubscription: Annotated[int, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=1, ge=1, le=16, description="Links down for each link up at most; 1 blocks nothing."
    )
    nodes: Annotated[int | None, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=None,
        ge=1,
        le=MOST_NODES,
        description="Nodes it is laid out for, so that growing up to there moves no cable; the capacity of its groups when left out.",
    )
    subnet_manager: Annotated[Label | None, Change.RECABLE, Except(lab=Change.RESTART)] = Field(
        default=None, description="The node that manages the subnet; the switches do when left out."
    )
    floor: Annotated[Floor | None, Change.RUN] = Field(default=None, description="Where racks stand; without it cables have no lengths.")
    management: Annotated[Management | None, Change.RUN] = Field(
        default=None, description="The management plane, where its cables are to be listed, too."
    )
    dpus: Annotated[dict[Label, Dpus], Change.RUN] = Field(default={}, description="BlueField cards by group: an inventory.")
    nvlink_domain: Annotated[int | None, Change.RESTART] = Field(
        default=None, ge=2, le=256, description="Nodes whose GPUs share NVLink, like 18 in a GB200 NVL72; one each when left out."
    )
