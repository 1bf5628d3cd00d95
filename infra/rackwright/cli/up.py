"""`rackwright up`: Pulumi without prompts."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.cli.progress import show_message
from rackwright.drivers import pulumi
from rackwright.operations.chaos.lease import end_due_before
from rackwright.operations.tracing import run_traced


def up(stack: Annotated[str, typer.Argument(help="Stack name.")]) -> None:
    """Create, configure and verify a stack: `pulumi up` without prompts."""
    pulumi.install_prerequisites(stack)
    end_due_before(stack.rpartition("/")[2], "next command", show_message)
    raise typer.Exit(run_traced("up", stack.rpartition("/")[2], lambda: pulumi.run("up", stack)))
