"""`rackwright power` on a stack of emulated BMCs, from the command line to the exit code."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from standins.bmc.machine import MachineInMemory
from standins.bmc.profiles import IDRAC, ILO
from standins.bmc.service import EmulatedBmc
from support.bmc_stack import write_stack
from support.cli import Run, run_cli

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.inventory import paths
from rackwright.operations.power import control
from rackwright.report.schemas import schema_errors

from .conftest import CANARY, Start

INVENTORY = Path(__file__).parents[2] / "golden" / "inventory" / "inventory.yml"


class Cluster:
    """Two machines with BMCs, and what Slurm says of them."""

    def __init__(self, bmcs: Sequence[EmulatedBmc], monkeypatch: pytest.MonkeyPatch) -> None:
        self.bmcs = bmcs
        self.slurm: dict[str, dict[str, list[str]]] = {"worker0": {"states": ["DRAIN", "IDLE"], "jobs": []}}
        self.lost: dict[str, str] = {}
        self.waited: list[str] = []
        monkeypatch.setattr(remote_exec, "run_on_nodes", self.run_on_nodes)
        monkeypatch.setattr(ssh_connections, "connect_all", self.connect_all)

    async def run_on_nodes(self, _: str, program: str, requests: Any, __: Any, **___: Any) -> tuple[dict[str, Any], dict[str, str]]:
        """Answer for a controller."""
        assert program == "slurm_occupancy"
        ((name, request),) = requests.items()
        return {name: {"nodes": {node: self.slurm[node] for node in request["nodes"]}, "unknown": []}}, {}

    async def connect_all(self, _: str, names: Sequence[str], **__: Any) -> dict[str, str]:
        """Connect to all but the lost."""
        self.waited += names
        return {name: self.lost[name] for name in names if name in self.lost}


@pytest.fixture
def cluster(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a stack `rack` that is up."""
    bmcs = [start(IDRAC, MachineInMemory(on=True)), start(ILO, MachineInMemory())]
    write_stack(tmp_path / "stacks", bmcs, CANARY)
    monkeypatch.setattr(paths, "stacks", lambda: tmp_path / "stacks")
    paths.prepare("rack")
    text = INVENTORY.read_text(encoding="utf-8")
    paths.inventory("rack").write_text(text)
    paths.ssh_config("rack").write_text("Host worker0\n  HostName 10.77.0.11\n\nHost worker1\n  HostName 10.77.0.12\n")
    monkeypatch.setattr(control, "_POLL", 0.02)
    return Cluster(bmcs, monkeypatch)


@pytest.fixture
def rackwright(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command on the stack."""
    return lambda *words: run_cli(monkeypatch, capsys, "power", "rack", *words)


def test_status_lists_power_states(cluster: Cluster, rackwright: Run) -> None:
    done = rackwright("status")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()[1:3]] == [
        ["worker0", "redfish", "localhost", "on"],
        ["worker1", "redfish", "localhost", "off"],
    ]
    assert "stack rack: 1 off, 1 on" in done.out + done.err
    done = rackwright("status", "worker1", "--json")
    data = json.loads(done.out)
    assert [(one["node"], one["power"]) for one in data["machines"]] == [("worker1", "off")]
    assert schema_errors("power", data) == []


def test_status_passes_over_a_starting_bmc(cluster: Cluster, rackwright: Run) -> None:
    cluster.bmcs[0].hang_ups = 1
    cluster.bmcs[1].failures = [(503, "Base.1.8.ServiceTemporarilyUnavailable")] * 3
    done = rackwright("status")
    assert done.code == 0, done
    assert "1 off, 1 on" in done.out


def test_certificates_are_compared(cluster: Cluster, rackwright: Run) -> None:
    done = rackwright("certificates")
    assert done.code == 0
    assert done.out.count("as declared") == 2
    file = paths.stacks() / "Pulumi.rack.yaml"
    declared = cluster.bmcs[0].fingerprint
    file.write_text(file.read_text().replace(declared, "AA:" * 31 + "AA"))
    done = rackwright("certificates", "--json")
    assert done.code == 1
    data = json.loads(done.out)
    assert data["machines"][0]["certificate"] == declared
    assert schema_errors("power", data) == []
    done = rackwright("status")
    assert done.code == 1
    assert "worker0: the BMC at localhost" in done.out + done.err and "presents another certificate" in done.out + done.err
    file.write_text(file.read_text().replace(f', certificate: "{"AA:" * 31 + "AA"}"', ""))
    assert rackwright("status").code == 2, "a BMC is not queried without authentication"
    done = rackwright("certificates")
    assert done.code == 0
    assert "not declared" in done.out + done.err and declared in done.out + done.err


def test_on_waits_for_ssh(cluster: Cluster, rackwright: Run) -> None:
    done = rackwright("on", "worker1")
    assert done.code == 0
    assert cluster.bmcs[1].machine.is_on()
    assert cluster.waited == ["worker1"]
    cluster.lost["worker1"] = "no response over SSH; tried for 1200 s"
    done = rackwright("on", "worker1")
    assert done.code == 3
    assert "is on, but does not answer over SSH" in done.out + done.err


def test_on_repeats_a_dropped_request(cluster: Cluster, rackwright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """RackN, ipmi/power-confirm-timeout: a request while the machine still shuts down is accepted and dropped."""
    monkeypatch.setattr(control, "_REPEAT", 0.05)
    cluster.bmcs[1].machine = MachineInMemory(drops=2)
    assert rackwright("on", "worker1").code == 0
    assert cluster.bmcs[1].machine.resets == ["On"] * 3


def test_off_shuts_down_drained_node(cluster: Cluster, rackwright: Run) -> None:
    done = rackwright("off", "worker0", "--json")
    assert done.code == 0
    assert cluster.bmcs[0].machine.resets == ["GracefulShutdown"]
    assert '"power": "off"' in done.out + done.err


@pytest.mark.parametrize(
    ("states", "jobs", "reason"),
    [
        (["IDLE"], [], "worker0 is not drained (IDLE)"),
        (["DRAIN", "MIXED"], ["7 (train) of alice"], "worker0 runs job 7 (train) of alice"),
    ],
)
@pytest.mark.parametrize("command", ["off", "cycle"])
def test_off_refuses_nodes_in_use(cluster: Cluster, rackwright: Run, command: str, states: list[str], jobs: list[str], reason: str) -> None:
    cluster.slurm["worker0"] = {"states": states, "jobs": jobs}
    done = rackwright(command, "worker0")
    assert done.code == 1
    assert reason in done.out + done.err and "--force" in done.out + done.err
    assert cluster.bmcs[0].machine.resets == []
    assert rackwright(command, "worker0", "--force").code == 0
    assert cluster.bmcs[0].machine.resets[0] == "GracefulShutdown"


def test_off_without_answer_of_slurm_is_undetermined(cluster: Cluster, rackwright: Run) -> None:
    cluster.lost["login0"] = "no response over SSH"
    done = rackwright("off", "worker0")
    assert done.code == 3
    assert "whether jobs run is unknown" in done.out + done.err
    paths.inventory("rack").unlink()
    assert rackwright("off", "worker0").code == 3
    assert cluster.bmcs[0].machine.resets == []


def test_off_cuts_power_with_force_alone(cluster: Cluster, rackwright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "SHUTDOWN", 0.1)
    machine = cluster.bmcs[0].machine = MachineInMemory(on=True, shuts_down=False)
    done = rackwright("off", "worker0")
    assert done.code == 1
    assert "has not shut down within" in done.out + done.err and "its power was not cut" in done.out + done.err
    assert machine.resets == ["GracefulShutdown"]
    done = rackwright("off", "worker0", "--force")
    assert done.code == 0
    assert "cutting its power (--force)" in done.out + done.err
    assert machine.resets == ["GracefulShutdown", "GracefulShutdown", "ForceOff"]


def test_cycle_shuts_down_and_powers_on(cluster: Cluster, rackwright: Run) -> None:
    assert rackwright("cycle", "worker0").code == 0
    assert cluster.bmcs[0].machine.resets == ["GracefulShutdown", "On"]
    assert cluster.waited[-1] == "worker0"


def test_one_silent_bmc_does_not_hold_up_others(cluster: Cluster, rackwright: Run) -> None:
    cluster.bmcs[1].password = "another"
    done = rackwright("status")
    assert done.code == 1
    assert "worker1: the BMC at localhost" in done.out + done.err and "refuses the login" in done.out + done.err
    assert "1 on, 1 unknown" in done.out + done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["off"], "needs the names of nodes"),
        (["on", "worker9"], "there is no machine `worker9`"),
        (["on", "login0"], "login0 declares no BMC"),
        (["status", "--force"], "has no effect on `status`"),
    ],
)
def test_usage_errors_exit_2(cluster: Cluster, rackwright: Run, words: list[str], message: str) -> None:
    done = rackwright(*words)
    assert done.code == 2
    assert message in done.out + done.err
    assert all(bmc.requests == [] for bmc in cluster.bmcs)


def test_password_is_in_no_output(cluster: Cluster, rackwright: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts = [str(rackwright(*words)) for words in (["status"], ["status", "--json"], ["on", "worker1"], ["certificates"])]
    cluster.bmcs[0].echoes_password, cluster.bmcs[0].password = True, "another"
    texts.append(str(rackwright("status")))
    assert CANARY not in "".join(texts) + caplog.text
    stored = [file.read_text(errors="replace") for file in paths.home().rglob("*") if file.is_file()]
    assert not any(CANARY in text for text in stored)
