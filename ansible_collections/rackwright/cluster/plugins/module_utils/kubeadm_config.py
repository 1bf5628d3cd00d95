"""Build kubeadm's JoinConfiguration, and parse the join token that kubeadm prints. Pure; standard library only, Python 3.9 or newer."""

from __future__ import annotations

import re
from typing import Any

RUNTIME = "unix:///run/containerd/containerd.sock"
ZONE = "topology.kubernetes.io/zone"
TIMEOUTS = {"kubernetesAPICall": "4m0s"}
"""As long as kubeadm's health checks (kubeadm-config.v1beta4, Timeouts); a loaded control plane exceeds the default of one minute."""


def join_credentials(output: str) -> dict[str, str] | None:
    """Return token and CA digest from the join command that kubeadm prints; None without one."""
    token = re.search(r"--token (\S+)", output)
    authority = re.search(r"--discovery-token-ca-cert-hash (\S+)", output)
    return {"token": token[1], "authority": authority[1]} if token and authority else None


def certificate_key(output: str) -> str | None:
    """Return the key of the control plane's uploaded certificates from kubeadm's output; None without one.

    >>> certificate_key("[upload-certs] Using certificate key:\\n" + "0a" * 32 + "\\n") == "0a" * 32
    True
    """
    found = re.search(r"certificate key:\s+([0-9a-f]{64})\b", output)
    return found[1] if found else None


def joining(params: dict[str, Any]) -> dict[str, Any]:
    """Return a JoinConfiguration (kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4) that pins the CA."""
    invited = params["join_credentials"]
    document = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": params["endpoint"],
                "token": invited["token"],
                "caCertHashes": [invited["authority"]],
            }
        },
        "nodeRegistration": {
            "name": params["name"],
            "criSocket": RUNTIME,
            "imagePullPolicy": "IfNotPresent",
            "taints": [taint(text) for text in params["taints"]],
            "kubeletExtraArgs": [{"name": "node-ip", "value": params["address"]}, *registered(params["labels"])],
        },
        "timeouts": dict(TIMEOUTS),
    }
    if params["control_plane"]:
        document["controlPlane"] = {
            "localAPIEndpoint": {"advertiseAddress": params["address"], "bindPort": 6443},
            "certificateKey": invited["certificate_key"],
        }
    return document


def registered(labels: dict[str, str]) -> list[dict[str, str]]:
    """Return the kubelet's argument for labels that a node may set at its registration: of those of kubernetes.io, only the zone
    (kubernetes.io/docs/reference/access-authn-authz/admission-controllers, NodeRestriction).
    """
    reserved = ("kubernetes.io", "k8s.io")
    own = {key: value for key, value in labels.items() if key == ZONE or not key.partition("/")[0].endswith(reserved)}
    return [{"name": "node-labels", "value": ",".join(f"{key}={value}" for key, value in sorted(own.items()))}] if own else []


def taint(text: str) -> dict[str, str]:
    """Parse a taint: `key=value:Effect`.

    >>> taint("node-role.kubernetes.io/control-plane=:NoSchedule")
    {'key': 'node-role.kubernetes.io/control-plane', 'effect': 'NoSchedule'}
    """
    what, _, effect = text.rpartition(":")
    key, _, value = what.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}
