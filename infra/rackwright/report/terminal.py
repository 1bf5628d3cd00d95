"""The report on a terminal: failures first, then one row per subject, then the checks that did not run, the verdict and its level."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rackwright.report.document import Report
from rackwright.report.humanize import headline
from rackwright.report.result import Result
from rackwright.report.unreachable import unreachable_nodes
from rackwright.report.verdict import Verdict

_COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.UNKNOWN: "yellow", Verdict.SKIPPED: "dim"}
_MARKS = {Verdict.PASSED: "✓", Verdict.FAILED: "✗", Verdict.UNKNOWN: "?", Verdict.SKIPPED: "-"}
_MOST_ALIKE = 3
"""Maximum number of nodes to name if a check has the same result on many."""


def show(report: Report, console: Console, *, every: bool = False) -> None:
    """Print the report; `every` lists each result instead of one row per subject."""
    console.print(render(report, every=every))


def render(report: Report, *, every: bool = False, table: RenderableType | None = None) -> RenderableType:
    """Return the report as a rich renderable for 80 columns; `table` replaces the table of subjects."""
    wrong = [check for check in report.checks if check.verdict in (Verdict.FAILED, Verdict.UNKNOWN)]
    wrong.sort(key=lambda check: (check.verdict is Verdict.UNKNOWN, check.id.split("[")[0]))
    nodes = unreachable_nodes(wrong)
    parts: list[RenderableType] = [_unreachable_node(node, reason, count) for (node, reason), count in nodes.items()]
    rest = [check for check in wrong if (check.node, check.reason) not in nodes]
    parts += [_finding(list(alike)) for _, alike in groupby(rest, key=_group_key)]
    parts.append(table or (_every(report) if every else _subjects(report)))
    parts += [Text(f"{node['name']} is out: {node['reason']}", style="dim") for node in report.nodes if node["state"] == "out"]
    parts += [*_skipped(report), *_not_run(report), _conclusion(report)]
    return Group(*parts)


def _unreachable_node(node: str, reason: str, count: int) -> RenderableType:
    return Group(Text.assemble(("? ", "yellow"), (node, "bold yellow"), f"  {count} checks unknown"), Padding(Text(reason), (0, 0, 1, 2)))


def _group_key(check: Result) -> tuple[str, ...]:
    return (check.verdict.value, check.id.split("[")[0], check.expected, check.found, check.reason)


def _finding(alike: list[Result]) -> RenderableType:
    """Return a failed or unknown check, on one node or on several with the same result."""
    check, colour = alike[0], _COLOURS[alike[0].verdict]
    names = ", ".join(one.node for one in alike[:_MOST_ALIKE]) + (
        f" and {len(alike) - _MOST_ALIKE} more" if len(alike) > _MOST_ALIKE else ""
    )
    title = Text.assemble(
        (f"{_MARKS[check.verdict]} ", colour), (check.id.split("[")[0], f"bold {colour}"), f"  {names}", (f"  {check.evidence}", "dim")
    )
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in (("expected", check.expected), ("found", check.found), ("reason", _reason(check)), ("remedy", check.remedy)):
        if text:
            table.add_row(name, Text(text))
    return Group(title, Padding(table, (0, 0, 1, 2)))


def _reason(check: Result) -> str:
    """Return the reason, or an empty text for a failure whose expected and found values state it."""
    return "" if check.verdict is Verdict.FAILED and check.expected else check.reason


def _subjects(report: Report) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("subject")
    for verdict in ("passed", "failed", "unknown", "skipped"):
        table.add_column(verdict, justify="right")
    table.add_column("evidence")
    for subject, checks in groupby(report.checks, key=lambda check: check.subject):
        table.add_row(*_row(subject, list(checks)))
    return table


def _row(subject: str, checks: list[Result]) -> list[RenderableType]:
    evidence = " + ".join(sorted({check.evidence.value for check in checks}))
    return [Text(subject), *counts(checks), Text(evidence, style="magenta" if "simulated" in evidence else "")]


def counts(checks: list[Result]) -> list[Text]:
    """Return the number of passed, failed, unknown and skipped checks as cells."""
    return [
        Text(str(count) if count else "·", style=_COLOURS[verdict] if count else "dim")
        for verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN, Verdict.SKIPPED)
        for count in [sum(check.verdict is verdict for check in checks)]
    ]


def _every(report: Report) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=3)
    table.add_column(overflow="fold", ratio=2)
    table.add_column(no_wrap=True)
    for check in report.checks:
        mark = Text(_MARKS[check.verdict], style=_COLOURS[check.verdict])
        table.add_row(mark, Text(check.id), Text(check.found, style="dim"), Text(check.evidence.value, style="dim"))
    return table


def _skipped(report: Report) -> list[RenderableType]:
    """Return one line per reason with the number of skipped checks and their nodes."""
    skipped = [check for check in report.checks if check.verdict is Verdict.SKIPPED]
    lines: list[RenderableType] = []
    for reason in sorted({check.reason for check in skipped}):
        of = [check for check in skipped if check.reason == reason]
        nodes = ", ".join(dict.fromkeys(check.node for check in of))
        lines.append(Text(f"skipped: {len(of)} ({reason}) on {nodes}", style="dim"))
    return lines


def _not_run(report: Report) -> list[RenderableType]:
    """Return one line per reason for checks that did not run, except for features that the plan does not include and nodes that are out.

    For features that the plan lacks because of its machines, the reason is printed with the checks.
    """
    lines: list[RenderableType] = []
    for detail in dict.fromkeys(item["detail"] for item in report.not_run if item["reason"] == "not-in-plan" and item["detail"]):
        ids = [item["id"] for item in report.not_run if item["reason"] == "not-in-plan" and item["detail"] == detail]
        lines.append(Text(f"not run: {', '.join(ids)}: {detail}", style="dim"))
    for reason in sorted({item["reason"] for item in report.not_run} - {"not-in-plan", "node-out"}):
        items = [item for item in report.not_run if item["reason"] == reason]
        detail = next((item["detail"] for item in items if item["detail"]), reason)
        subjects = ", ".join(sorted({item["id"].split(".")[0] for item in items}))
        lines.append(Text(f"not run: {len(items)} ({subjects}): {detail}", style="red" if reason == "empty-group" else "dim"))
    return lines


def _conclusion(report: Report) -> Text:
    totals = ", ".join(f"{count} {verdict}" for verdict, count in report.totals.items() if count) or "no checks ran"
    scope = " (partial run: no verdict on the cluster)" if report.partial else ""
    return Text.assemble(
        (f"{_MARKS[report.verdict]} {report.stack}: {headline(report)}", f"bold {_COLOURS[report.verdict]}"),
        f" at level {report.level}{scope}\n",
        (f"  {totals}; {len(report.checks)} results in {report.seconds:.1f} s", "dim"),
    )
