"""Rolling update: nodes are drained, changed, verified and only then returned to service, a few at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from rackwright.drivers import ansible

Say = Callable[[str], Awaitable[None]]


def batches(nodes: Sequence[str], size: int) -> Iterator[list[str]]:
    """Yield the canary alone, then batches of a size.

    >>> list(batches(["w0", "w1", "w2", "w3"], 2))
    [['w0'], ['w1', 'w2'], ['w3']]
    """
    yield list(nodes[:1])
    for start in range(1, len(nodes), size):
        yield list(nodes[start : start + size])


@dataclass
class RollingUpdateResult:
    """Result of a rolling update."""

    nodes: list[str] = field(default_factory=list)
    """Nodes that are back in service."""
    changed: list[ansible.TaskResult] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why it stopped; empty after a complete update."""


@dataclass(frozen=True)
class RollingUpdate:
    """Input of a rolling update of a stack's nodes."""

    root: Path
    inventory: Path
    secrets: Path
    skip_tags: Sequence[str]
    batch: int
    reboot: bool = False
    site: str = "site.yml"
    """The table of contents: the product's, or the stack's with the user's own playbooks."""
    around: Callable[[Sequence[str]], AbstractAsyncContextManager[None]] = lambda _: nullcontext()
    """The context of each batch, by its nodes."""
    record: Path | None = None
    """File to which task results are appended."""

    async def run(self, nodes: Sequence[str], say: Say, progress: Say) -> RollingUpdateResult:
        """Update the nodes in their order; the first failure ends the update, and later nodes are not touched."""
        done = RollingUpdateResult()
        for group in batches(nodes, self.batch):
            await say(f"rolling {', '.join(group)} ({len(done.nodes)} of {len(nodes)} done)")
            async with self.around(group):
                reasons = await self._update(group, done, progress)
            if reasons:
                done.reasons = [*reasons, stopped(nodes, done.nodes, group)]
                return done
            done.nodes += group
        return done

    async def _update(self, group: Sequence[str], done: RollingUpdateResult, progress: Say) -> Sequence[str]:
        """Drain, change and resume a batch; return why that failed."""
        for playbook, limit in (("drain-nodes.yml", ()), (self.site, group), ("resume-nodes.yml", ())):
            applied = await self._play(playbook, group, limit, progress)
            done.changed += applied.changed
            if applied.reasons:
                return applied.reasons
        return ()

    async def _play(self, playbook: str, group: Sequence[str], limit: Sequence[str], progress: Say) -> ansible.PlaybookResult:
        """Run one playbook for a group of nodes; `nodes_in_maintenance` lists the drained nodes for the roles."""
        return await ansible.play(
            self.root,
            playbook,
            inventory=self.inventory,
            extra_vars=[self.secrets],
            values={"nodes_in_maintenance": list(group), "roll_reboot": self.reboot},
            limit=limit,
            skip_tags=self.skip_tags,
            record=self.record,
            on_progress=progress,
        )


def stopped(nodes: Sequence[str], done: Sequence[str], group: Sequence[str]) -> str:
    """Return where the update stopped, and how to continue."""
    left = [name for name in nodes if name not in done and name not in group]
    untouched = f"; not touched: {', '.join(left)}" if left else ""
    return (
        f"{', '.join(group)}: the rolling update stopped here with this batch drained{untouched} - repair the cause above, "
        "then run the same command again: it continues with the remaining nodes"
    )
