"""The hardware report on a terminal: differences first, then totals, then each node's hardware, then the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rackwright.report.hardware import rows
from rackwright.report.hardware.document import Section
from rackwright.report.hardware.rows import Row, alike, fold, mebibytes
from rackwright.report.verdict import Verdict

_COLOURS: Final = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.UNKNOWN: "yellow"}
_MARKS: Final = {Verdict.PASSED: "✓", Verdict.FAILED: "✗", Verdict.UNKNOWN: "?"}
_ABOUT: Final = {Section.SUMMARY: "hardware", Section.GPU: "GPUs", Section.IB: "fabric", Section.STORAGE: "storage"}
_SHARED: Final = frozenset({"cpus", "memory", "numa", "disks"})
_TOTALS: Final[dict[str, tuple[str, Callable[[Any], str], str]]] = {
    "nodes": ("nodes", str, ""),
    "cpus": ("CPUs", str, "cpus"),
    "memory_mib": ("memory", mebibytes, "memory"),
    "gpus": ("GPUs", str, "gpus"),
    "gpu_memory_mib": ("GPU memory", mebibytes, "gpus"),
    "rdma_ports": ("fabric ports", str, "rdma"),
}
"""Total -> its title, its format, and the part that is summed up."""
_Tables = tuple[tuple[str, tuple[str, ...], Callable[[Mapping[str, Any]], Sequence[Row]], str], ...]
_TABLES: Final[dict[Section, _Tables]] = {
    Section.SUMMARY: (("", ("CPUs", "socket × core × thread", "memory", "NUMA", "GPUs", "fabric"), rows.summary, ""),),
    Section.GPU: (
        ("GPUs", ("which", "product", "memory", "driver", "NUMA", "nearest cards"), rows.gpus, "gpus"),
        ("between GPUs", ("path", "pairs"), rows.links, "gpu_links"),
        ("identities", ("GPU", "PCI", "UUID"), rows.gpu_identities, "gpus"),
    ),
    Section.IB: (
        ("fabric", ("port", "state", "rate", "link layer", "NUMA", "firmware"), rows.rdma, "rdma"),
        ("interfaces", ("name", "state", "rate", "link layer", "driver", "NUMA"), rows.interfaces, ""),
        ("identities", ("port", "PCI", "node GUID", "port GUID"), rows.rdma_identities, "rdma"),
        ("identities", ("interface", "PCI", "MAC"), rows.interface_identities, ""),
    ),
    Section.STORAGE: (
        ("mounts", ("mount", "type", "source", "size", "free"), rows.mounts, ""),
        ("disks", ("disk", "model", "size", "kind", "bus"), rows.disks, "disks"),
        ("identities", ("disk", "name in /dev/disk/by-id"), rows.disk_identities, "disks"),
    ),
}


def render(report: Mapping[str, Any]) -> RenderableType:
    """Return the report as a rich renderable for 100 columns."""
    section = Section(report["section"])
    parts: list[RenderableType] = [*_problems(report["nodes"]), *_changes(report["compared"])]
    if section is Section.SUMMARY:
        parts += [_totals(report), *_models(report)]
    parts += [_table(report, *table) for table in _TABLES[section]]
    parts += [Text(f"{one['name']} is out: {one['reason']}", style="dim") for one in report["out"]]
    return Group(*parts, *_notes(report), _conclusion(report))


def _problems(nodes: Iterable[Mapping[str, Any]]) -> list[RenderableType]:
    """Return unreachable nodes, unreadable parts and differences, each once for all nodes that have it."""
    unreachable: dict[str, list[str]] = {}
    unreadable: dict[str, list[str]] = {}
    differing: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        if node["reason"]:
            unreachable.setdefault(node["reason"].removeprefix(f"{node['name']} "), []).append(node["name"])
        for part, why in node["unknown"].items():
            unreadable.setdefault(why if why.startswith(part) else f"{part}: {why}", []).append(node["name"])
        for one in node["differences"]:
            differing.setdefault((one["subject"], one["planned"], one["found"]), []).append(node["name"])
    lines: list[RenderableType] = [
        Text.assemble(("? ", "yellow"), (fold(names), "bold yellow"), f"  {why}")
        for why, names in (*unreachable.items(), *unreadable.items())
    ]
    lines += [
        Text.assemble(("✗ ", "red"), (fold(names), "bold red"), f"  {subject}: planned {planned}, found {found}")
        for (subject, planned, found), names in differing.items()
    ]
    return [*lines, Text("")] if lines else []


def _changes(compared: Mapping[str, Any] | None) -> list[RenderableType]:
    """Return the comparison with an earlier report: what is unknown, what changed, what has no identity."""
    if compared is None:
        return []
    lines = [Text.assemble(("? ", "yellow"), f"since {compared['since']}: {why}") for why in compared["unknown"]]
    for one in compared["changes"]:
        places = " → ".join(filter(None, (one["before"], one["after"])))
        lines.append(Text.assemble(("✗ ", "red"), (f"{one['kind']} {one['identity']}", "bold red"), f"  {one['change']}: {places}"))
    lines += [Text(f"not compared: {why}", style="dim") for why in compared["not_compared"]]
    if not compared["changes"] and not compared["unknown"]:
        lines.append(Text(f"no device changed since {compared['since']}"))
    return [*lines, Text("")]


def _totals(report: Mapping[str, Any]) -> RenderableType:
    table = _bare("", "planned", "found", "")
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, (title, write, part) in _TOTALS.items():
        total = report["totals"][name]
        if not total["planned"] and not total["found"] and name not in ("nodes", "cpus", "memory_mib"):
            continue
        shared = part in _SHARED and part in report["simulated"]
        found = "·" if shared else rows.UNKNOWN_CELL if total["found"] is None else write(total["found"])
        short = total["found"] is not None and total["found"] < total["planned"] and part != "memory"
        note = "shared with the machine" if shared else "simulated" if part in report["simulated"] else ""
        table.add_row(title, write(total["planned"]), Text(found, style="red" if short else ""), Text(note, style="dim"))
    return Padding(table, (0, 0, 1, 0), expand=False)


def _models(report: Mapping[str, Any]) -> list[RenderableType]:
    """Return the processor models."""
    models = alike(report["nodes"], lambda node: [(node["facts"]["cpus"]["model"],)] if node["facts"]["cpus"] else [])
    lines: list[RenderableType] = [Text.assemble((f"{names}  ", "dim"), node_rows[0][0]) for names, node_rows in models]
    return [*lines, Text("")] if lines else []


def _table(
    report: Mapping[str, Any], title: str, heads: tuple[str, ...], cells: Callable[[Mapping[str, Any]], Sequence[Row]], part: str
) -> RenderableType:
    """Return one row per kind of node. Planned values have no column, because differences are listed first."""
    groups = alike((node for node in report["nodes"] if not node["reason"]), cells)
    if not groups:
        return Padding(Text(f"{title}: none", style="dim"), (0, 0, 1, 0), expand=False)
    simulated = " (simulated)" if part in report["simulated"] and part not in _SHARED else ""
    table = _bare(f"{title}{simulated}" if title else "node", *heads)
    table.columns[0].overflow = "fold"
    for names, node_rows in groups:
        for index, row in enumerate(node_rows):
            table.add_row(Text(names if index == 0 else "", style="bold"), *row)
    return Padding(table, (0, 0, 1, 0), expand=False)


def _bare(*heads: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _notes(report: Mapping[str, Any]) -> list[Text]:
    """Return notes about shared and simulated hardware."""
    simulated = set(report["simulated"])
    lines: list[str] = []
    if shared := sorted(simulated & _SHARED):
        lines.append(f"{', '.join(shared)}: shared with the machine that all nodes run on; not compared with the plan")
    if others := sorted(simulated - _SHARED):
        lines.append(f"{', '.join(others)}: simulated; no evidence about hardware")
    return [Text(line, style="dim") for line in lines]


def _conclusion(report: Mapping[str, Any]) -> Text:
    verdict, nodes = Verdict(report["verdict"]), report["nodes"]
    reasons = [
        f"{words} on {fold(names)}"
        for words, of in (("unknown", Verdict.UNKNOWN), ("not as planned", Verdict.FAILED))
        if (names := [node["name"] for node in nodes if node["verdict"] == of])
    ]
    seen = sum(not node["reason"] for node in nodes)
    how = "in jobs" if report["collected_via"] == "job" else "over SSH"
    return Text.assemble(
        (
            f"{_MARKS[verdict]} {report['stack']}: {_ABOUT[Section(report['section'])]} {'; '.join(reasons) or 'as planned'}",
            f"bold {_COLOURS[verdict]}",
        ),
        (f"\n  {seen} of {len(nodes)} nodes answered {how} in {report['seconds']:.1f} s, {report['started']}", "dim"),
    )
