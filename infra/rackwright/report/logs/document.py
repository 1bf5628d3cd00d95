"""The result of a query of logs: entries of all nodes by time, and for each node what is missing and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

SCHEMA: Final = "rackwright.logs/1"
PRIORITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
"""Names of syslog(3), by number."""
_CLOCK: Final = 2.0
"""Seconds by which a clock may differ before the node's times are corrected. The time of a query is known to a second or so."""

_COPY: Final = 0.05
"""Seconds between the two copies of an entry that a daemon writes to standard error and to syslog; 0.001 measured in the lab."""
_RECENT: Final = 8
"""Entries among which a copy is searched: other daemons write in between."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a node's log."""

    time: float
    """Seconds of the epoch by the clock of the control machine."""
    node: str
    unit: str
    priority: int
    pid: int | None
    message: str

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as JSON has it."""
        time = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="microseconds")
        priority = PRIORITIES[min(max(self.priority, 0), 7)]
        return {"time": time, "node": self.node, "unit": self.unit, "priority": priority, "pid": self.pid, "message": self.message}


@dataclass(frozen=True, slots=True)
class NodeLogs:
    """What one node contributed. A node without an answer has a reason, and proves nothing about its log."""

    node: str
    entries: tuple[LogEntry, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    clock_offset: float | None = None
    """Seconds by which its clock is ahead; None if it agrees as far as that can be determined."""
    is_out: bool = False
    """Whether it was not asked, because it is declared out."""
    more: bool = False
    """Whether older entries were not read because of the limit of lines."""
    known: Mapping[str, bool] | None = None
    """Units or pods that were asked for, and whether the node has them."""
    seen: tuple[str, ...] = ()
    """Units of the node's journal if it lacks one that was asked for."""

    @property
    def answered(self) -> bool:
        """Return whether the node's log was read."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class LogReport:
    """The merged entries of all nodes."""

    stack: str
    since: float | None
    until: float | None
    entries: tuple[LogEntry, ...]
    nodes: tuple[NodeLogs, ...]
    limited: bool = False
    """Whether older entries are left out because of the limit of lines."""

    @property
    def unanswered(self) -> tuple[NodeLogs, ...]:
        """Return the nodes whose log was not read."""
        return tuple(node for node in self.nodes if not node.answered)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "schema": SCHEMA,
            "stack": self.stack,
            "since": _moment(self.since),
            "until": _moment(self.until),
            "entries": [entry.as_dict() for entry in self.entries],
            "limited": self.limited,
            "nodes": [
                {
                    "node": node.node,
                    "answered": node.answered,
                    "out": node.is_out,
                    "reason": node.reason,
                    "notes": list(node.notes),
                    "clock_offset_s": node.clock_offset,
                    "entries": len(node.entries),
                }
                for node in self.nodes
            ],
        }


def _moment(time: float | None) -> str | None:
    return None if time is None else datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")


def merge(stack: str, since: float | None, until: float | None, nodes: Iterable[NodeLogs], lines: int) -> LogReport:
    """Return the newest `lines` entries of all nodes in the order of time; entries of one node keep their order."""
    answers = tuple(nodes)
    entries = sorted((entry for node in answers for entry in node.entries), key=lambda entry: entry.time)
    kept = entries[-lines:] if lines else []
    limited = len(kept) < len(entries) or any(node.more for node in answers)
    return LogReport(stack, since, until, tuple(kept), answers, limited)


def clock_offset(now: float, sent: float, received: float) -> float | None:
    """Return by how much a node's clock is ahead in seconds, from a reading between `sent` and `received`; None if it may agree.

    >>> clock_offset(100.0, 90.0, 110.0), clock_offset(400.0, 99.0, 101.0), clock_offset(40.0, 99.0, 101.0)
    (None, 300.0, -60.0)
    """
    if sent - _CLOCK <= now <= received + _CLOCK:
        return None
    return round(now - (sent + received) / 2, 1)


def node_logs(
    name: str, answer: Mapping[str, Any], *, since: float | None, until: float | None, span: tuple[float, float], mask: Callable[[str], str]
) -> NodeLogs:
    """Return a node's answer as entries. Its times are corrected by the difference of its clock, and it says so.

    span: times of the control machine before and after the query.
    """
    offset = clock_offset(answer["now"], *span)
    ahead = offset or 0.0
    rows: Sequence[Sequence[Any]] = answer["entries"]
    entries = [LogEntry(row[0] / 1e6 - ahead, name, row[1], row[2], row[3], mask(row[4])) for row in rows]
    entries = list(_single(entries))
    kept = [one for one in entries if (since is None or one.time >= since) and (until is None or one.time <= until)]
    first = kept[0].time if kept else None
    found = NodeLogs(name, tuple(kept), "", tuple(_notes(answer, since, offset, first)), offset)
    found = replace(found, more=answer["cut"] == "lines", known=answer["known"], seen=tuple(answer["seen"]))
    return replace(found, notes=tuple(map(mask, found.notes)))


def _single(entries: Iterable[LogEntry]) -> Iterable[LogEntry]:
    """Yield entries without copies: slurmd writes errors to standard error and to syslog. The copy that has a priority gives it."""
    last: list[LogEntry] = []
    for entry in entries:
        copy = next((one for one in last if entry.time - one.time < _COPY and _is_copy(one, entry)), None)
        if copy is None:
            if len(last) >= _RECENT:
                yield last.pop(0)
            last.append(entry)
        else:
            longer = max(copy.message, entry.message, key=len)
            last[last.index(copy)] = replace(copy, priority=min(copy.priority, entry.priority), message=longer)
    yield from last


def _is_copy(one: LogEntry, other: LogEntry) -> bool:
    """Return whether entries have the same text; standard error has a line of its own for each line of it."""
    return one.unit == other.unit and (one.message == other.message or other.message.startswith(f"{one.message}\n"))


def _notes(answer: Mapping[str, Any], since: float | None, offset: float | None, first: float | None) -> Iterable[str]:
    if offset is not None:
        yield f"its clock is {abs(offset):.0f} s {'ahead' if offset > 0 else 'behind'}; its times are corrected by that"
    if answer["cut"] == "bytes":
        yield f"its answer is limited: entries before {local(first)} are missing; pass a shorter window, --unit or --grep"
    elif answer["cut"] == "time":
        begin = f"before {local(first)} " if first else ""
        yield f"its log was not read completely within the time limit: entries {begin}may be missing; pass a shorter window or --unit"
    begins = answer["begins"]
    if begins is not None and since is not None and begins / 1e6 - (offset or 0.0) > since:
        kind = "is kept in memory only and begins" if answer["volatile"] else "begins"
        yield f"its journal {kind} at {local(begins / 1e6 - (offset or 0.0))}, after the time that was asked for"
    yield from (f"journalctl: {line}" for line in answer["warnings"])
    yield from answer["notes"]


def local(time: float | None) -> str:
    """Return a time in the zone of the control machine, to the second."""
    return datetime.fromtimestamp(time).astimezone().isoformat(sep=" ", timespec="seconds")[:19] if time is not None else "then"
