"""`rackwright checkpoints`: verify the checkpoints of a training run by their digests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

checkpoints = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Verify checkpoints of training runs.",
)
checkpoints.callback()(lambda: None)


@checkpoints.command("verify")
def verify(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Checkpoint, folder of checkpoints, or folder of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.checkpoints/1).")] = False,
) -> None:
    """Compare the files of checkpoints with their manifests; name each damaged, missing or additional shard. PyTorch is not needed.

    Exit codes: 0 intact, 1 damaged, 2 no checkpoint, 3 undetermined.
    """
    from rackwright.cli.render.table import table
    from rackwright.operations.checkpoints import describe, verify_checkpoints

    found = verify_checkpoints(path)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
    else:
        typer.echo(table(("checkpoint", "file", "result", "detail"), list(describe(found))))
        for name in found.unfinished:
            typer.echo(f"{name}: left by a killed job, no checkpoint")
        typer.echo(f"newest intact checkpoint: {found.newest_intact or 'none'}")
    raise typer.Exit(found.verdict.exit_code)
