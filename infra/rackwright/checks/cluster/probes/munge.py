"""Probes of munge: a digest of the digest of the shared key, so that nothing of the key leaves the node, and credentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext, ProbeStage
from rackwright.checks.cluster.harness.tool_output import MissingAnswer, UnreadableValue, answer_of, lines_of
from rackwright.errors import UndeterminedError


@dataclass(frozen=True)
class Key:
    """The key file, without its content."""

    digest: str
    mode: str
    owner: str


def parse_key(text: str) -> Key:
    """Return the key file from one line of digest, mode and owner."""
    digest, mode, owner = text.split()
    if len(digest) != 64:
        raise ValueError("no sha256 digest")
    return Key(digest, mode, owner)


KEY = Probe(
    "munge-key",
    on="slurm",
    command="set -e; cd /etc/munge; d=$(sha256sum < munge.key); "
    "echo $(printf %s ${d%% *} | sha256sum | cut -c 1-64) $(stat -c '%a %U:%G' munge.key)",
    parse=parse_key,
)


def parse_credential(text: str) -> str:
    """Return the only credential, which needs no escape between quotes of a shell command. Warnings in other lines are ignored."""
    found = [line.strip() for line in lines_of(text) if line.startswith("MUNGE:")]
    if len(found) != 1 or not found[0].endswith(":") or not set(found[0]) <= _ALPHABET:
        raise ValueError("no credential")
    return found[0]


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:")

CREDENTIAL = Probe("munge-credential", on="slurm", command="munge --no-input", parse=parse_credential, needs=("munge.service",))


_REPLAYED: Final = "Replayed credential"


def parse_decoded(text: str) -> str | UnreadableValue:
    """Return the status of unmunge, as `Success` of `Success (0)`; UnreadableValue for a time-out or a credential already decoded.

    munged decodes a credential once, and a further round after a time-out sends the same credential.

    >>> parse_decoded("STATUS:           Invalid credential (8)\\nENCODE_HOST: n")
    'Invalid credential'
    """
    for line in text.splitlines():
        if line.lower().startswith(("status:", "unmunge: error:")):
            status = line.split(":")[-1].rpartition("(")[0].strip() or line.split(":")[-1].strip()
            return MissingAnswer("unmunge", f"{status}: asked twice") if status == _REPLAYED else answer_of("unmunge", status)
    raise ValueError("unmunge printed no status")


def partner(context: ProbeContext) -> str:
    """Return the node whose credential this node decodes: the first other Slurm node with a credential. A single node decodes its own."""
    members = context.declared.members("slurm")
    others = [name for name in members if name != context.node["name"]] or list(members)
    for name in others[:-1]:
        try:
            context.earlier_result(CREDENTIAL, name)
        except UndeterminedError:
            continue
        return name
    return others[-1]


DECODED = Probe(
    "munge-decoded",
    on="slurm",
    command=lambda context: (
        f"printf %s '{context.earlier_result(CREDENTIAL, partner(context))}' | unmunge --no-output --metadata=/dev/stdout 2>&1"
    ),
    parse=parse_decoded,
    needs=("munge.service",),
    stage=ProbeStage.SECOND,
    statuses=frozenset(range(126)),
)
