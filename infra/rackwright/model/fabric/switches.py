"""The fabric: switches and cables between GPUs, separate from the management network."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.groups import MAX_NODES
from rackwright.model.names import Label, Rack, RdmaDevice
from rackwright.model.units import Ratio
from rackwright.model.update_policy import OnTarget, UpdatePolicy

MAX_RAILS: Final = 16
"""Maximum number of HCAs per node: one per GPU; no server has more than 16 GPUs."""


class FabricKind(StrEnum):
    """Link layer of the fabric."""

    INFINIBAND = "infiniband"
    ROCE = "roce"


class FabricTopology(StrEnum):
    """Cabling of a node's HCAs: each HCA on the leaf of its rail, or all HCAs of a node on one leaf."""

    RAIL_OPTIMISED = "rail-optimised"
    FAT_TREE = "fat-tree"


class DpuMode(StrEnum):
    """Mode of a BlueField card, set by hand: an adapter of its host, or a separate computer in front of the host."""

    NIC = "nic"
    DPU = "dpu"


DEFAULT_SWITCH: Final = {FabricKind.INFINIBAND: "qm9700", FabricKind.ROCE: "sn5400"}


class Floor(ConfigModel):
    """Floor plan of all present and future racks, from which cable lengths are calculated, so that growth makes no cable longer."""

    rows: Annotated[tuple[tuple[Rack, ...], ...], UpdatePolicy.RUN] = Field(
        min_length=1, description="Racks in their physical order, row by row, including racks of future nodes."
    )
    switch_racks: Annotated[tuple[Rack, ...], UpdatePolicy.RUN] = Field(
        min_length=1, description="Racks that contain leaf and spine switches."
    )
    rack_width_cm: Annotated[int, UpdatePolicy.RUN] = Field(
        default=60, ge=30, le=200, description="Distance between adjacent racks of a row, in cm."
    )
    row_pitch_cm: Annotated[int, UpdatePolicy.RUN] = Field(
        default=300, ge=100, le=2000, description="Distance between adjacent rows, in cm."
    )


class Management(ConfigModel):
    """The management plane: the nodes' Ethernet ports and their BMCs, connected to switches in their racks."""

    switch: Annotated[Label, UpdatePolicy.RUN] = Field(
        default="sn2201", description="Management switch model: a row of the switch catalogue."
    )
    bmc: Annotated[bool, UpdatePolicy.RUN] = Field(default=True, description="Nodes have a BMC with its own port.")


class Dpus(ConfigModel):
    """BlueField cards of a group's nodes. An inventory only: rackwright does not set their mode."""

    model: Annotated[Label, UpdatePolicy.RUN] = Field(description="Model of the cards, for example bluefield-3.")
    count: Annotated[int, UpdatePolicy.RUN] = Field(default=1, ge=1, le=8, description="Cards per node.")
    mode: Annotated[DpuMode, UpdatePolicy.RUN] = Field(
        default=DpuMode.NIC, description="Mode that the cards must be set to by hand: nic or dpu."
    )
    slot: Annotated[str | None, UpdatePolicy.RUN] = Field(
        default=None,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        max_length=64,
        description="Slot of the card in the node, in the manufacturer's notation.",
    )


class Fabric(ConfigModel):
    """Leaf and spine switches between the GPUs. An edit restarts a simulated fabric; on a real one, people move the cables."""

    kind: Annotated[FabricKind, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART)] = Field(
        default=FabricKind.INFINIBAND, description="Link layer: InfiniBand, or RoCE over Ethernet."
    )
    switch: Annotated[Label | None, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.LIVE)] = Field(
        default=None, description="Switch model: a row of the switch catalogue. Default: qm9700 for InfiniBand, sn5400 for RoCE."
    )
    rate: Annotated[str | None, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.LIVE)] = Field(
        default=None,
        pattern=r"^[A-Za-z0-9]+$",
        description="Rate of the HCAs, if it is not that of a port: behind splitter cables NDR200 (qm9700), HDR100 (qm8700) or 100GbE "
        "(sn4700), or a lower speed of whole ports, for example HDR (qm9700). Default: the rate of a port.",
    )
    split: Annotated[int | None, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.LIVE)] = Field(
        default=None,
        ge=1,
        le=8,
        description="HCAs of one port of a leaf: 1 for whole ports at a lower `rate`. Default: the parts of a port that have this rate.",
    )
    topology: Annotated[FabricTopology, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.LIVE)] = Field(
        default=FabricTopology.RAIL_OPTIMISED,
        description="Cabling: `rail-optimised`, one leaf per rail of a scalable unit; `fat-tree`, all HCAs of a node on one leaf.",
    )
    groups: Annotated[tuple[Label, ...], UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.REPLACE)] = Field(
        default=(), description="Groups on the fabric. Default: groups with GPUs."
    )
    rails: Annotated[int | None, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.REPLACE)] = Field(
        default=None, ge=1, le=MAX_RAILS, description="HCAs per node. Default: one per GPU."
    )
    hcas: Annotated[tuple[RdmaDevice, ...], UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.REPLACE)] = Field(
        default=(), max_length=MAX_RAILS, description="Device names of the HCAs as in the kernel, by rail. Default: mlx5_0, mlx5_1 …."
    )
    oversubscription: Annotated[Ratio, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.LIVE)] = Field(
        default=1, description="Maximum number of downlinks per uplink, 1 to 16, for example 2, 1.5 or 3:2; 1 is non-blocking."
    )
    max_nodes: Annotated[int | None, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART, vm=UpdatePolicy.LIVE)] = Field(
        default=None,
        ge=1,
        le=MAX_NODES,
        description="Planned number of nodes; growing up to it moves no cable. Default: the capacity of the groups.",
    )
    subnet_manager: Annotated[Label | None, UpdatePolicy.RECABLE, OnTarget(lab=UpdatePolicy.RESTART)] = Field(
        default=None, description="Node that runs the subnet manager. Default: the switches run it."
    )
    floor_plan: Annotated[Floor | None, UpdatePolicy.RUN] = Field(
        default=None, description="Floor plan of the racks; without it, cables have no lengths."
    )
    management_network: Annotated[Management | None, UpdatePolicy.RUN] = Field(
        default=None, description="Management plane; if present, its cables are listed as well."
    )
    dpus: Annotated[dict[Label, Dpus], UpdatePolicy.RUN] = Field(default={}, description="Inventory of BlueField cards, by group name.")
    nvlink_domain: Annotated[int | None, UpdatePolicy.RESTART] = Field(
        default=None,
        ge=2,
        le=256,
        description="Number of nodes per NVLink domain, for example 18 in a GB200 NVL72. Default: one node per domain.",
    )
