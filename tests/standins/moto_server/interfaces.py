"""Network interfaces with a type and a card, several of them under one device index: hosts with many EFA cards."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import elastic_network_interfaces
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response

from standins.moto_server.store import put

_prep_nics = Instance.prep_nics
_attachment = elastic_network_interfaces.Attachment.__init__
_create = EC2Response.create_network_interface
_terminate = Instance.terminate


def install() -> None:
    """Make moto record type and card index, and as many interfaces as requested."""
    put(Instance, prep_nics)
    put(Instance, terminate)
    put(elastic_network_interfaces.Attachment, __init__)
    put(EC2Response, create_network_interface)


def prep_nics(self: Instance, nic_spec: list[dict[str, Any]], *arguments: Any, **options: Any) -> None:
    """Give each interface a key of its own: moto stores interfaces by device index, and a host has index 1 on every card but the first.

    An interface created by a launch is deleted with its instance by default; moto leaves it behind.
    """
    asked = [dict(spec) for spec in nic_spec] or [{}]
    for key, spec in enumerate(nic_spec):
        spec["DeviceIndex"] = key
    _prep_nics(self, nic_spec, *arguments, **options)
    for key, spec in enumerate(asked):
        interface: Any = self.nics[key]
        interface.device_index = spec.get("DeviceIndex", 0)
        interface.network_card_index = spec.get("NetworkCardIndex", 0)
        interface.interface_type = spec.get("InterfaceType") or interface.interface_type
        if "NetworkInterfaceId" not in spec:
            interface.delete_on_termination = spec.get("DeleteOnTermination", True)


def terminate(self: Instance) -> Any:
    """Terminate the instance and free its addresses, as EC2 does: moto keeps addresses that were requested by name."""
    addresses = [(nic.subnet, one["PrivateIpAddress"]) for nic in self.nics.values() for one in nic.private_ip_addresses]
    before = _terminate(self)
    for subnet, address in addresses:
        subnet.del_subnet_ip(address)
    return before


def __init__(self: Any, eni: Any) -> None:
    """Create an attachment with a card index."""
    _attachment(self, eni)
    self.network_card_index = getattr(eni, "network_card_index", 0)


def create_network_interface(self: EC2Response) -> ActionResult:
    """Implement CreateNetworkInterface with its type."""
    answer = _create(self)
    answer.result["NetworkInterface"].interface_type = self.params.get("InterfaceType", "interface")  # type: ignore[index]
    return answer
