"""`rackwright workloads STACK [NAME]`: Kubernetes manifests of jobs, queues and services, for people to review and apply."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from rackwright.cli.progress import show_warning
from rackwright.cli.render.table import table
from rackwright.operations.stack import load_plan

SCHEMA: Final = "rackwright.workloads/1"


def workloads(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    name: Annotated[str | None, typer.Argument(help="Workload to print (default: list all).")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace (default: the first one declared).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=f"Print JSON (schema {SCHEMA}).")] = False,
) -> None:
    """Print Kubernetes manifests of jobs, queues and services for a stack."""
    from rackwright.cli.render.workloads import HEADINGS, rows, text
    from rackwright.workloads import WORKLOADS, render

    plan = load_plan(stack, show_warning)
    if name is None:
        listed = [dict(zip(HEADINGS, row, strict=True)) for row in rows()]
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, "workloads": listed}) if as_json else table(HEADINGS, rows()))
        return
    objects = render(plan, name, namespace)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, "objects": objects}, indent=2))
    else:
        print(text(plan.stack, name, WORKLOADS[name], objects), end="")
