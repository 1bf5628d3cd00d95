"""Output of `rackwright workloads`: the list of workloads, and the file of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml

from rackwright.catalog.addons import NEVER, addons
from rackwright.workloads import WORKLOADS, Workload

HEADINGS: Final = ("name", "what", "needs")
_NEVER: Final = "never run by this project"


def rows() -> list[list[str]]:
    """Return one row per workload, in the order of `HEADINGS`."""
    return [[name, workload.title, needs(workload)] for name, workload in WORKLOADS.items()]


def needs(workload: Workload) -> str:
    """Return the required add-ons with their versions and where they have run."""
    found = {name: addons()[name] for name in workload.needs}
    return ", ".join(f"{name} {one.version} ({_NEVER if one.run == NEVER else f'run on {one.run}'})" for name, one in found.items())


def text(stack: str, name: str, workload: Workload, objects: Sequence[dict[str, Any]]) -> str:
    """Return the file: a header with title, requirements and where they have run, followed by the manifests."""
    chart = workload.needs[0] if workload.values else None
    head = [
        f"# {workload.title}.",
        f"# Rendered from the plan of stack {stack} by `rackwright workloads {stack} {name}`; checked against schemas where available.",
        *(f"# Needs {need} {addons()[need].version}: {addons()[need].source}. {_run(addons()[need].run)}" for need in workload.needs),
        *([f"# Values for `helm install {chart}`: not a manifest, `kubectl apply` rejects them."] if chart else []),
    ]
    return "\n".join(head) + "\n" + yaml.dump_all(objects, sort_keys=False, width=140, Dumper=_Plain)


def _run(where: str) -> str:
    return f"{_NEVER.capitalize()}." if where == NEVER else f"Run on {where}."


class _Plain(yaml.SafeDumper):
    """YAML dumper without anchors, because people copy parts of a file."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True, so that every part is written out."""
        return True
