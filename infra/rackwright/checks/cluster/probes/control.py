"""What a controller of Kubernetes says of its own parts: etcd, static pods, the audit log, how secrets lie at rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import Unread, answer_of
from rackwright.remote.command import python_command


def query(topic: str) -> str:
    """Return the command that queries a controller about one topic (rackwright.remote.programs.control_plane)."""
    return python_command("control_plane", {"topic": topic})


@dataclass(frozen=True)
class Etcd:
    """A member of etcd as it answers on its node."""

    trouble: str | Unread
    """Why it does not answer, Unread for a time-out; all else is empty then."""
    leader: str = "0"
    """Number of the member that leads; 0 where none does."""
    version: str = ""
    bytes: int = 0
    quota: int = 0
    """Bytes at which it takes no more; 0 where it does not say."""
    members: Mapping[str, tuple[list[str], bool]] | None = None
    """Client addresses, and whether it only learns yet, by name."""
    alarms: tuple[str, ...] = ()
    stranger: str | Unread = ""
    """What one without a certificate is told; Unread for a time-out."""
    data: tuple[int, int] = (0, 0)
    """Owner and mode of its folder."""


def parse_etcd(text: str) -> Etcd:
    """The one JSON line."""
    found = json.loads(text)
    if found["trouble"]:
        return Etcd(answer_of("etcd", found["trouble"]))
    if not found["members"] or not found["version"]:
        raise ValueError("no members or no version")
    stranger = answer_of("etcd without a certificate", found["stranger"])
    return Etcd(**{**found, "stranger": stranger, "alarms": tuple(found["alarms"]), "data": tuple(found["data"])})


ETCD = Probe("etcd", on="kube_control_plane", command=query("etcd"), parse=parse_etcd)


def parse_held(text: str) -> bool:
    """`ip -json address show to ADDRESS`: whether any interface has it.

    >>> parse_held('[{},{"ifname":"eth0","addr_info":[{"local":"10.1.0.10"}]}]')
    True
    """
    return any(one.get("addr_info") for one in json.loads(text))


HELD = Probe(
    "virtual-address",
    on="kube_control_plane",
    command=lambda place: f"ip -json -4 address show to {place.declared.cluster['scheduler']['virtual_address'] or '0.0.0.0'}/32",
    parse=parse_held,
)


@dataclass(frozen=True)
class Secrets:
    """Secrets at rest."""

    kinds: Mapping[str, int]
    """How many are encrypted by which provider; `clear` for those that are not."""
    clear: tuple[str, ...]
    """Some of those in clear, as namespace/name."""
    next: str
    """The provider for the next one that is written."""


def parse_secrets(text: str) -> Secrets:
    """The one JSON line."""
    found = json.loads(text)
    return Secrets(dict(found["kinds"]), tuple(found["clear"]), str(found["next"]))


SECRETS = Probe("kubernetes-secrets", on="kube_control_plane", command=query("secrets"), parse=parse_secrets)


def parse_manifests(text: str) -> dict[str, str]:
    """`as written`, `edited` or `missing`, by static pod."""
    found: dict[str, str] = json.loads(text)
    if "kube-apiserver" not in found:
        raise ValueError("kube-apiserver is not listed")
    return found


MANIFESTS = Probe("kubernetes-manifests", on="kube_control_plane", command=query("manifests"), parse=parse_manifests)


@dataclass(frozen=True)
class Audit:
    """The end of the audit log."""

    noted: bool
    """Whether a refused request for secrets, sent a moment ago, stands in it."""
    size: int
    lines: int
    told: tuple[str, ...]
    """Requests of which the contents of a secret were noted down."""


def parse_audit(text: str) -> Audit:
    """The one JSON line."""
    found = json.loads(text)
    return Audit(**{**found, "told": tuple(found["told"])})


AUDIT = Probe("kubernetes-audit", on="kube_control_plane", command=query("audit"), parse=parse_audit)
