"""Objects of MetalLB: one pool of addresses, announced by ARP in the nodes' network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Object = dict[str, Any]
NAMESPACE: Final = "metallb-system"
POOL: Final = "cluster"
_API: Final = "metallb.io/v1beta1"


def load_balancer_objects(ranges: Sequence[str], labels: dict[str, str] | None = None) -> tuple[Object, ...]:
    """Return the pool of the ranges and its announcement. `labels`: labels of both."""
    specs = {"IPAddressPool": {"addresses": list(ranges)}, "L2Advertisement": {"ipAddressPools": [POOL]}}
    return tuple(
        {
            "apiVersion": _API,
            "kind": kind,
            "metadata": {"name": POOL, "namespace": NAMESPACE, **({"labels": dict(labels)} if labels else {})},
            "spec": spec,
        }
        for kind, spec in specs.items()
    )
