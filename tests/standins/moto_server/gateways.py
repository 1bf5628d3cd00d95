"""Operations of moto's network that return HTTP 500, or do not exist."""

from __future__ import annotations

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend

from standins.moto_server.store import put

_delete = EC2Backend.delete_nat_gateway


def install() -> None:
    """Patch DeleteNatGateway: it deletes the gateway's interface, and reports an unknown gateway."""
    put(EC2Backend, delete_nat_gateway)


def delete_nat_gateway(self: EC2Backend, nat_gateway_id: str) -> Any:
    """Implement DeleteNatGateway."""
    if nat_gateway_id not in self.nat_gateways:
        raise EC2ClientError("NatGatewayNotFound", f"NAT gateway {nat_gateway_id} was not found")
    gone = _delete(self, nat_gateway_id)
    self.enis.pop(gone._eni.id, None)
    return gone
