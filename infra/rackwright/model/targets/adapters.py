"""Identities of a machine's RDMA adapters: those that the fabric, the bus and the network know."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.addresses import Guid, MacAddress, PciAddress
from rackwright.model.base import ConfigModel
from rackwright.model.update_policy import UpdatePolicy


class Adapter(ConfigModel):
    """Identity of an RDMA adapter, from the asset list or from the machine. Any part may be left out."""

    port_guid: Annotated[Guid | None, UpdatePolicy.RUN] = Field(
        default=None, description="GUID of port 1, by which the fabric knows the adapter, as `ibstat` prints it."
    )
    node_guid: Annotated[Guid | None, UpdatePolicy.RUN] = Field(default=None, description="GUID of the adapter, as `ibstat` prints it.")
    pci: Annotated[PciAddress | None, UpdatePolicy.RUN] = Field(default=None, description="PCI address, for example 0000:1a:00.0.")
    mac: Annotated[MacAddress | None, UpdatePolicy.RUN] = Field(
        default=None, description="Permanent MAC address of an Ethernet adapter, in lower case, with colons."
    )
