"""The figures of the first acceptance that passed, stored in the stack's folder; later figures are compared with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rackwright.errors import UndeterminedError
from rackwright.report.acceptance import Acceptance

_FILE: Final = "acceptance-baseline.json"
_SCHEMA: Final = "rackwright.acceptance-baseline/1"


def load(home: Path) -> Mapping[str, float]:
    """Return the figures by `phase.check[node] name`; none before the first passed run. Raises UndeterminedError if unreadable."""
    try:
        data: dict[str, Any] = json.loads((home / _FILE).read_text(encoding="utf-8"))
        if data["schema"] != _SCHEMA:
            raise ValueError(f"schema is {data['schema']}, expected {_SCHEMA}")
        return {str(key): float(value) for key, value in data["figures"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UndeterminedError(
            f"is not a baseline: {error}", path=str(home / _FILE), hint="delete the file; the next passed run writes a new baseline"
        ) from None


def save(home: Path, acceptance: Acceptance) -> None:
    """Write the figures of a passed run, unless figures are stored already or there are none. Remove the file to start over."""
    figures = {
        f"{phase.name}.{measured['check']}[{measured['node']}] {measured['name']}": measured["value"]
        for phase in acceptance.phases
        for measured in phase.measurements
    }
    if figures and not (home / _FILE).exists():
        document = {"schema": _SCHEMA, "run": acceptance.run, "plan": acceptance.report.plan, "figures": figures}
        (home / _FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
