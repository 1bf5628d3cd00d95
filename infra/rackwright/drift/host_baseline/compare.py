"""Compare a node's current state with its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rackwright.drift.categories import categories
from rackwright.drift.difference import Category, DriftItem, Layer

Kinds = Mapping[str, Mapping[str, str]]
"""State of one node: kind -> name -> value."""
NOTHING: Final = "nothing"
INSTANCE_KEY: Final = "life"
TEMPORARY: Final = frozenset({"reservations"})
"""Kinds whose values end by themselves: only new and changed ones are differences."""
_SHOWN: Final = 8
"""Characters of a machine id in a report."""
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
"""Files that control logins, privileges and automatic execution."""


def differences(stack: str, node: str, was: Kinds, now: Kinds) -> Iterator[DriftItem]:
    """Yield the differences by kind and name. A kind that cannot be read now is skipped."""
    for kind in sorted(set(was) & set(now)):
        for name in sorted({*was[kind], *now[kind]} - {INSTANCE_KEY}):
            before, after = was[kind].get(name, NOTHING), now[kind].get(name, NOTHING)
            if before != after and not (kind in TEMPORARY and after == NOTHING):
                yield DriftItem(Layer.BEHAVIOUR, node, subject(kind, name), before, after, _category(kind, name), _remedy(stack, node))


def identity_difference(stack: str, node: str, was: str, now: str) -> DriftItem:
    """Return the difference of a node whose machine id changed. An id is confidential: only its beginning is shown (machine-id(5))."""
    before, after = (f"{one[:_SHOWN]}…" if one else NOTHING for one in (was, now))
    return DriftItem(
        Layer.BEHAVIOUR, node, subject("node", "machine-id"), before, after, categories().host_baseline["node"], _remedy(stack, node)
    )


def subject(kind: str, name: str) -> str:
    """Return the name of a trace, also used in `drift.ignore`.

    >>> subject("listening", "tcp 0.0.0.0 4444")
    'baseline.listening tcp 0.0.0.0 4444'
    """
    return f"baseline.{kind} {name}"


def _category(kind: str, name: str) -> Category:
    return Category.SECURITY if kind == "etc" and name.startswith(_GUARDED) else categories().host_baseline[kind]


def _remedy(stack: str, node: str) -> str:
    return (
        f"find out who made the change on {node}; undo it, declare it in the stack file, or accept it: "
        f"`rackwright drift {stack} --update-baseline` takes the current state as the new baseline"
    )
