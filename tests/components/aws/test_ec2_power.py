"""The agent that stops and starts instances for Slurm, against moto: a stand-in for EC2, in this process."""

from __future__ import annotations

import os
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

POWER = runpy.run_path(str(Path(__file__).parents[3] / "roles/slurm_power_ec2/files/ec2_power.py"))


@cache
def client() -> Any:
    """Return a client for EC2, created once: reading the service model takes most of a test's time."""
    return boto3.client("ec2", region_name="us-east-1", aws_access_key_id="standin", aws_secret_access_key="standin")


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield an account with worker0 and worker1 of stack mine, running, and worker0 of another owner's stack."""
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # thousands of images, seconds a test
    with mock_aws():
        for stack, node in (("mine", "worker0"), ("mine", "worker1"), ("yours", "worker0")):
            tags = [{"Key": "rackwright.stack", "Value": stack}, {"Key": "Name", "Value": f"{stack}-{node}"}]
            specified = [{"ResourceType": "instance", "Tags": tags}]
            client().run_instances(ImageId="ami-12345678", MinCount=1, MaxCount=1, TagSpecifications=specified)
        yield client()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the requests of Slurm's programs."""
    for wish in ("suspend", "resume"):
        (tmp_path / wish).mkdir()
    return tmp_path


def want(folder: Path, wish: str, node: str, *, at: int | None = None) -> Path:
    """Write a request as slurm-suspend and slurm-resume do; return its path."""
    file = folder / wish / node
    file.write_text("now")
    if at is not None:
        os.utime(file, (at, at))
    return file


def states(ec2: Any) -> dict[str, str]:
    """Return each instance's state by name."""
    found = [one for reservation in ec2.describe_instances()["Reservations"] for one in reservation["Instances"]]
    return {{tag["Key"]: tag["Value"] for tag in one["Tags"]}["Name"]: one["State"]["Name"] for one in found}


def look(ec2: Any, folder: Path) -> None:
    """Run one round for stack mine."""
    POWER["round_"](ec2, folder, "mine", ["worker0", "worker1"])


def test_agent_stops_only_own_idle_node(ec2: Any, folder: Path) -> None:
    asked = want(folder, "suspend", "worker0")
    look(ec2, folder)
    assert states(ec2) == {"mine-worker0": "stopped", "mine-worker1": "running", "yours-worker0": "running"}
    assert not asked.exists()


def test_agent_starts_requested_node(ec2: Any, folder: Path) -> None:
    want(folder, "suspend", "worker1")
    look(ec2, folder)
    asked = want(folder, "resume", "worker1")
    look(ec2, folder)
    assert states(ec2)["mine-worker1"] == "running" and not asked.exists()


def test_later_request_wins(ec2: Any, folder: Path) -> None:
    want(folder, "resume", "worker0", at=2_000_000_000)
    want(folder, "suspend", "worker0", at=2_000_000_100)
    look(ec2, folder)
    assert states(ec2)["mine-worker0"] == "stopped"


def test_running_node_is_rebooted_on_resume(ec2: Any, folder: Path) -> None:
    booted: list[Any] = []

    class Seen:
        """EC2, and who was rebooted."""

        def __getattr__(self, name: str) -> Any:
            return (lambda **chosen: booted.append(chosen)) if name == "reboot_instances" else getattr(ec2, name)

    want(folder, "resume", "worker0", at=4_000_000_000)
    look(Seen(), folder)
    assert len(booted) == 1


@pytest.mark.parametrize(("wish", "state"), [("suspend", "pending"), ("resume", "stopping")])
def test_agent_waits_for_instance_in_transition(wish: str, state: str) -> None:
    done = POWER["carry_out"](None, wish, 0, {"State": {"Name": state}, "InstanceId": "i-1"})
    assert done is False


def test_renewed_request_stays(folder: Path) -> None:
    asked = want(folder, "suspend", "worker0", at=1_000)
    POWER["settle"](folder, "worker0", "suspend", 999)
    assert asked.exists()


def test_request_link_is_not_followed(ec2: Any, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("x")
    (folder / "suspend/worker0").symlink_to(tmp_path / "target")
    look(ec2, folder)
    assert states(ec2)["mine-worker0"] == "running"


def test_node_without_instance_is_reported_once(ec2: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = want(folder, "resume", "worker0")
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in POWER["instances"](ec2, "mine", ["worker0"]).values()])
    look(ec2, folder)
    assert "resume worker0: instance not found" in capsys.readouterr().out and not asked.exists()


def test_no_request_makes_no_api_call(folder: Path) -> None:
    POWER["round_"](None, folder, "mine", ["worker0"])
