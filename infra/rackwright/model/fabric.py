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


DEFAULT_SWITCH: Final = {FabricKind.INFINIBAND: "qm9700", FabricKind.ROCE: "sn5400"}


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
        default=(), description="Device names of the HCAs by rail; mlx5_0, mlx5_1 … when left out."
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
