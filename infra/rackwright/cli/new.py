"""`rackwright new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new(name: Annotated[str, typer.Argument(help="Name of the folder to create below the working directory.")]) -> None:
    """Create a project folder: stack file, Pulumi project, tests, CI workflows and README. An existing folder must be empty."""
    from rackwright.operations import new_project

    made = new_project.create(Path.cwd(), name)
    typer.echo(f"created {name}: {', '.join(made)}\nnext:\n  cd {name}\n  rackwright up {new_project.STACK}")
