"""`rackwright drift` and `rackwright drift-history`: differences between a running stack and its declaration, now and over time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Annotated, Final

import typer

from rackwright.cli.progress import show_progress
from rackwright.drift import ignore_rules, notify
from rackwright.drift.difference import Layer
from rackwright.drift.document import DriftReport
from rackwright.drift.history import History, HistoryDelta
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import require_up
from rackwright.model.drift import DriftPolicy
from rackwright.model.finding import did_you_mean
from rackwright.operations.drift import host_baseline, notification
from rackwright.operations.drift.last_verified import last_verified

_KEPT: Final = timedelta(days=400)
"""Retention of scans and resolved differences: a year and a month, so that a year can be compared with the one before."""

_SHOWN: Final = 30
"""Number of scans on the HTML page."""


def drift(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    reconcile_layers: Annotated[
        str, typer.Option("--reconcile", help="Reconcile these layers (comma-separated, or `all`); prints the plan first.")
    ] = "",
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Take the nodes' current state as the new baseline (`traces.*`).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON (schema rackwright.drift/2).")] = False,
) -> None:
    """Compare resources, configuration and behaviour of a running stack with its declaration.

    Exit codes: 0 as declared, 1 not as declared, 2 invalid input, 3 undetermined.
    """
    chosen = _layers(reconcile_layers)
    require_up(stack)
    found, changes = _looked(stack, update_baseline=update_baseline)
    reconciled = _reconciled(stack, chosen, found) if chosen else None
    if reconciled is not None:
        found, changes = _looked(stack)
    _show(found, changes, as_json=as_json)
    raise typer.Exit(found.state.exit_code or int(reconciled is False))


def history(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of scans to list.")] = 30,
    max_age: Annotated[str, typer.Option(help="Exit 3 and notify if no scan finished within this time (for example 26h).")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.history/2).")] = False,
) -> None:
    """Show the history of drift: for each difference when it was first seen, whether it is still open, and when it was resolved."""
    from rackwright.drift import history_view

    if max_age:
        require_up(stack)
        raise typer.Exit(notification.overdue(stack, History(paths.drift_history(stack)), max_age))
    if not paths.drift_history(stack).is_file():
        require_up(stack)
        raise InputError("no drift scan has run yet", path=f"stack {stack}", hint=f"run `rackwright drift {stack}`")
    kept = History(paths.drift_history(stack))
    if as_json:
        typer.echo(json.dumps(history_view.as_dict(stack, kept.looks(limit), kept.seen()), indent=1, ensure_ascii=False))
        return
    from rich.console import Console

    Console().print(history_view.render(kept.looks(limit), kept.seen()))


def _layers(asked: str) -> tuple[Layer, ...]:
    """Parse the value of `--reconcile`; raise InputError for an unknown layer."""
    if asked == "all":
        return tuple(Layer)
    names = [name.strip() for name in asked.split(",") if name.strip()]
    known = [layer.value for layer in Layer]
    for name in names:
        if name not in known:
            raise InputError(f"unknown layer `{name}`", path="--reconcile", hint=did_you_mean(name, [*known, "all"]))
    return tuple(layer for layer in Layer if layer.value in names)


def _looked(stack: str, *, update_baseline: bool = False) -> tuple[DriftReport, HistoryDelta]:
    """Scan once, apply the ignore rules of the stack file, record the result and send notifications."""
    from rackwright.operations.drift.scan import scan

    policy = notification.policy(stack)
    if update_baseline and not policy.host_baseline:
        raise InputError(
            "no baseline to replace: `drift.host_baseline` is false in the stack file",
            path="--update-baseline",
            hint="remove `host_baseline: false` from `drift` in the stack file",
        )
    try:
        found, traces = asyncio.run(scan(stack, _progress, with_traces=policy.host_baseline))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted: some layers were not scanned", path=f"stack {stack}") from None
    kept = History(paths.drift_history(stack))
    if policy.host_baseline:
        found = host_baseline.compared(found, traces, kept.seen(), update=update_baseline)
    found = replace(found, last_verified=last_verified(stack, found.plan))
    found = found.with_looks(ignore_rules.applied(found.looks, _allowed(policy), date.today()))
    changes = kept.record(found)
    kept.forget(_KEPT, found.started)
    _write(found, kept)
    notification.write_metrics(found, policy)
    notification.tell(notify.message(found, changes, paths.drift_page(stack)), policy)
    return found, changes


def _write(found: DriftReport, kept: History) -> None:
    """Write the scan as JSON, as JUnit XML for CI systems, and as an HTML page."""
    from rackwright.drift.junit import as_junit
    from rackwright.drift.page.document import page
    from rackwright.drift.store import as_json, write
    from rackwright.inventory.reader import from_inventory
    from rackwright.inventory.running_stack import load_inventory

    declared = from_inventory(load_inventory(found.stack))
    write(as_json(found), paths.drift(found.stack))
    write(as_junit(found), paths.drift_junit(found.stack))
    planned = {**declared.cluster, "fabric": declared.fabric}
    nodes = {**declared.nodes, **declared.out}
    write(page(found, planned, nodes, kept.looks(_SHOWN), kept.seen()), paths.drift_page(found.stack))


def _allowed(policy: DriftPolicy) -> tuple[ignore_rules.Allowance, ...]:
    return tuple(ignore_rules.Allowance(one.subject, one.node, one.reason, one.until) for one in policy.ignore)


def _reconciled(stack: str, layers: Sequence[Layer], found: DriftReport) -> bool | None:
    """Reconcile these layers. Return whether `pulumi up` succeeded, or None if there was nothing to reconcile."""
    from rackwright.operations.drift import reconcile

    if not any(one.layer in layers for one in found.differences) and not any(layer in layers for layer, _, _ in found.unknown):
        typer.echo(f"nothing to reconcile in {', '.join(layer.value for layer in layers)}", err=True)
        return None
    way = reconcile.way(layers)
    typer.echo(f"{way.words}\n  pulumi {' '.join(way.arguments(stack))}", err=True)
    reconciled = reconcile.run(stack, way)
    if not reconciled:
        typer.echo(f"stack {stack}: some differences remain; errors above, differences below", err=True)
    return reconciled


def _show(found: DriftReport, changes: HistoryDelta, *, as_json: bool) -> None:
    if as_json:
        from rackwright.drift.store import as_json as text

        typer.echo(text(found), nl=False)
        return
    from rich.console import Console

    from rackwright.drift.terminal import render

    Console().print(render(found, changes))
    typer.echo(f"  page: {paths.drift_page(found.stack)}")


async def _progress(layer: Layer, text: str) -> None:
    await show_progress(f"{layer.value}: {text}")
