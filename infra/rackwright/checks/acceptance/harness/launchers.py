"""Which launcher a stack's scheduler has, and the texts that work for it on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rackwright.checks.acceptance.harness.kubernetes import Kubernetes
from rackwright.checks.acceptance.harness.launcher import Launcher
from rackwright.checks.acceptance.harness.scope import Submission
from rackwright.checks.acceptance.harness.slurm import Slurm
from rackwright.checks.acceptance.phase import runs_pods
from rackwright.checks.cluster.harness import pods_api, smoke_side
from rackwright.inventory.reader import Inventory

Side = tuple[str, str]
"""Name under which a module is known on the node, and its text."""
_HERE: Final = Path(__file__).parent
_SMOKE, _API = Path(smoke_side.__file__), Path(pods_api.__file__)


def launcher(sender: Submission, identity: Mapping[str, Any]) -> Launcher:
    """The one of the stack."""
    if not runs_pods(sender.declared):
        return Slurm(sender.declared)
    return Kubernetes(sender.declared, sender.namespace or "default", sender.mount, int(identity["uid"]), int(identity["gid"]))


def submitting(declared: Inventory) -> list[Side]:
    """What works on the node from which jobs are sent, each after what it imports."""
    if not runs_pods(declared):
        return _sides(("smoke_side", _SMOKE), ("jobs_side", _HERE / "slurm_side.py"))
    return _sides(("smoke_side", _SMOKE), ("pods_api", _API), ("jobs_side", _HERE / "kubernetes_side.py"))


def looking() -> list[Side]:
    """What looks at nodes on a controller."""
    return _sides(("smoke_side", _SMOKE), ("pods_api", _API), ("jobs_side", _HERE / "nodes_side.py"))


def _sides(*files: tuple[str, Path]) -> list[Side]:
    both = (*files, ("submit_side", _HERE / "submit_side.py"))
    return [(name, path.read_text(encoding="utf-8")) for name, path in both]
