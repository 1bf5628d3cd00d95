"""The acceptance test of a running stack: jobs of an unprivileged user, phase by phase."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rackwright.catalog.checks import Level
from rackwright.drivers import power
from rackwright.drivers.acceptance_runner import run_acceptance
from rackwright.drivers.check_runner import Progress
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_up
from rackwright.operations.monitoring.publication import publish_acceptance
from rackwright.report import acceptance
from rackwright.report.acceptance import Acceptance


@dataclass(frozen=True, slots=True)
class RecordedAcceptance:
    """The result of an acceptance test and the JSON text that it was read from."""

    acceptance: Acceptance
    text: str


def accept(
    stack: str,
    level: Level,
    on_progress: Progress,
    say: Callable[[str], None],
    *,
    phases: Sequence[str] = (),
    keep_going: bool = False,
    user: str | None = None,
    bisect: bool = False,
) -> RecordedAcceptance:
    """Run the acceptance test and return its result. With `phases` only those run, and the cluster verdict is left unchanged.

    `bisect`: search what makes a collective slow, right away, or after `phases` unless all of them passed.

    The report of an earlier run is deleted first, so that a report that exists afterwards belongs to this run. At Ctrl-C the run
    cancels its jobs and reports the phases that ended. `say` receives why the results could not be written as metrics.

    Raises InputError if the stack is not up or an argument is invalid, UndeterminedError if the run writes no report.
    """
    require_up(stack)
    if level is Level.CHECKS:
        hint = f"run `rackwright verify {stack}` for the read-only checks"
        raise InputError("runs no jobs (expected smoke or full)", path="--level checks", hint=hint)
    options = [*(f"--phase={name}" for name in phases), f"--level={level.value}", *(["--keep-going"] if keep_going else [])]
    options += ["--bisect"] if bisect else []
    file = paths.partial_acceptance(stack) if phases or bisect else paths.acceptance(stack)
    file.unlink(missing_ok=True)
    try:
        status, output = asyncio.run(_run(stack, [*options, *([f"--user={user}"] if user else [])], on_progress))
    except KeyboardInterrupt:
        status, output = UndeterminedError.exit_code, "interrupted before the first phase"
    if status == InputError.exit_code:
        raise InputError(output)
    if not file.exists():
        raise UndeterminedError(f"the acceptance run wrote no report; output: {output or 'none'}", path=f"stack {stack}")
    found = RecordedAcceptance(acceptance.read(file), file.read_text(encoding="utf-8"))
    for failure in asyncio.run(publish_acceptance(paths.inventory(stack), found.acceptance)):
        say(failure)
    return found


async def _run(stack: str, options: Sequence[str], on_progress: Progress) -> tuple[int, str]:
    """Run the acceptance test while the nodes are powered on; return its exit status and standard error."""
    inventory = paths.inventory(stack)
    async with power.wake_nodes(stack, power.from_inventory(inventory), on_progress):
        return await run_acceptance(inventory, paths.ssh_config(stack), options, on_progress)
