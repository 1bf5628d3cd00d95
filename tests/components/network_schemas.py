"""Schemas of the input of Calico's operator and Cilium's chart, and validation against them. Unknown fields are violations.

Extracted from the Go modules of `ORIGINS`, both under the Apache License 2.0, without descriptions; of Cilium's values only those in use.
`python tests/components/network_schemas.py GOMODCACHE` extracts them again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from kubernetes_schemas import _closed

from rackwright.yaml_loader import load_yaml

FILE = Path(__file__).parent / "schemas" / "networks.json"
ORIGINS = {
    "calico": "github.com/tigera/operator@v1.36.5/pkg/crds/operator/operator.tigera.io_installations.yaml",
    "cilium": "github.com/cilium/cilium@v1.18.3/install/kubernetes/cilium/values.schema.json",
}
_SAID = ("MTU", "autoDirectNodeRoutes", "cni", "hubble", "ipam", "ipv4", "ipv4NativeRoutingCIDR", "ipv6", "k8s", "kubeProxyReplacement")
_MORE = ("operator", "policyEnforcementMode", "routingMode", "tunnelProtocol")


def breaches(network: str, written: Mapping[str, Any]) -> list[str]:
    """Return violations of a network's input, as `path: what`."""
    return [f"{one.json_path}: {one.message}" for one in Draft202012Validator(_schemas()[network]).iter_errors(written)]


@cache
def _schemas() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def cut(cache_: Path) -> dict[str, Any]:
    """Return both schemas."""
    definition = load_yaml((cache_ / ORIGINS["calico"]).read_text(encoding="utf-8"))
    values = json.loads((cache_ / ORIGINS["cilium"]).read_text(encoding="utf-8"))
    known = {name: _closed(values["properties"][name]) for name in (*_SAID, *_MORE)}
    return {
        "origin": ORIGINS,
        "calico": _closed(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]),
        "cilium": {"type": "object", "properties": known, "additionalProperties": False},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(cut(Path(sys.argv[1])), sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
