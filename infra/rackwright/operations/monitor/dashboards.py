"""The boards of a stack file as dashboards of Grafana."""

from __future__ import annotations

from pathlib import Path

from rackwright.catalog.boards import boards_of
from rackwright.errors import InputError
from rackwright.inventory.alert_rules import parts_of
from rackwright.operations.stack import OnWarning, load_plan
from rackwright.report.boards.grafana import grafana_dashboard


def write_dashboards(name_or_path: str, folder: Path, on_warning: OnWarning) -> list[Path]:
    """Write a file for each board and return the paths. The stack need not be up.

    Raises InputError if the stack file has errors or no monitoring, or if the folder cannot be written.
    """
    plan = load_plan(name_or_path, on_warning)
    if plan.monitoring is None:
        raise InputError("has no monitoring", path=f"stack {plan.stack}", hint="add `monitoring: {kind: builtin}` to its stack file")
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for board in boards_of(parts_of(plan)):
            file = folder / f"{plan.stack}-{board.name}.json"
            file.write_text(grafana_dashboard(plan.stack, board), encoding="utf-8")
            written.append(file)
    except OSError as refused:
        raise InputError(str(refused), path="--dashboards", hint="pass a writable folder") from None
    return written
