"""The look at configuration: nodes are asked what the phases asked them when all was well; where one answers otherwise, the phases are.

What a run of the phases does follows from their text, the hand-over, and what nodes answer. While all three are as they were when the
phases would have changed nothing, they would change nothing now. Where they are not, the phases themselves look, in check mode.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from rackwright.cli.connect import load
from rackwright.drift import configuration
from rackwright.drift.answers import record
from rackwright.drift.difference import CLUSTER, Layer, Look
from rackwright.handover import is_baked, paths
from rackwright.provider.drivers import ansible, answers, asking, ssh
from rackwright.provider.drivers.awake import awake, handed_over
from rackwright.report.declared import Declared, from_inventory

Saying = Callable[[str], Awaitable[None]]
_REACH: Final = 10.0
"""Seconds a node that was there may take to answer when it is only looked at."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A stack, and all that decides what the phases do there."""

    stack: str
    declared: Declared
    cluster: Mapping[str, Any]

    @property
    def playbook(self) -> str:
        """The phases; with the user's own among them where there are any."""
        own = paths.site(self.stack)
        return str(own) if own.exists() else "site.yml"

    @property
    def skipped(self) -> tuple[str, ...]:
        """Tags of what is in the machines' image."""
        return ("install",) if is_baked(self.cluster) else ()

    @property
    def inputs(self) -> str:
        """Empty where the user's own playbooks decide as well: nobody knows which files those read."""
        if paths.site(self.stack).exists():
            return ""
        given = [paths.inventory(self.stack), paths.secrets(self.stack), paths.ssh_config(self.stack)]
        return answers.inputs(paths.project_root(), given, [self.playbook, *self.skipped, _applied(self.stack)])

    @property
    def root(self) -> dict[str, bool]:
        """Node -> whether who logs in there has to become root."""
        return {name: self.declared.becomes_root(name) for name in self.declared.nodes}


async def look(stack: str, say: Saying) -> Look:
    """What the phases would change."""
    began = time.monotonic()
    found = load(stack)
    asked = Asked(stack, from_inventory(found), found["all"]["vars"]["cluster"])
    async with awake(stack, handed_over(paths.inventory(stack)), say):
        lost = await ssh.reach(stack, asked.declared.nodes, within=_REACH)
        kept, inputs = record.read(paths.answers(stack)), asked.inputs
        why = ""
        if kept and inputs and not lost and kept.usable(inputs, datetime.now(UTC)):
            others = await _others(asked, kept)
            if not others:
                how = f"nodes answer as on {kept.when:%Y-%m-%d %H:%M} UTC, when the phases looked and would have changed nothing"
                return Look(Layer.CONFIGURATION, time.monotonic() - began, how=how)
            why = "; ".join(f"{node} answers otherwise to `{task}`" for node, task in others)
        return await _phases(asked, lost, inputs, say, began, why)


async def _others(asked: Asked, kept: record.Record) -> tuple[tuple[str, str], ...]:
    """(node, task) where an answer is another one than it was, or did not come."""
    side = files("rackwright.drift.answers").joinpath("side.py").read_text(encoding="utf-8")
    programs = answers.programs(side, paths.project_root(), kept.calls, record.modules(kept))
    told, _ = await asking.ask(asked.stack, programs, asked.root)
    return kept.others({node: each["answers"] for node, each in told.items()})


async def _phases(asked: Asked, lost: Mapping[str, str], inputs: str, say: Saying, began: float, why: str) -> Look:
    """The phases in check mode on every node that answers; where they find nothing, what nodes answered is kept."""
    reached = [name for name in asked.declared.nodes if name not in lost]
    with tempfile.TemporaryDirectory(prefix=".answers-", dir=paths.folder(asked.stack)) as folder:
        notes = Path(folder) / "notes"
        applied = await _played(asked, reached if lost else [], notes, say) if reached else ansible.Applied()
        looked = _read(asked.stack, applied, lost, time.monotonic() - began, why)
        if inputs and not (looked.differences or looked.unknown or applied.status):
            _keep(asked, inputs, notes)
    return looked


async def _played(asked: Asked, limit: list[str], notes: Path, say: Saying) -> ansible.Applied:
    return await ansible.play(
        paths.project_root(),
        asked.playbook,
        inventory=paths.inventory(asked.stack),
        extra_vars=[paths.secrets(asked.stack)],
        limit=limit,
        skip_tags=asked.skipped,
        check=True,
        answers=notes,
        on_progress=say,
    )


def _read(stack: str, applied: ansible.Applied, lost: Mapping[str, str], seconds: float, why: str) -> Look:
    """What the phases said."""
    failed = [asdict(one) for one in (*applied.unreachable, *applied.failed)]
    looked = configuration.look(stack, seconds, [asdict(one) for one in (*applied.changed, *applied.rolls)], failed)
    silent = tuple(lost.items()) + (((CLUSTER, applied.message),) if applied.status and applied.message and not failed else ())
    how = f"the phases looked: {why}" if why else "the phases looked"
    return Look(looked.layer, looked.seconds, looked.differences, (*silent, *looked.unknown), how)


def _keep(asked: Asked, inputs: str, notes: Path) -> None:
    """For the next look; what could not be noted whole takes away what was kept before."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    found = record.gathered(lines, inputs, datetime.now(UTC), asked.root)
    if found:
        record.write(found, paths.answers(asked.stack))
    else:
        paths.answers(asked.stack).unlink(missing_ok=True)


def _applied(stack: str) -> str:
    """Changes with every `up` that applies something."""
    file = paths.applied(stack)
    return f"{file.stat().st_mtime_ns}" if file.exists() else ""
