"""`rackwright rolling-update`: drain, update, verify and resume workers, the first one alone, then `rolling.max_unavailable` at a time."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.cli.progress import show_progress


def roll(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    nodes: Annotated[str, typer.Option(help="Roll only these workers (comma-separated), in this order; the first is the canary.")] = "",
    reboot: Annotated[bool, typer.Option("--reboot", help="Reboot each worker.")] = False,
) -> None:
    """Update workers in batches: drain, apply the playbooks, verify, resume.

    Exit codes: 0 all workers resumed, 1 stopped, 2 invalid input, 3 undetermined.
    """
    from rackwright.operations import rolling_update

    workers = [name.strip() for name in nodes.split(",") if name.strip()]
    done = rolling_update.update_workers(stack, workers, _say, show_progress, reboot=reboot)
    typer.echo(f"rolled {len(done.resumed)} of {len(done.chosen)}: {', '.join(done.resumed)}")


async def _say(text: str) -> None:
    typer.echo(text, err=True)
