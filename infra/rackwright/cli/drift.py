"""`rackwright drift`: differences between a running stack and its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rackwright.cli.progress import show_message, show_progress
from rackwright.drift.difference import Layer
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.finding import did_you_mean

if TYPE_CHECKING:
    from rackwright.operations.drift.detection import Detection


def drift(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    reconcile_layers: Annotated[
        str, typer.Option("--reconcile", help="Reconcile these layers (comma-separated, or `all`); prints the plan first.")
    ] = "",
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Take the nodes' current state as the new baseline (`baseline.*`).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON (schema rackwright.drift/2).")] = False,
) -> None:
    """Compare resources, configuration and behaviour of a running stack with its declaration.

    Exit codes: 0 as declared, 1 not as declared, 2 invalid input, 3 undetermined.
    """
    from rackwright.operations.drift.detection import detect, detect_and_reconcile

    layers = _layers(reconcile_layers)
    if layers:
        found = detect_and_reconcile(stack, layers, _show_progress, show_message, update_baseline=update_baseline)
    else:
        found = detect(stack, _show_progress, show_message, update_baseline=update_baseline)
    _show(found, as_json=as_json)
    raise typer.Exit(found.exit_code)


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


def _show(found: Detection, *, as_json: bool) -> None:
    if as_json:
        from rackwright.drift.store import as_json as text

        typer.echo(text(found.report), nl=False)
        return
    from rich.console import Console

    from rackwright.drift.terminal import render

    Console().print(render(found.report, found.changes))
    typer.echo(f"  page: {paths.drift_page(found.report.stack)}")


async def _show_progress(layer: Layer, text: str) -> None:
    await show_progress(f"{layer.value}: {text}")
