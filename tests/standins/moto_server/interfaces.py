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
    """Makes moto keep type and card index, and as many interfaces as were asked for."""
    put(Instance, prep_nics)
    put(Instance, terminate)
    put(elastic_network_interfaces.Attachment, __init__)
    put(EC2Response, create_network_interface)


def prep_nics(self: Instance, nic_spec: list[dict[str, Any]], *arguments: Any, **options: Any) -> None:
    """moto keeps interfaces by device index, and one host has index 1 on every card but the first: each gets a key of its own meanwhile.

    An interface made for a launch goes with its instance unless told otherwise; moto leaves it behind.
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
    """An instance that gives its addresses back, as EC2's do: moto keeps those it was given by name."""
    addresses = [(nic.subnet, one["PrivateIpAddress"]) for nic in self.nics.values() for one in nic.private_ip_addresses]
    before = _terminate(self)
    for subnet, address in addresses:
        subnet.del_subnet_ip(address)
    return before


def __init__(self: Any, eni: Any) -> None:
    """An attachment that says which card."""
    _attachment(self, eni)
    self.network_card_index = getattr(eni, "network_card_index", 0)


def create_network_interface(self: EC2Response) -> ActionResult:
    """CreateNetworkInterface with its type."""
    answer = _create(self)
    answer.result["NetworkInterface"].interface_type = self.params.get("InterfaceType", "interface")  # type: ignore[index]
    return answer
