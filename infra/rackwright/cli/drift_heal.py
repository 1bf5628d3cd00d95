"""How drift is taken back: the `up --refresh` that looks at the named layers and applies what is declared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from rackwright.drift.difference import Layer
from rackwright.handover import paths
from rackwright.provider.resource import ONLY

_HOSTS: Final = ("**::rackwright:ansible:Converge::*", "**::rackwright:test:Verification::*")
"""The two resources that stand for what is on the hosts."""


@dataclass(frozen=True, slots=True)
class Way:
    """What will be run, and what it does, in words for who has to live with it."""

    words: str
    targets: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, stack: str) -> list[str]:
        """Pulumi's, without the program.

        >>> Way("", ("a",)).arguments("lab")
        ['up', '--stack', 'lab', '--refresh', '--yes', '--skip-preview', '--target', 'a']
        """
        chosen = [word for target in self.targets for word in ("--target", target)]
        return ["up", "--stack", stack, "--refresh", "--yes", "--skip-preview", *chosen]


def way(layers: Collection[Layer]) -> Way:
    """The smallest run that takes back the differences of these layers. Behaviour has no other cure than what is on the hosts."""
    if set(layers) == {Layer.RESOURCES}:
        words = "healing resources: what is gone or stopped is made or started again; a node that was made anew is converged and checked"
        return Way(words, environment={ONLY: Layer.RESOURCES.value})
    if Layer.RESOURCES not in layers:
        words = "healing what is on the hosts: the phases are applied to every node that is there, then the checks of the stack's level run"
        return Way(words, _HOSTS)
    return Way(
        "healing all layers: what is gone or stopped is made or started again, the phases are applied where they differ, then the checks"
    )


def run(stack: str, chosen: Way) -> bool:
    """Let Pulumi do it; what it says goes to standard error, since a document may follow. Whether all of it came back."""
    from rackwright.cli.move import engine

    done = subprocess.run(
        [str(engine()), *chosen.arguments(stack)],
        cwd=paths.project_root(),
        env={**os.environ, **chosen.environment},
        stdout=sys.stderr,
        check=False,
    )
    return not done.returncode
