"""Clusters of committed stack files, and what an edit does in words."""

from __future__ import annotations

from typing import Any

from support.edited_stack import committed_stack, described, edited

from rackwright.impact import impact

LAB, HOSTS, KUBERNETES = committed_stack("lab"), committed_stack("budget-vms"), committed_stack("lab-k8s")


def consequences(declared: dict[str, Any], **fields: Any) -> list[str]:
    """Return what the edit does, in words."""
    found = impact(described(declared), described(edited(declared, **fields)))
    return [str(consequence).splitlines()[0] for consequence in found]
