"""Takes back what the smoke run left on the shared file system."""

from __future__ import annotations

from rackwright.catalog.checks import Kind
from rackwright.checks.cluster.harness.gather import Gathering
from rackwright.checks.cluster.probes.smoke import SMOKE, as_user
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.check_plan import Manifest


def tidy(declared: Inventory, owed: Manifest, gathering: Gathering) -> None:
    """Remove the run's folder, once every node has looked at it."""
    if not any(item.spec.kind is Kind.JOB for item in owed.expected.values()):
        return
    if (declared.cluster.get("scheduler") or {}).get("kind") != "slurm":
        return  # Pods take back what they wrote.
    submitter = declared.members("@submit")[0]
    try:
        folder = gathering.answer(SMOKE, submitter).folder
    except UndeterminedError:
        return
    if folder:
        gathering.tell(submitter, lambda place: as_user(place, {"remove": folder}))
