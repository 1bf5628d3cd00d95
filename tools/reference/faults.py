"""docs/reference/faults.md: every fault of tests/faults, with what must report it and the alerts that it raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from rackwright.catalog.checks import checks
from rackwright.yaml_loader import load_yaml
from reference.markdown import code, head, table

_FOLDER: Final = Path(__file__).parents[2] / "tests" / "faults"
_CHECKS: Final = ("checks", "kubernetes", "monitoring")
_DRIFT: Final = ("drift", "suspended")
_TEXT: Final = """`make faults` injects each fault into a clean lab, one at a time, and removes it again:
[evidence](../evidence/README.md).

- **alerts**: [alerts](alerts.md) that a cluster with `monitoring` raises if the fault lasts for their time. The column states what is
  expected; `tests/e2e/monitoring` injects some of these faults into a lab and reads what arrives at a receiver.
- A failed verification and a drift scan with differences raise alerts of their own (group `results`), which are not listed.
"""


def page() -> str:
    """Return the whole page."""
    lines = [head("Faults", "`tests/faults`", _TEXT), "## Faults of checks", "", "Each makes the check of its name fail.", ""]
    lines += table(("check", "injected on", "alerts"), (_check_row(key, row) for key, row in faults(*_CHECKS).items()))
    lines += ["## Faults that a drift scan reports", ""]
    lines += table(("fault", "differences", "alerts"), (_drift_row(key, row) for key, row in faults(*_DRIFT).items()))
    return "\n".join(lines)


@cache
def faults(*names: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of some tables, by default of all."""
    files = [_FOLDER / f"{name}.yml" for name in names or (*_CHECKS, *_DRIFT)]
    return {key: row for file in files for key, row in load_yaml(file.read_text(encoding="utf-8")).items()}


def raising(alert: str) -> Iterator[str]:
    """Yield the faults that raise an alert."""
    yield from (key for key, row in faults().items() if alert in row.get("alerts", ()))


def _check_row(key: str, row: Mapping[str, Any]) -> Sequence[str]:
    return f"`{key}`", code(row.get("where", checks()[key].group)), _alerts(row)


def _drift_row(key: str, row: Mapping[str, Any]) -> Sequence[str]:
    return f"`{key}`", ", ".join(code(name) for name in row["names"]), _alerts(row)


def _alerts(row: Mapping[str, Any]) -> str:
    return ", ".join(f"[{name}](alerts.md#{name.lower()})" for name in row.get("alerts", ()))
