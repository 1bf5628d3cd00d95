"""Age of a verdict as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rackwright.report.document import Report


def humanize_duration(seconds: float) -> str:
    """Return a duration as text with one unit.

    >>> humanize_duration(4), humanize_duration(200), humanize_duration(7300), humanize_duration(3 * 86400)
    ('4 s', '3 min', '2 h', '3 days')
    """
    seconds = max(0.0, seconds)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def humanize_age(report: Report, now: datetime | None = None) -> float:
    """Return the seconds since the end of the run."""
    ended = report.started + timedelta(seconds=report.seconds)
    return ((now or datetime.now(UTC)) - ended).total_seconds()


def verdict_line(report: Report, now: datetime | None = None) -> str:
    """Return the recorded verdict as one line with its age and level."""
    old = humanize_duration(humanize_age(report, now))
    verb = "verified" if report.verdict.exit_code == 0 else "checked"
    return f"{headline(report)}; {verb} {old} ago at level {report.level}"


def headline(report: Report) -> str:
    """Return the verdict with its number of nodes: `passed, 63 of 64 nodes`."""
    inside = sum(node["state"] == "in" for node in report.nodes)
    of = f"{inside} of {len(report.nodes)} nodes" if inside != len(report.nodes) else f"{inside} node{'s' if inside != 1 else ''}"
    return f"{report.verdict.value}, {of}"
