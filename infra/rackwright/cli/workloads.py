"""`rackwright workloads STACK [NAME]`: Kubernetes manifests of jobs, queues and services, for people to review and apply."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
import yaml

from rackwright.cli.render.table import table
from rackwright.operations.stack import planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackwright.workloads import Workload

SCHEMA: Final = "rackwright.workloads/1"
_NEVER: Final = "never run by this project"


def workloads(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    name: Annotated[str | None, typer.Argument(help="Workload to print (default: list all).")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace (default: the first one declared).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=f"Print JSON (schema {SCHEMA}).")] = False,
) -> None:
    """Print Kubernetes manifests of jobs, queues and services for a stack."""
    from rackwright.workloads import WORKLOADS, render

    plan = planned(stack)
    if name is None:
        rows = [[key, one.title, needs(one)] for key, one in WORKLOADS.items()]
        if as_json:
            print(
                json.dumps({"schema": SCHEMA, "stack": plan.stack, "workloads": [dict(zip(_HEADINGS, row, strict=True)) for row in rows]})
            )
        else:
            print(table(_HEADINGS, rows))
        return
    objects = render(plan, name, namespace)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": plan.stack, "objects": objects}, indent=2))
    else:
        print(text(plan.stack, name, WORKLOADS[name], objects), end="")


_HEADINGS: Final = ("name", "what", "needs")


def needs(workload: Workload) -> str:
    """Return the required add-ons with their versions and where they have run."""
    from rackwright.catalog.addons import NEVER, addons

    found = {name: addons()[name] for name in workload.needs}
    return ", ".join(f"{name} {one.version} ({_NEVER if one.run == NEVER else f'run on {one.run}'})" for name, one in found.items())


def text(stack: str, name: str, workload: Workload, objects: Sequence[dict[str, Any]]) -> str:
    """Return the file: a header with title, requirements and where they have run, followed by the manifests."""
    from rackwright.catalog.addons import addons

    chart = workload.needs[0] if workload.values else None
    head = [
        f"# {workload.title}.",
        f"# Rendered from the plan of stack {stack} by `rackwright workloads {stack} {name}`; checked against schemas where available.",
        *(f"# Needs {need} {addons()[need].version}: {addons()[need].source}. {_run(addons()[need].run)}" for need in workload.needs),
        *([f"# Values for `helm install {chart}`: not a manifest, `kubectl apply` rejects them."] if chart else []),
    ]
    return "\n".join(head) + "\n" + yaml.dump_all(objects, sort_keys=False, width=140, Dumper=_Plain)


def _run(where: str) -> str:
    from rackwright.catalog.addons import NEVER

    return f"{_NEVER.capitalize()}." if where == NEVER else f"Run on {where}."


class _Plain(yaml.SafeDumper):
    """YAML dumper without anchors, because people copy parts of a file."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that every part is written out."""
        return True
