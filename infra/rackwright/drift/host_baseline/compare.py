"""Compare a node's current state with its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rackwright.drift.categories import categories
from rackwright.drift.difference import Category, DriftItem, Layer
from rackwright.remote.programs.unread_lines import UNREAD

Kinds = Mapping[str, Mapping[str, str]]
"""State of one node: kind -> name -> value."""
NOTHING: Final = "nothing"
INSTANCE_KEY: Final = "life"
BOOT_KEYS: Final = ("boot", "booted")
"""Facts of a node's boot, compared by boots.py."""
TEMPORARY: Final = frozenset({"reservations"})
"""Kinds whose values end by themselves: only new and changed ones are differences."""
_HARMLESS_ADDITIONS: Final = frozenset({"accounting"})
"""Kinds to which an administrator may add entries by hand: an addition affects no one else, a change or removal does."""
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
    """Yield the differences by kind and name. What cannot be read is skipped: a kind, a value, or a name that may be in an unread part."""
    for kind in sorted(set(was) & set(now)):
        for name in sorted({*was[kind], *now[kind]} - {INSTANCE_KEY, UNREAD, *BOOT_KEYS}):
            before, after = was[kind].get(name, NOTHING), now[kind].get(name, NOTHING)
            skipped = is_unread(was[kind], name) or is_unread(now[kind], name) or (kind in TEMPORARY and after == NOTHING)
            if not _is_same(kind, before, after) and not skipped:
                category, remedy = _category(kind, name, before), _remedy(stack, node, kind)
                yield DriftItem(Layer.BEHAVIOUR, node, subject(kind, name), before, after, category, remedy)


def _is_same(kind: str, before: str, after: str) -> bool:
    """Return whether two values are equal. The kernel lists routes to one network in the order in which their links came up.

    Every link with IPv6 has a route to fe80::/64.
    """
    return before == after or (kind == "routes" and sorted(before.split("; ")) == sorted(after.split("; ")))


def is_unread(part: Mapping[str, str], name: str) -> bool:
    """Return whether the value of a name is not known: it was not read, or the name may be in a part that was not read."""
    return part.get(name) == UNREAD or (name not in part and UNREAD in part)


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


def _category(kind: str, name: str, before: str) -> Category:
    if kind in _HARMLESS_ADDITIONS and before == NOTHING:
        return Category.BENIGN
    return Category.SECURITY if kind == "etc" and name.startswith(_GUARDED) else categories().host_baseline[kind]


def _remedy(stack: str, node: str, kind: str = "") -> str:
    undo = _REMEDIES.get(kind, f"find out who made the change on {node}; undo it, declare it in the stack file, or accept it:")
    return f"{undo} `rackwright drift {stack} --update-baseline` takes the current state as the new baseline"


_REMEDIES: Final = {
    "accounting": (
        "find out who made the change in Slurm's accounting; add the account, user or QOS to the stack file (`scheduler.accounts`, "
        "`scheduler.qos`, `users`), undo the change with sacctmgr, or accept it:"
    )
}
"""Remedies of kinds whose entries a stack file can declare."""
