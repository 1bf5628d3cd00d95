"""Small things of moto's network that answer HTTP 500, or not at all."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend

from standins.moto_server.store import put

_delete = EC2Backend.delete_nat_gateway


def install() -> None:
    """Deleting a NAT gateway takes its interface along, and says so where there is none."""
    put(EC2Backend, delete_nat_gateway)


def delete_nat_gateway(self: EC2Backend, nat_gateway_id: str) -> Any:
    """DeleteNatGateway."""
    if nat_gateway_id not in self.nat_gateways:
        raise EC2ClientError("NatGatewayNotFound", f"NAT gateway {nat_gateway_id} was not found")
    gone = _delete(self, nat_gateway_id)
    self.enis.pop(gone._eni.id, None)
    return gone
