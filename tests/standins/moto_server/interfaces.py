"""Network interfaces with a type and a card, several of them under one device index: hosts with many EFA cards."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models import elastic_network_interfaces
from moto.ec2.models.instances import Instance
from moto.ec2.responses import EC2Response

_prep_nics = Instance.prep_nics
_attachment = elastic_network_interfaces.Attachment.__init__
_create = EC2Response.create_network_interface
_terminate = Instance.terminate


def install() -> None:
    """Makes moto keep type and card index, and as many interfaces as were asked for."""
    Instance.prep_nics = prep_nics  # type: ignore[method-assign]
    Instance.terminate = terminate  # type: ignore[method-assign]
    elastic_network_interfaces.Attachment.__init__ = attachment  # type: ignore[method-assign]
    EC2Response.create_network_interface = create_network_interface  # type: ignore[method-assign]


def prep_nics(self: Instance, nic_spec: list[dict[str, Any]], *arguments: Any, **options: Any) -> None:
    """moto keeps interfaces by device index, and one host has index 1 on every card but the first: each gets a key of its own meanwhile."""
    asked = [(spec.get("DeviceIndex", 0), spec.get("NetworkCardIndex", 0), spec.get("InterfaceType")) for spec in nic_spec]
    for key, spec in enumerate(nic_spec):
        spec["DeviceIndex"] = key
    _prep_nics(self, nic_spec, *arguments, **options)
    for key, (device, card, kind) in enumerate(asked):
        interface = self.nics[key]
        interface.device_index = device
        interface.network_card_index = card  # type: ignore[attr-defined]
        interface.interface_type = kind or interface.interface_type
        if "NetworkInterfaceId" not in nic_spec[key]:
            interface.delete_on_termination = nic_spec[key].get("DeleteOnTermination", True) in {True, "true"}


def terminate(self: Instance) -> Any:
    """An instance that gives its addresses back, as EC2's do: moto keeps those it was given by name."""
    addresses = [(nic.subnet, one["PrivateIpAddress"]) for nic in self.nics.values() for one in nic.private_ip_addresses]
    before = _terminate(self)
    for subnet, address in addresses:
        subnet.del_subnet_ip(address)
    return before


def attachment(self: Any, eni: Any) -> None:
    """An attachment that says which card."""
    _attachment(self, eni)
    self.network_card_index = getattr(eni, "network_card_index", 0)


def create_network_interface(self: EC2Response) -> ActionResult:
    """CreateNetworkInterface with its type."""
    answer = _create(self)
    answer.result["NetworkInterface"].interface_type = self.params.get("InterfaceType", "interface")  # type: ignore[index]
    return answer
