"""Which nodes of Slurm are occupied, from what scontrol and squeue print."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from rackwright.remote.programs import daemon_states, slurm_occupancy

NODES = {
    "worker0": "NodeName=worker0 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=1 Reason=power [root@2026-11-28T10:00:00]",
    "worker1": "NodeName=worker1 Arch=x86_64 State=MIXED* ThreadsPerCore=1",
}
JOBS = {"worker0": "", "worker1": "7|alice|train | big\n8_2|bob|x\n"}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> dict[str, subprocess.CompletedProcess[str]]:
    """Answer for Slurm; the returned mapping overrides what a program answers."""
    overridden: dict[str, subprocess.CompletedProcess[str]] = {}

    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if words[0] in overridden:
            return overridden[words[0]]
        if words[0] == "squeue":
            node = next(word for word in words if word.startswith("--nodelist=")).partition("=")[2]
            return subprocess.CompletedProcess(words, 0, JOBS[node], "")
        known = NODES.get(words[-1])
        return subprocess.CompletedProcess(words, 0 if known else 1, known or "", "" if known else f"Node {words[-1]} not found")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(daemon_states, "suspended", lambda _: {})
    return overridden


def test_nodes_have_states_and_jobs(slurm: dict[str, subprocess.CompletedProcess[str]]) -> None:
    answer = slurm_occupancy.main({"nodes": ["worker0", "worker1", "storage0"]})
    assert answer["nodes"]["worker0"] == {"states": ["DRAIN", "IDLE"], "jobs": []}
    assert answer["nodes"]["worker1"] == {"states": ["MIXED"], "jobs": ["7 (train | big) of alice", "8_2 (x) of bob"]}
    assert answer["unknown"] == ["storage0"]


@pytest.mark.parametrize("program", ["scontrol", "squeue"])
def test_silent_slurm_ends_the_program(slurm: dict[str, subprocess.CompletedProcess[str]], program: str) -> None:
    slurm[program] = subprocess.CompletedProcess([program], 1, "", "slurm_load_node error: Unable to contact slurm controller")
    with pytest.raises(SystemExit) as ended:
        slurm_occupancy.main({"nodes": ["worker0"]})
    assert "Unable to contact slurm controller" in str(ended.value.code)


@pytest.mark.parametrize("text", ["7|ali", "7|alice|a\n8|bo", "7|alice|a\n8|bob|b", "7 alice a\n", "7|alice\n"])
def test_damaged_list_of_jobs_ends_the_program(slurm: dict[str, subprocess.CompletedProcess[str]], text: str) -> None:
    """A node whose jobs are not read is not free."""
    slurm["squeue"] = subprocess.CompletedProcess(["squeue"], 0, text, "")
    with pytest.raises(SystemExit) as ended:
        slurm_occupancy.main({"nodes": ["worker0"]})
    assert str(ended.value.code).startswith("squeue: ")
