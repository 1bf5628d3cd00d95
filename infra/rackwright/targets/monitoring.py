"""Certificates of monitoring: an authority of the stack, one server certificate per node, one client certificate for Prometheus."""

from __future__ import annotations

from typing import Any

from rackwright.plan import Plan
from rackwright.plan.monitoring.external import CLIENT
from rackwright.targets.resources import Certificate, CertificateAuthority


def monitoring_secrets(plan: Plan) -> dict[str, Any]:
    """Return the secrets of monitoring by the name of the roles' variable; none where the plan has no monitoring.

    A client certificate of the site's own authority makes one of the stack needless.
    """
    if plan.monitoring is None:
        return {}
    authority = CertificateAuthority("monitoring-authority", common_name=f"{plan.stack} monitoring")
    site = plan.monitoring.external
    servers = {
        node.name: Certificate(
            f"{node.name}-monitoring",
            common_name=node.name,
            usage="server",
            names=_names(plan, node.name),
            authority=authority,
        )
        for node in plan.monitoring.nodes
    }
    return {
        "monitoring": {
            "authority": authority.certificate,
            **({} if site and site.client_authority else {"client": _client(authority)}),
            "servers": {
                name: {"certificate": one.certificate, "private_key": one.private_key, "not_after": one.not_after}
                for name, one in servers.items()
            },
        }
    }


def _client(authority: CertificateAuthority) -> dict[str, Any]:
    made = Certificate("monitoring-client", common_name=CLIENT, usage="client", names=[CLIENT], authority=authority)
    return {"certificate": made.certificate, "private_key": made.private_key}


def _names(plan: Plan, node: str) -> list[str]:
    """Return the names in a node's certificate; with its address for a Prometheus of the site, whose name servers may not know the node."""
    assert plan.monitoring is not None
    return [node, plan.node(node).fqdn, *([plan.node(node).address] if plan.monitoring.external else [])]
