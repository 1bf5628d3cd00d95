"""End of a Pulumi run: export the stack outputs and print the verdict, even if nothing ran."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pulumi

from rackwright.inventory import paths
from rackwright.plan import Plan
from rackwright.report import document, humanize
from rackwright.report.document import Report
from rackwright.targets.resources import Converge, Verification

_BEGAN = datetime.now(UTC)


def export(plan: Plan, converge: Converge, verification: Verification) -> None:
    """Export the stack outputs: the verdict, the converge result, the ssh configuration and the node names."""
    pulumi.export("verdict", verification.verdict)
    pulumi.export("converged", converge.converged)
    pulumi.export("ssh_config", f".rackwright/{plan.stack}/ssh_config")
    pulumi.export("nodes", [node.name for node in plan.nodes])
    if not pulumi.runtime.is_dry_run():
        verification.run.apply(lambda _: pulumi.log.info(_last_words(plan.stack)))


def _last_words(stack: str) -> str:
    """Return the full report if checks ran in this run, else the last verdict with its age."""
    file = paths.report(stack)
    if not file.exists():
        return f"no verdict recorded: run `rackwright verify {stack}`"
    report = document.read(file)
    ended = report.started + timedelta(seconds=report.seconds)
    return _table(report) if ended > _BEGAN else f"no changes. {stack}: {humanize.verdict_line(report)}"


def _table(report: Report) -> str:
    from rich.console import Console

    from rackwright.report import terminal

    console = Console(width=100, color_system=None, force_terminal=False)
    with console.capture() as captured:
        terminal.show(report, console)
    return "\n" + captured.get().rstrip()
