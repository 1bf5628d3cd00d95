"""Arguments and options that the commands of `rackwright fabric` share."""

from __future__ import annotations

from typing import Annotated, Final

import typer

SCHEMA: Final = "rackwright.fabric/1"

Stack = Annotated[str, typer.Argument(help="Stack name or path of a stack file.")]
Nodes = Annotated[int | None, typer.Option("--nodes", help="Plan for N nodes and list the additional parts.")]
AsJson = Annotated[bool, typer.Option("--json", help=f"Print JSON (schema {SCHEMA}).")]
