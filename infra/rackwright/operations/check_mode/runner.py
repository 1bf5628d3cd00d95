"""Scan of the changes that the phases would make: replay the recorded module calls; if a result differs, run the phases in check mode.

A run of the phases depends on their text, the inventory, and the results of module calls on nodes. If all three are the same as in a run
without changes, the phases would change nothing now. If one of them differs, the phases run in check mode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from rackwright import layout
from rackwright.drift.difference import ScanMethod
from rackwright.drivers import ansible, remote_exec
from rackwright.drivers.ansible_child import private_tempdir
from rackwright.drivers.bmc.archive import archive_digest
from rackwright.drivers.power import switches_machines
from rackwright.inventory import control_files, paths
from rackwright.inventory.reader import load_document
from rackwright.model.hostlists import compressed
from rackwright.operations.check_mode import recording, replay, secret_placeholders, suspended_daemons
from rackwright.operations.check_mode.suspended_daemons import Suspended
from rackwright.time_limits import slowness

ProgressCallback = Callable[[str], Awaitable[None]]
DEFAULT_SITE: Final = "site.yml"
_ANSWER: Final = 2.0
"""Seconds for the answer of a node, beyond the time of its calls, on a machine of slowness 1."""


@dataclass(frozen=True)
class PlaybookRun:
    """The phases of a stack, and all inputs that determine their outcome, except the nodes' results."""

    stack: str
    inventory: Path
    secrets: Path
    site: str = DEFAULT_SITE
    """Playbook with all phases: the product's, or a copy next to the inventory if the user has playbooks of their own."""
    skip_tags: tuple[str, ...] = ()

    @property
    def inputs(self) -> str:
        """Return the digest of the inputs; empty with the user's own playbooks, because the files that they read are unknown.

        Empty as well if a secret is too short to be masked in a record.
        """
        cluster = self._all["vars"]["cluster"]
        if self.site != DEFAULT_SITE or any(secret_placeholders.is_too_short(text) for text in control_files.secret_texts(cluster)):
            return ""
        given = [self.inventory, self.secrets, paths.ssh_config(self.stack), *control_files.named_files(cluster)]
        archive = [archive_digest()] if switches_machines(cluster["scheduler"]) else []
        return replay.inputs(layout.product_root(), given, [*self.skip_tags, _applied(self.stack), *archive])

    @cached_property
    def _all(self) -> dict[str, Any]:
        found: dict[str, Any] = load_document(self.inventory)["all"]
        return found

    @property
    def placeholders(self) -> dict[str, str]:
        """Return placeholder -> secret, for the secrets of the stack and those in files that the inventory names."""
        return secret_placeholders.read_secrets(self.secrets, control_files.secret_texts(self._all["vars"]["cluster"]))

    @property
    def target(self) -> str:
        """Return the target that provides the nodes."""
        return str(self._all["vars"]["cluster"]["target"])

    @property
    def root(self) -> dict[str, bool]:
        """Return node -> whether the login user of the node needs sudo."""
        return {name: self._all["hosts"][name]["node"]["user"] != "root" for name in self._all["children"]["nodes"]["hosts"]}

    def affected_hosts(self, others: Iterable[str]) -> list[str]:
        """Return the nodes for which the phases must run: these nodes and the controllers, whose results tasks on other nodes read."""
        wanted = {*others, *self._all["vars"]["cluster"]["scheduler"]["controllers"]}
        return [name for name in self.root if name in wanted]


@dataclass(frozen=True, slots=True)
class CheckModeResult:
    """The changes that the phases would make, the method by which they were found, and the reason for the method."""

    applied: ansible.PlaybookResult
    method: ScanMethod
    message: str
    incomplete: tuple[tuple[str, str], ...] = ()
    """(node, reason) of each node that was not compared completely, because a daemon is suspended."""


async def run(phases: PlaybookRun, lost: Mapping[str, str], say: ProgressCallback) -> CheckModeResult:
    """Scan every reachable node. `lost`: unreachable nodes; the phases then run on the others."""
    record, inputs, root = recording.read(paths.check_mode_cache(phases.stack)), phases.inputs, phases.root
    usable = record if record and inputs and not lost and record.is_valid_for(inputs, datetime.now(UTC)) else None
    reached = {name: sudo for name, sudo in root.items() if name not in lost}
    suspended = await suspended_daemons.read(phases.stack, reached, target=phases.target)
    if suspended:
        return await _run_around(phases, usable, suspended, list(reached), say)
    why = ""
    if usable:
        others, _ = await _changed_calls(phases, usable, root)
        if not others:
            when = f"{usable.when:%Y-%m-%d %H:%M} UTC"
            return CheckModeResult(
                ansible.PlaybookResult(),
                ScanMethod.CACHED,
                f"nodes answer as on {when}, when check mode ran and would have changed nothing",
            )
        why = f": {_describe_mismatches(others)}"
        limit = phases.affected_hosts(
            node for node, _ in others
        )  # If one node of many differs, the phases run on this node and not on all.
        if len(limit) < len(root):
            some = await _run_phases(phases, limit, say)
            if (some.changed or some.requires_drain) and not some.reasons:
                return CheckModeResult(some, ScanMethod.CHECK_MODE, f"check mode ran on {compressed(limit)}{why}")
    # The lines contain secrets until they are masked. The next scan deletes the lines of a killed one.
    with private_tempdir(paths.folder(phases.stack)) as folder:
        notes = Path(folder) / "notes"
        applied = await _run_phases(phases, list(reached), say, notes, lost=lost)
        if inputs and not (lost or applied.reasons or applied.changed or applied.requires_drain):
            _save(phases, inputs, root, notes)
    return CheckModeResult(applied, ScanMethod.CHECK_MODE, f"check mode ran{why}")


async def _run_around(
    phases: PlaybookRun, record: recording.Record | None, suspended: Suspended, reached: list[str], say: ProgressCallback
) -> CheckModeResult:
    """Run the phases where a unit is suspended, and compare the other nodes, both for a limited time: some tasks wait for the daemon.

    A task without a result counts as not compared, and not as unknown: the checks report the daemon.
    """
    factor = slowness()
    first = suspended_daemons.with_units(suspended)
    rest = [name for name in reached if name not in first]
    if record is None:  # Without a record of the other nodes, only the phases can compare them.
        first, rest = list(reached), []
    phases_s = suspended_daemons.PHASES_S * factor
    if rest and record is not None:
        replayed = _changed_calls(phases, record.only(rest), phases.root, seconds=suspended_daemons.REPLAY_S * factor)
        applied, (others, late) = await asyncio.gather(_run_phases(phases, first, say, limit_s=phases_s), replayed)
        if more := [name for name, _ in others]:
            applied = _joined(applied, await _run_phases(phases, more, say, limit_s=phases_s))
            first = [*first, *more]
    else:
        applied, late = await _run_phases(phases, first, say, limit_s=phases_s), ()
    without = {result.host for result in (*applied.failed, *applied.unreachable)}
    cut = applied.cut_after is not None or bool(applied.status and not without)
    incomplete = [name for name in reached if name in late or name in without or (cut and name in first)]
    kept = ansible.PlaybookResult(changed=applied.changed, requires_drain=applied.requires_drain)
    message = f"check mode ran on {compressed(first) or 'no node'}, because {suspended_daemons.described(suspended)}"
    message += f"; not compared completely: {compressed(incomplete)}" if incomplete else ""
    return CheckModeResult(kept, ScanMethod.CHECK_MODE, message, suspended_daemons.not_compared(incomplete, suspended))


def _joined(one: ansible.PlaybookResult, other: ansible.PlaybookResult) -> ansible.PlaybookResult:
    """Return the results of two runs on different nodes."""
    return ansible.PlaybookResult(
        status=one.status or other.status,
        failed=[*one.failed, *other.failed],
        unreachable=[*one.unreachable, *other.unreachable],
        changed=[*one.changed, *other.changed],
        requires_drain=[*one.requires_drain, *other.requires_drain],
        cut_after=one.cut_after or other.cut_after,
    )


def _describe_mismatches(others: Iterable[tuple[str, str]]) -> str:
    """Return the reason for the method: the nodes whose results differ, by task."""
    by_task: dict[str, list[str]] = {}
    for node, task in others:
        by_task.setdefault(task, []).append(node)
    words = ((task, nodes, "s" if len(nodes) == 1 else "") for task, nodes in by_task.items())
    return "; ".join(f"{compressed(nodes)} return{s} a different result for `{task}`" for task, nodes, s in words)


async def _changed_calls(
    phases: PlaybookRun, record: recording.Record, root: Mapping[str, bool], seconds: float | None = None
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return (node, task) of every call whose result differs or is missing, and the nodes that took longer than `seconds`."""
    requests = replay.requests(
        layout.product_root(),
        secret_placeholders.unmask(record.calls, phases.placeholders),
        recording.modules(record),
        seconds,
    )
    limit = {} if seconds is None else {"limit": seconds + _ANSWER * slowness()}
    responses, _ = await remote_exec.run_on_nodes(phases.stack, "module_replay", requests, root, target=phases.target, **limit)
    late = () if seconds is None else tuple(name for name in requests if name not in responses or responses[name]["late"])
    return record.mismatches({node: each["answers"] for node, each in responses.items()}, late), late


async def _run_phases(
    phases: PlaybookRun,
    nodes: list[str],
    say: ProgressCallback,
    notes: Path | None = None,
    limit_s: float | None = None,
    lost: Collection[str] = (),
) -> ansible.PlaybookResult:
    """Run the phases in check mode on these nodes. `lost`: unreachable nodes, which others may need."""
    if not nodes:
        return ansible.PlaybookResult()
    return await ansible.play(
        layout.product_root(),
        phases.site,
        inventory=phases.inventory,
        extra_vars=[phases.secrets],
        limit=nodes if len(nodes) < len(phases.root) else (),
        skip_tags=phases.skip_tags,
        check=True,
        answers=notes,
        limit_s=limit_s,
        lost=lost,
        on_progress=say,
    )


def _save(phases: PlaybookRun, inputs: str, root: Mapping[str, bool], notes: Path) -> None:
    """Save the record for the next scan; delete an earlier one if the new one is incomplete."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
    found = recording.from_recorder_lines(lines, inputs, datetime.now(UTC), root)
    if found:
        recording.write(
            replace(found, calls=secret_placeholders.mask(found.calls, phases.placeholders)),
            paths.check_mode_cache(phases.stack),
        )
    else:
        paths.check_mode_cache(phases.stack).unlink(missing_ok=True)


def _applied(stack: str) -> str:
    """Return a token that changes with every `up` that applies a change."""
    file = paths.applied(stack)
    return f"{file.stat().st_mtime_ns}" if file.exists() else ""
