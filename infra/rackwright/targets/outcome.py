"""What a run ends with: stack outputs, and the verdict on the screen, also when nothing ran."""

from __future__ import annotations

import pulumi

from rackwright.plan import Plan
from rackwright.targets.resources import Converge, Verification


def export(plan: Plan, converge: Converge, verification: Verification) -> None:
    """Export what a person asks for next: the verdict, and how to get in."""
    pulumi.export("verdict", verification.verdict)
    pulumi.export("converged", converge.converged)
    pulumi.export("ssh_config", f".rackwright/{plan.stack}/ssh_config")
    pulumi.export("nodes", [node.name for node in plan.nodes])
