"""Reconciliation of drift: the `pulumi up --refresh` that compares the chosen layers and applies the declaration."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from rackwright.drift.difference import Layer
from rackwright.drift.document import DriftReport
from rackwright.drivers import pulumi
from rackwright.drivers.shown_process import STDERR, run_shown
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths

_HOSTS: Final = ("**::rackwright:ansible:Converge::*", "**::rackwright:test:Verification::*")
"""The two resources that represent the state of the hosts."""


@dataclass(frozen=True, slots=True)
class PulumiRun:
    """A `pulumi up` with its targets and environment, and a description for the user."""

    description: str
    targets: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, stack: str) -> list[str]:
        """Return the arguments of `pulumi`, without the program.

        >>> PulumiRun("", ("a",)).arguments("lab")
        ['up', '--stack', 'lab', '--refresh', '--yes', '--skip-preview', '--target', 'a']
        """
        chosen = [word for target in self.targets for word in ("--target", target)]
        return ["up", "--stack", stack, "--refresh", "--yes", "--skip-preview", *chosen]


def reconcile(stack: str, layers: Collection[Layer], found: DriftReport, say: Callable[[str], None]) -> bool | None:
    """Reconcile the differences of these layers; `say` receives the plan before it is carried out.

    Return whether `pulumi up` succeeded, or None if the scan found nothing to reconcile.
    """
    if not any(one.layer in layers for one in found.differences) and not any(layer in layers for layer, _, _ in found.unknown):
        say(f"nothing to reconcile in {', '.join(layer.value for layer in layers)}")
        return None
    chosen = choose_run(layers)
    say(f"{chosen.description}\n  pulumi {' '.join(chosen.arguments(stack))}")
    reconciled = run(stack, chosen)
    if not reconciled:
        say(f"stack {stack}: some differences remain; errors above, differences below")
    return reconciled


def choose_run(layers: Collection[Layer]) -> PulumiRun:
    """Return the smallest run that reconciles these layers. Behaviour is reconciled by configuring the hosts."""
    if set(layers) == {Layer.RESOURCES}:
        words = "reconciling resources: recreate missing resources, start stopped ones, then configure and verify recreated nodes"
        return PulumiRun(words, environment={pulumi.REFRESH_SCOPE_ENV: Layer.RESOURCES.value})
    if Layer.RESOURCES not in layers:
        words = "reconciling the hosts: apply the playbooks to every existing node, then run the checks of the stack's level"
        return PulumiRun(words, _HOSTS)
    return PulumiRun(
        "reconciling all layers: recreate missing resources, start stopped ones, apply the playbooks to changed nodes, then run the checks"
    )


def run(stack: str, chosen: PulumiRun) -> bool:
    """Run Pulumi and return whether it succeeded. Its output goes to standard error, because JSON may follow on standard output.

    Raises UndeterminedError if it was interrupted.
    """
    command = [str(pulumi.executable()), *chosen.arguments(stack)]
    ended = run_shown(command, cwd=paths.project_root(), env={**os.environ, **chosen.environment}, to=STDERR)
    if ended.was_interrupted:
        hint = "run the same command again to reconcile the rest"
        raise UndeterminedError("the reconciliation was interrupted; nothing was scanned after it", path=f"stack {stack}", hint=hint)
    return not ended.status
