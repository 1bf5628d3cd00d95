"""What role slurm_power_bmc writes: the logins of the BMCs, of which only root reads the passwords."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "canary-of-a-bmc"
SHARED = {"port": 443, "username": "rackwright", "system": None, "certificate": None, "ca_file": None}


def test_logins_are_written_for_root_alone(steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDED", str(tmp_path))  # Results of the task with passwords are hidden.
    password, authority, archive = tmp_path / "password", tmp_path / "ca.pem", tmp_path / "archive"
    password.write_text(f"{PASSWORD}\n")
    authority.write_text("an authority\n")
    archive.write_text("")
    pinned = {**SHARED, "kind": "redfish", "address": "10.78.0.11", "certificate": "AA:01", "password_file": str(password)}
    signed = {**SHARED, "kind": "redfish", "address": "10.78.0.12", "ca_file": str(authority), "password_file": str(password)}
    given = {
        "slurm_power_bmc_bmcs": {"worker0": pinned, "worker1": signed},
        "slurm_power_bmc_suspend_timeout": 600,
        "slurm_power_bmc_resume_timeout": 1200,
        "slurm_power_bmc_archive": str(archive),
    }
    ran = steps("slurm_power_bmc", "service", variables=given, tools={}, words="--check")
    assert ran.good, ran.said
    (record,) = tmp_path.glob("node0*")
    recorded = [json.loads(line) for line in record.read_text().splitlines()]
    files = {file["path"]: file for asked in recorded for file in asked.get("files", ())}
    logins = files["/etc/rackwright/bmc-power.json"]
    assert (logins["mode"], logins["owner"], logins["sensitive"]) == ("0600", "root", True)
    content = json.loads(logins["content"])
    assert (content["suspend_timeout_s"], content["resume_timeout_s"]) == (600, 1200)
    assert {name: (one["password"], one["certificate"], one["ca_file"]) for name, one in content["nodes"].items()} == {
        "worker0": (PASSWORD, "AA:01", None),
        "worker1": (PASSWORD, None, "/etc/rackwright/bmc-authorities/worker1.pem"),
    }
    assert files["/etc/rackwright/bmc-authorities/worker1.pem"]["content"] == "an authority\n"
    assert PASSWORD not in ran.said and [path for path, file in files.items() if PASSWORD in file["content"]] == [logins["path"]]
