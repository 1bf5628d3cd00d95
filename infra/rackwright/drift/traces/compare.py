"""What a node has now against what it had when all was well there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rackwright.drift.difference import Difference, Layer, Weight
from rackwright.drift.weights import weights

Kinds = Mapping[str, Mapping[str, str]]
"""What one node has: kind -> name -> what it is."""
NOTHING: Final = "nothing"
LIFE: Final = "life"
_GUARDED: Final = (
    "/etc/ssh/",
    "/etc/pam.d/",
    "/etc/sudoers",
    "/etc/security/",
    "/etc/cron",
    "/etc/profile",
    "/etc/ld.so.preload",
    "/etc/nftables",
)
"""Files that decide who gets in and as whom, or what runs unasked."""


def differences(stack: str, node: str, was: Kinds, now: Kinds) -> Iterator[Difference]:
    """By kind and name. A kind that could not be read now says nothing."""
    for kind in sorted(set(was) & set(now)):
        for name in sorted({*was[kind], *now[kind]} - {LIFE}):
            before, after = was[kind].get(name, NOTHING), now[kind].get(name, NOTHING)
            if before != after:
                yield Difference(Layer.BEHAVIOUR, node, subject(kind, name), before, after, _weight(kind, name), _remedy(stack, node))


def subject(kind: str, name: str) -> str:
    """How a trace is named, also in `drift.allow`.

    >>> subject("listening", "tcp 0.0.0.0 4444")
    'traces.listening tcp 0.0.0.0 4444'
    """
    return f"traces.{kind} {name}"


def _weight(kind: str, name: str) -> Weight:
    return Weight.SECURITY if kind == "etc" and name.startswith(_GUARDED) else weights().traces[kind]


def _remedy(stack: str, node: str) -> str:
    return (
        f"find out who made the change on {node}; undo it, declare it in the stack file, or accept it: "
        f"`rackwright drift {stack} --accept` takes the current state as the new baseline"
    )
