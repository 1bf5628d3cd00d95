"""Probes of the control plane on a Kubernetes controller: etcd, static pods, the audit log, and the encryption of secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, answer_of
from rackwright.checks.cluster.probes import units
from rackwright.checks.cluster.probes.kubernetes import OF_API
from rackwright.remote.command import python_command


def query(topic: str) -> str:
    """Return the command that queries a controller about one topic (rackwright.remote.programs.control_plane)."""
    return python_command("control_plane", {"topic": topic})


@dataclass(frozen=True)
class Etcd:
    """A member of etcd, as queried on its node."""

    error: str | UnreadableValue
    """Why the member does not respond, UnreadableValue for a time-out; all other fields are empty then."""
    leader: str = "0"
    """ID of the leader; 0 where there is none."""
    version: str = ""
    bytes: int = 0
    quota: int = 0
    """Size in bytes at which etcd accepts no more writes; 0 where etcd does not report it."""
    members: Mapping[str, tuple[list[str], bool]] | None = None
    """Client addresses, and whether the member is a learner, by name."""
    alarms: tuple[str, ...] = ()
    unauthenticated: str | UnreadableValue = ""
    """Response to a client without a certificate; UnreadableValue for a time-out."""
    data: tuple[int, int] = (0, 0)
    """Owner and mode of the data directory."""


def parse_etcd(text: str) -> Etcd:
    """Return the member from one line of JSON."""
    found = json.loads(text)
    if found["error"]:
        return Etcd(answer_of("etcd", found["error"]))
    if not found["members"] or not found["version"]:
        raise ValueError("no members or no version")
    unauthenticated = answer_of("etcd without a certificate", found["unauthenticated"])
    return Etcd(**{**found, "unauthenticated": unauthenticated, "alarms": tuple(found["alarms"]), "data": tuple(found["data"])})


ETCD = Probe("etcd", on="kube_control_plane", command=query("etcd"), parse=parse_etcd, needs=(units.ETCD,))


def parse_address_present(text: str) -> bool:
    """Return whether an interface has the address, from `ip -json address show to ADDRESS`.

    >>> parse_address_present('[{},{"ifname":"eth0","addr_info":[{"local":"10.1.0.10"}]}]')
    True
    """
    return any(one.get("addr_info") for one in json.loads(text))


VIRTUAL_ADDRESS = Probe(
    "virtual-address",
    on="kube_control_plane",
    command=lambda context: f"ip -json -4 address show to {context.declared.cluster['scheduler']['virtual_address'] or '0.0.0.0'}/32",
    parse=parse_address_present,
)


@dataclass(frozen=True)
class SecretEncryption:
    """Encryption of secrets in etcd."""

    kinds: Mapping[str, int]
    """Number of secrets by encryption provider; `clear` for unencrypted ones."""
    clear: tuple[str, ...]
    """Some of the unencrypted secrets, as namespace/name."""
    next: str
    """The provider that encrypts the next secret."""


def parse_secrets(text: str) -> SecretEncryption:
    """Return the secrets from one line of JSON."""
    found = json.loads(text)
    return SecretEncryption(dict(found["kinds"]), tuple(found["clear"]), str(found["next"]))


SECRETS = Probe("kubernetes-secrets", on="kube_control_plane", command=query("secrets"), parse=parse_secrets, needs=(units.ETCD,))


def parse_manifests(text: str) -> dict[str, str]:
    """Return `as written`, `edited` or `missing` by static pod."""
    found: dict[str, str] = json.loads(text)
    if "kube-apiserver" not in found:
        raise ValueError("kube-apiserver is not listed")
    return found


MANIFESTS = Probe("kubernetes-manifests", on="kube_control_plane", command=query("manifests"), parse=parse_manifests)


@dataclass(frozen=True)
class AuditLog:
    """The end of the audit log."""

    is_recorded: bool
    """Whether the log has the request for secrets that was just sent and refused."""
    size: int
    lines: int
    secret_entries: tuple[str, ...]
    """Requests whose entries contain data of a secret."""


def parse_audit(text: str) -> AuditLog:
    """Return the audit log from one line of JSON."""
    found = json.loads(text)
    return AuditLog(**{**found, "secret_entries": tuple(found["secret_entries"])})


AUDIT = Probe("kubernetes-audit", on="kube_control_plane", command=query("audit"), parse=parse_audit, needs=OF_API)
"""Without etcd, the kubelet kills the API server, whose liveness probe fails (kube-apiserver(1), /livez), and no request ends."""
