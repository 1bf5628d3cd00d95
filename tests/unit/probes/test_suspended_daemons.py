"""Checks that name a daemon that exists and does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.checks.cluster import test_control_plane, test_node, test_slurm
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.probes.units import SUSPENDED_UNITS, UNITS, parse_suspended, parse_units
from rackwright.errors import UndeterminedError

CAPTURED = Path(__file__).parents[1] / "captured"


def captured(probe: str, case: str) -> str:
    return (CAPTURED / probe / f"{case}.txt").read_text(encoding="utf-8")


def test_each_static_pod_has_its_state():
    units = parse_units(captured("units", "good-control-plane"))
    with pytest.raises(Mismatch) as found:
        test_control_plane.test_static_pods_run(lambda _: units, Expect())
    words = "etcd: suspended by a signal; kube-controller-manager: frozen; kube-scheduler: inactive"
    assert str(found.value).endswith(f"found {words}")


def test_running_static_pods_pass():
    text = captured("units", "good-control-plane").replace("=T", "=S").replace("=frozen", "=running").replace("=inactive", "=active")
    test_control_plane.test_static_pods_run(lambda _: parse_units(text), Expect())


def test_suspended_unit_without_own_check_is_named():
    answers = {
        UNITS: parse_units(captured("units", "suspended").replace("Id=slurmd.service", "Id=cron.service")),
        SUSPENDED_UNITS: parse_suspended(captured("suspended-units", "good-suspended")),
    }
    with pytest.raises(Mismatch, match=r"found chrony.service: frozen$"):
        test_node.test_no_suspended_units(answers.__getitem__, Expect())
    answers[SUSPENDED_UNITS] = {}
    test_node.test_no_suspended_units(answers.__getitem__, Expect())


@pytest.mark.parametrize(
    ("state", "process", "found"),
    [("inactive", "", "inactive, starts"), ("failed", "", "failed, starts"), ("active", "T", "suspended by a signal, starts")],
)
def test_sackd_that_does_not_run_is_named(state, process, found):
    text = f"Id=sackd.service\nLoadState=loaded\nActiveState={state}\nUnitFileState=enabled\nProcessState={process}\n"
    with pytest.raises(Mismatch, match=found):
        test_slurm.test_login_daemon_runs(lambda _: parse_units(text), Expect())
    running = text.replace(f"={state}", "=active").replace("=T", "=S")
    test_slurm.test_login_daemon_runs(lambda _: parse_units(running), Expect())


def test_unread_unit_is_unknown():
    with pytest.raises(UndeterminedError):
        test_slurm.test_login_daemon_runs(lambda _: parse_units("Id=munge.service\nLoadState=loaded\nActiveState=active\n"), Expect())
