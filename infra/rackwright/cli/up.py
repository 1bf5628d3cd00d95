"""`rackwright up`: Pulumi without prompts."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.drivers import pulumi
from rackwright.operations.tracing import run_traced


def up(stack: Annotated[str, typer.Argument(help="Stack name.")]) -> None:
    """Create, configure and verify a stack: `pulumi up` without prompts."""
    pulumi.install_prerequisites(stack)
    raise typer.Exit(run_traced("up", stack.rpartition("/")[2], lambda: pulumi.run("up", stack)))
