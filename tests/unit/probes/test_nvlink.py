"""When a fabric of NVLinks is ready, by generation of the GPUs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.verdicts import verdict_of

from rackwright.checks.cluster import test_software
from rackwright.checks.cluster.probes.software import FABRIC, parse_fabric
from rackwright.checks.cluster.probes.units import FABRIC_MANAGER, UNITS, Unit, units_of
from rackwright.report.verdict import Verdict

CAPTURED = Path(__file__).parents[1] / "captured" / "nvlink-fabric"
PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
HEALTH = """        Health
            Summary                       : Healthy
            Bandwidth                     : Full
            Route Recovery in progress    : False
            Route Unhealthy               : False
            Access Timeout Recovery       : False
            Incorrect Configuration       : None
            Partition Assigned            : True
"""
READY = f"""    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 0
{HEALTH}    Processes                             : None
"""
SILENT = """    Fabric
        State                             : N/A
        Status                            : N/A
"""


def said(*fabrics):
    """Return the output of `nvidia-smi -q` for GPUs with these fabrics."""
    gpus = "".join(f"GPU 00000000:{0x10 + number:02X}:00.0\n    Product Name : NVIDIA H100\n{one}" for number, one in enumerate(fabrics))
    return f"Attached GPUs                             : {len(fabrics)}\n{gpus}"


def ready(architecture, text, manager="active", count=2):
    """Return verdict and reason for this output of nvidia-smi and this state of Fabric Manager."""
    node = SimpleNamespace(gpus=SimpleNamespace(architecture=architecture, count=count))
    answers = {FABRIC: lambda: parse_fabric(text), UNITS: lambda: {FABRIC_MANAGER: Unit(manager, True)}}
    return verdict_of(test_software.test_nvlink_fabric_is_ready, answers, node=node)


@pytest.mark.parametrize("architecture", ["hopper", "blackwell"])
def test_gpus_report_completed_fabric(architecture):
    assert ready(architecture, said(READY, READY))[0] is PASSED
    waiting = READY.replace("Completed", "In Progress").replace("Success", "N/A")
    verdict, reason = ready(architecture, said(READY, waiting))
    assert (verdict, "GPU 00000000:11:00.0 state: In Progress" in reason) == (FAILED, True)
    assert ready(architecture, said(SILENT, SILENT))[0] is FAILED
    assert ready(architecture, said(READY, READY.replace("Success", "Insufficient Resources")))[0] is FAILED


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("Summary                       : Healthy", "Unhealthy"),
        ("Summary                       : Healthy", "Limited Capacity"),
        ("Bandwidth                     : Full", "Degraded"),
        ("Route Recovery in progress    : False", "True"),
        ("Route Unhealthy               : False", "True"),
        ("Access Timeout Recovery       : False", "True"),
        ("Incorrect Configuration       : None", "Incompatible GPU firmware"),
    ],
)
def test_completed_but_unhealthy_fabric_fails(line, word):
    name, _, _ = line.partition(":")
    verdict, reason = ready("hopper", said(READY, READY.replace(line, f"{name}: {word}")))
    assert (verdict, word in reason, "GPU 00000000:11:00.0" in reason) == (FAILED, True, True)


def test_unreported_health_is_no_fault():
    for word in ("N/A", "Not Supported"):
        lines = [line.partition(":")[0] + f": {word}" if ":" in line else line for line in HEALTH.splitlines()]
        assert ready("hopper", said(*[READY.replace(HEALTH, "\n".join(lines) + "\n")] * 2))[0] is PASSED


@pytest.mark.parametrize("cell", ["[Unknown Error]", "ERR!", "", "[GPU requires reset]"])
def test_fault_counts_beside_unread_health(cell):
    blind = READY.replace("Summary                       : Healthy", f"Summary                       : {cell}")
    verdict, reason = ready("hopper", said(READY, blind))
    assert (verdict, "Fabric/Health/Summary" in reason) == (UNKNOWN, True)
    assert ready("hopper", said(READY.replace("Full", "Degraded"), blind))[0] is FAILED


def test_gpu_without_fabric_section_is_unknown():
    assert ready("hopper", (CAPTURED / "cut.txt").read_text(encoding="utf-8"), count=1)[0] is UNKNOWN


def test_unresponsive_gpu_is_named():
    text = "Unable to determine the device handle for GPU 0000:5D:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    verdict, reason = ready("hopper", said(READY, READY) + text, count=3)
    assert (verdict, "2 of 3 GPUs respond; 0000:5d:00.0 does not" in reason) == (FAILED, True)


@pytest.mark.parametrize("manager", ["inactive", "failed", "not-found"])
def test_fabric_manager_must_run_on_hopper(manager):
    """A registered fabric stays registered when Fabric Manager stops; links are then no longer retrained."""
    assert ready("hopper", said(READY, READY), manager=manager)[0] is FAILED


def test_fabric_manager_decides_before_hopper():
    assert ready("ampere", said(SILENT, SILENT))[0] is PASSED
    assert ready("ampere", said(SILENT, SILENT), manager="failed")[0] is FAILED
    assert ready("ampere", said(SILENT, SILENT), manager="not-found")[0] is FAILED


def test_fabric_manager_is_required_with_nvswitch():
    here = SimpleNamespace(node={"name": "w0"}, declared=SimpleNamespace(groups={"nvswitch": ("w0",)}, cluster={}))
    assert FABRIC_MANAGER in units_of(here)
    here.node["name"] = "w1"
    assert FABRIC_MANAGER not in units_of(here)
