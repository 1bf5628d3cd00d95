"""Stacks into which failures may be injected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.model.chaos import ChaosPermission
from rackwright.rules.registry import RuleContext, Violation, rule

_TARGETS: Final = ("lab", "vm")
"""Targets whose nodes this machine runs, so that it can stop and start them (drivers/node_kill.py)."""


@rule("chaos-target")
def chaos_target(case: RuleContext) -> Iterator[Violation]:
    """Failures are injected only into nodes that this machine runs: an injected failure of another machine may need a person to end it."""
    kind = case.cluster.target.kind
    if case.cluster.chaos is ChaosPermission.ALLOWED and kind not in _TARGETS:
        cause = f"`rackwright chaos` injects failures into nodes of the targets lab and vm only (found target {kind})"
        yield Violation("chaos", cause, "remove `chaos: allowed`")
