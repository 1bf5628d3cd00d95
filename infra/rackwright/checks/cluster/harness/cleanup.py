"""Removal of the files that a smoke run created on the shared file system."""

from __future__ import annotations

from rackwright.catalog.checks import Kind
from rackwright.checks.cluster.harness.probe_runner import ProbeRunner
from rackwright.checks.cluster.probes.smoke import SMOKE, as_user
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.report.check_plan import CheckPlan


def clean_up(declared: Inventory, check_plan: CheckPlan, runner: ProbeRunner) -> None:
    """Remove the folder of the run after all nodes have read it."""
    if not any(item.spec.kind is Kind.JOB for item in check_plan.expected.values()):
        return
    if (declared.cluster.get("scheduler") or {}).get("kind") != "slurm":
        return  # The pods remove their own files.
    submitter = declared.members("@submit")[0]
    try:
        folder = runner.answer(SMOKE, submitter).folder
    except UndeterminedError:
        return
    if folder:
        runner.run_command(submitter, lambda context: as_user(context, {"remove": folder}))
