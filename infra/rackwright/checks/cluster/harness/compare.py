"""Comparison of values found with values planned. Both are kept for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, first_reasons, unread_values
from rackwright.errors import UndeterminedError

_LONGEST: Final = 300
"""Characters of a value in a report. Chosen: three lines of a terminal."""


class Mismatch(AssertionError):
    """A value of the cluster differs from the plan."""

    def __init__(self, text: str, found: Any = None) -> None:
        super().__init__(text)
        self.differing: tuple[Any, ...] = tuple(found.values()) if isinstance(found, Mapping) else (found,)
        """The values that differ."""


class Expect:
    """Callable that compares: `expect(found, planned)` raises Mismatch unless they are equal. The report shows the last comparison."""

    def __init__(self) -> None:
        self.compared = 0
        self.found = ""
        self.planned = ""

    def __call__(self, found: Any, planned: Any, *, holds: bool | None = None) -> None:
        """Compare two values. `holds` is the result where equality is not the criterion.

        Values that were not read are left out of the comparison. If the others are as planned, UndeterminedError quotes them.
        """
        unread = tuple(unread_values(found))
        if isinstance(found, Lines) and set(planned) - set(found):
            unread += tuple(UnreadableValue("a line", line, "") for line in found.unread)
        if unread:
            found, planned = _read_part(found, planned)
            if holds is None and not isinstance(found, Mapping):
                holds = all(item in planned for item in found)
        good = found == planned if holds is None else holds
        if not good and isinstance(found, Mapping) and isinstance(planned, Mapping):
            found, planned = _differing(found, planned)
        self.compared += 1
        self.found, self.planned = brief(found), brief(planned)
        if not good:
            raise Mismatch(f"expected {self.planned}, found {self.found}", found)
        if unread:
            raise UndeterminedError(first_reasons(unread))


def _read_part(found: Any, planned: Any) -> tuple[Any, Any]:
    """Return what was read of a value, and the part of the plan that it is compared with."""
    if isinstance(found, Mapping):
        missing = set(planned) - set(found) if isinstance(found, Lines) and found.unread else set()
        blind = missing | {key for key, item in found.items() if any(True for _ in unread_values(item))}
        kept = {key: item for key, item in planned.items() if key not in blind} if isinstance(planned, Mapping) else planned
        return {key: item for key, item in found.items() if key not in blind}, kept
    items = [] if isinstance(found, UnreadableValue) else [item for item in found if not any(True for _ in unread_values(item))]
    return items, planned


def _differing(found: Mapping[Any, Any], planned: Mapping[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return only the entries that differ, and mark an entry that is missing on one side."""
    keys = [key for key in {**planned, **found} if found.get(key, _MISSING) != planned.get(key, _MISSING)]
    return {key: found.get(key, "missing") for key in keys}, {key: planned.get(key, "none") for key in keys}


_MISSING: Final = object()


def brief(value: Any) -> str:
    """Return a value as one line of a report.

    >>> brief({"b": 1, "a": ["x", "y"]}), brief([]), brief(True)
    ('b: 1; a: x, y', 'none', 'yes')
    """
    if isinstance(value, UnreadableValue):
        text = str(value)
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, Mapping):
        text = "; ".join(f"{key}: {brief(item)}" for key, item in value.items()) or "none"
    elif isinstance(value, Iterable) and not isinstance(value, str):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value  # nodes have Python 3.9
        text = ", ".join(brief(item) for item in items) or "none"
    else:
        text = "none" if value is None or value == "" else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
