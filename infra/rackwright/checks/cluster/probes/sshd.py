"""Probes of a node's ssh server: its settings on disk, the authentication methods of the running server, and its host keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext, scaled
from rackwright.checks.cluster.harness.tool_output import lines_of
from rackwright.checks.cluster.probes.units import SSH_SERVERS
from rackwright.stackfile.fingerprints import is_hash_of


def parse_settings(text: str) -> dict[str, str]:
    """Return settings by name in lower case from `sshd -T`, one setting per line. Values of a repeated setting are joined.

    OpenSSH 10.6 prints the names as sshd_config(5) spells them, earlier releases in lower case.
    """
    settings: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if not re.fullmatch(r"[A-Za-z0-9]+", name):  # a warning about the file
            continue
        name = name.lower()
        settings[name] = f"{settings[name]} {value}" if name in settings else value
    if "permitrootlogin" not in settings:
        raise ValueError("no settings of sshd")
    return settings


SETTINGS = Probe("sshd-settings", on="nodes", command="sshd -T", parse=parse_settings)


def parse_auth_methods(text: str) -> tuple[str, ...]:
    """Return the authentication methods in ssh's error `root@127.0.0.1: Permission denied (publickey,password).`

    >>> parse_auth_methods("nobody@127.0.0.1: Permission denied (publickey,password).")
    ('password', 'publickey')
    """
    for line in text.splitlines():
        if "Permission denied (" in line:
            return tuple(sorted(line.rpartition("(")[2].rstrip(").").split(",")))
    raise ValueError("sshd did not list its authentication methods")


def _offer_command(context: ProbeContext) -> str:
    """Return a command that connects without a key to the node's own address. sshd imposes no penalty on the cluster's network."""
    options = (
        "BatchMode=yes",
        "PreferredAuthentications=none",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
    )
    where = f"-p {context.node['ssh_port']} root@{context.node['address']}"
    return f"ssh -F none {' '.join(f'-o {option}' for option in options)} -o ConnectTimeout={scaled(3)} {where} true 2>&1"


OFFER = Probe(
    "sshd-offer",
    on="nodes",
    command=_offer_command,
    parse=parse_auth_methods,
    needs=SSH_SERVERS,
    statuses=frozenset({255}),
)


@dataclass(frozen=True)
class HostKeys:
    """Host keys of a node."""

    public: dict[str, str]
    """Base64 of the public key by type."""
    exposed: tuple[str, ...]
    """Private key files that users other than the owner may read, with their mode."""


_KEY_READERS: Final = "ssh_keys"
"""Group without members that ssh-keysign of Enterprise Linux up to 9 runs as: its host keys have mode 0640 (openssh, sshd-keygen)."""


def parse_host_keys(text: str) -> HostKeys:
    """Return the host keys from lines `public TYPE KEY` and `private PATH MODE OWNER GROUP`. Other lines are warnings."""
    public: dict[str, str] = {}
    exposed: list[str] = []
    privates = 0
    for line in lines_of(text):
        what, *rest = line.split()
        if what == "public":
            public |= {rest[0]: rest[1]} if len(rest) > 1 else {}  # ssh-keygen refuses a private key that others may read
        elif what == "private":
            path, mode, owner, *group = rest
            privates += 1
            allowed = 0o640 if group == [_KEY_READERS] else 0o600
            if int(mode, 8) & ~allowed or owner != "root":
                exposed.append(f"{path} {mode} {owner}")
    if not privates:
        raise ValueError("no host key found")
    return HostKeys(public, tuple(exposed))


HOST_KEYS = Probe(
    "host-keys",
    on="nodes",
    # The key is derived from the private file. The .pub file beside it may differ.
    command="command -v ssh-keygen >/dev/null || exit 127; "
    "cd /etc/ssh; for k in ssh_host_*_key; do echo public $(ssh-keygen -y -f $k 2>/dev/null); stat -c 'private %n %a %U %G' $k; done",
    parse=parse_host_keys,
)


def parse_known_hosts(text: str) -> dict[str, dict[str, str]]:
    """Return base64 keys by type by host name, from a known_hosts file of this machine."""
    pinned = PinnedKeys()
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and not words[0].startswith(("#", "@")):
            for name in words[0].split(","):
                pinned.setdefault(name, {})[words[1]] = words[2]
    return pinned


class PinnedKeys(dict[str, dict[str, str]]):
    """Keys by host name. A hashed name (`HashKnownHosts yes`) is found by the name that it hashes: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT."""

    def __missing__(self, name: str) -> dict[str, str]:
        """Return the keys of a hashed name. Raise KeyError if there is none."""
        for hashed, keys in self.items():
            if is_hash_of(hashed, name):
                return keys
        raise KeyError(name)
