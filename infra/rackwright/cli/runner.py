"""`rackwright runner`: register the GitHub Actions runners of a stack, or remove them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rackwright.cli.progress import show_progress


class RunnerCommand(StrEnum):
    """What `rackwright runner` does."""

    REGISTER = "register"
    REMOVE = "remove"


def runner(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    command: Annotated[RunnerCommand, typer.Argument(help="What to do.")],
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File of mode 0600 with the token. Default: the environment variable RACKWRIGHT_RUNNER_TOKEN.",
        ),
    ] = None,
) -> None:
    """Register the stack's runners at GitHub with a registration token, or remove them with a removal token.

    `rackwright up` installs the runners and never needs a token. `register` also applies changed labels, group or name. `remove` deletes
    the runners' registrations, services and files, and leaves drivers and packages installed.

    Exit codes: 0 done, 1 failed, 2 invalid input, 3 a node is not reachable.
    """
    from rackwright.operations import runner as operations

    if command is RunnerCommand.REGISTER:
        nodes = operations.register(stack, token_file, show_progress)
        typer.echo(f"stack {stack}: registered {', '.join(nodes)}\n  run `rackwright verify {stack}` to check them")
        return
    nodes = operations.remove(stack, token_file, show_progress)
    typer.echo(
        f"stack {stack}: removed the runners of {', '.join(nodes)}\n  remove `runner` from the stack file, or run `rackwright down {stack}`"
    )
