"""What counts as a fabric of NVLinks that is ready, by generation of the GPUs."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cluster import test_software
from cluster.probes.software import FABRIC
from cluster.probes.units import FABRIC_MANAGER, UNITS, Unit, units_of

READY, WAITING, SILENT = ("Completed", "Success"), ("In Progress", "N/A"), ("N/A", "N/A")


def ready(architecture, gpus, manager="active"):
    """Whether the check passes with what each GPU says, and in which state Fabric Manager is."""
    answers = {FABRIC: gpus, UNITS: {FABRIC_MANAGER: Unit(manager, True)}}
    judged = []
    node = SimpleNamespace(gpus=SimpleNamespace(architecture=architecture))
    test_software.test_nvlink_fabric_is_ready(node, answers.get, lambda found, planned: judged.append(found == planned))
    assert judged
    return all(judged)


@pytest.mark.parametrize("architecture", ["hopper", "blackwell"])
def test_gpus_say_that_their_fabric_is_completed(architecture):
    assert ready(architecture, (READY, READY))
    assert not ready(architecture, (READY, WAITING))
    assert not ready(architecture, (SILENT, SILENT))


def test_gpus_before_hopper_say_nothing_and_fabric_manager_counts():
    assert ready("ampere", (SILENT, SILENT))
    assert not ready("ampere", (SILENT, SILENT), manager="failed")
    assert not ready("ampere", (SILENT, SILENT), manager="not-found")


def test_fabric_manager_is_asked_for_where_nvswitch_is():
    here = SimpleNamespace(node={"name": "w0"}, declared=SimpleNamespace(groups={"nvswitch": ("w0",)}, cluster={}))
    assert FABRIC_MANAGER in units_of(here)
    here.node["name"] = "w1"
    assert FABRIC_MANAGER not in units_of(here)
