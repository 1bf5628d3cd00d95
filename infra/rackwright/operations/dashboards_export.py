"""Write the boards of a stack file as dashboards for a Grafana of the site."""

from __future__ import annotations

from pathlib import Path

from rackwright.catalog.boards import boards_of
from rackwright.errors import InputError
from rackwright.files import write_atomic
from rackwright.inventory.alert_rules import parts_of
from rackwright.operations.stack import OnWarning, load_plan
from rackwright.report.boards.grafana import grafana_dashboard

_READABLE = 0o644
"""Mode of the files: a dashboard has no secrets."""


def export_dashboards(name_or_path: str, folder: Path, on_warning: OnWarning) -> tuple[str, tuple[Path, ...]]:
    """Write a file for each board; return the name of the stack and the paths. The stack need not be up.

    A Prometheus of the site reads other stacks as well: there, queries select this one by the label `stack`.
    Raises InputError if the stack file has errors or no monitoring, or if the folder cannot be written.
    """
    plan = load_plan(name_or_path, on_warning)
    monitoring = plan.monitoring
    if monitoring is None:
        raise InputError("has no monitoring", path=f"stack {plan.stack}", hint="declare `monitoring` in its stack file")
    is_labelled = bool(monitoring.external or monitoring.remote_write)
    chosen = boards_of(parts_of(plan))
    texts = {f"{plan.stack}-{board.name}.json": grafana_dashboard(plan.stack, board, is_labelled=is_labelled) for board in chosen}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_atomic(folder / name, text, _READABLE)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=str(folder), hint="choose another folder with --to") from None
    return plan.stack, tuple(folder / name for name in texts)
