"""An acceptance on a terminal: failures first, then one row per phase in order, then the verdict and the folder of the results."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rackwright.report.acceptance import Acceptance, PhaseReport, PhaseState
from rackwright.report.bisection_terminal import render_bisection
from rackwright.report.terminal import counts, render
from rackwright.report.verdict import Verdict


def show_acceptance(acceptance: Acceptance, console: Console, *, every: bool = False) -> None:
    """Print the acceptance; `every` lists each result as well."""
    parts: list[RenderableType] = [render(acceptance.report, table=_phases(acceptance))]
    if every:
        parts.insert(0, render(acceptance.report, every=True))
    if acceptance.bisection is not None:
        parts.append(render_bisection(acceptance.bisection))
    if acceptance.results:
        parts.append(Text(f"  as {acceptance.user}; results in {acceptance.results}", style="dim"))
    console.print(Group(*parts))


def _phases(acceptance: Acceptance) -> RenderableType:
    if not acceptance.phases:
        return Text("no phase ran", style="dim")
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("phase", no_wrap=True)
    for verdict in ("passed", "failed", "unknown", "skipped"):
        table.add_column(verdict, justify="right")
    table.add_column("evidence")
    for phase in acceptance.phases:
        table.add_row(Text(f"{phase.number} {phase.title}"), *_row(acceptance, phase))
    return table


def _row(acceptance: Acceptance, phase: PhaseReport) -> list[RenderableType]:
    mine = [check for check in acceptance.report.checks if check.subject == phase.name]
    if phase.state is not PhaseState.RAN:
        reason = phase.reason if phase.state is PhaseState.SKIPPED else "not run"
        return [*counts(mine), Text(f"({reason})", style="dim")]
    evidence = " + ".join(sorted({check.evidence.value for check in mine if check.verdict is not Verdict.SKIPPED}))
    return [*counts(mine), Text(evidence, style="magenta" if "simulated" in evidence else "")]
