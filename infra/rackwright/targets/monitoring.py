"""Certificates of monitoring: an authority of the stack, one server certificate per node, one client certificate for Prometheus."""

from __future__ import annotations

from typing import Any, Final

from rackwright.plan import Plan
from rackwright.targets.resources import Certificate, CertificateAuthority

CLIENT: Final = "prometheus"
"""Name of the client certificate; node_exporter accepts no other (roles/node_exporter, node_exporter_clients)."""


def monitoring_secrets(plan: Plan) -> dict[str, Any]:
    """Return the secrets of monitoring by the name of the roles' variable; none where the plan has no monitoring."""
    if plan.monitoring is None:
        return {}
    authority = CertificateAuthority("monitoring-authority", common_name=f"{plan.stack} monitoring")
    client = Certificate("monitoring-client", common_name=CLIENT, usage="client", names=[CLIENT], authority=authority)
    servers = {
        node.name: Certificate(
            f"{node.name}-monitoring",
            common_name=node.name,
            usage="server",
            names=[node.name, plan.node(node.name).fqdn],
            authority=authority,
        )
        for node in plan.monitoring.nodes
    }
    return {
        "monitoring": {
            "authority": authority.certificate,
            "client": {"certificate": client.certificate, "private_key": client.private_key},
            "servers": {
                name: {"certificate": one.certificate, "private_key": one.private_key, "not_after": one.not_after}
                for name, one in servers.items()
            },
        }
    }
