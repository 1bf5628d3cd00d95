"""Jobs that have nodes, from what squeue and scontrol print."""

from __future__ import annotations

import pytest

from rackwright.remote.programs import slurm_running

SQUEUE = "9|8_1|alice|2001|RUNNING|1795000000|gres/gpu:2|gpu|w[0-1]|a|b\n12|12|bob|2002|CONFIGURING|N/A|N/A|cpu|w3|x\n"


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, str]]:
    """Answer for Slurm; the returned mapping overrides what a program answers."""
    answers = {"squeue": (SQUEUE, "")}
    asked: list[list[str]] = []

    def run(words: list[str], seconds: float) -> tuple[str, str]:
        asked.append(words)
        if words[-1].startswith("--Format="):
            return answers.get("allocated", ("", "squeue: error: Invalid job format specification"))
        answers["asked"] = (" ".join(words), "")
        return answers[words[0]]

    monkeypatch.setattr(slurm_running, "run", run)
    monkeypatch.setattr(slurm_running, "slowness", lambda: 1)
    monkeypatch.setattr(slurm_running, "hosts_of", lambda lists, seconds: {"w[0-1]": ["w0", "w1"], "w3": ["w3"]})
    monkeypatch.setattr("os.environ", {})
    return answers


def test_jobs_have_numbers_times_and_nodes(slurm: dict[str, tuple[str, str]]) -> None:
    answer = slurm_running.main({"job": "", "seconds": 15})
    first, second = answer["jobs"]
    assert (first["raw"], first["id"], first["uid"], first["started"], first["nodes"]) == ("9", "8_1", 2001, 1795000000.0, ["w0", "w1"])
    assert (first["name"], first["tres"], second["started"], second["nodes"]) == ("a|b", "gres/gpu:2", None, ["w3"])
    assert "--jobs=" not in slurm["asked"][0] and (answer["error"], answer["unknown"]) == ("", False)


@pytest.mark.parametrize(
    ("allocated", "tres"),
    [
        (("9|cpu=8,mem=64G,node=2,billing=8,gres/gpu=4|\n12|cpu=4,mem=8G,node=1,billing=4,gres/gpu=2,gres/gpu:h100=2|\n", ""),
         "gres/gpu=2,gres/gpu:h100=2"),
        (("12|cpu=4,mem=8G,node=1,billing=4|\n", ""), "N/A"),
        (("12cpu=4,mem=8G,node=1,gres/gpu=2\n", ""), "N/A"),
        (("", "slurm_load_jobs error: Socket timed out on send/recv operation"), "N/A"),
    ],
    ids=["gpus-of-the-job", "no-gpus", "release-without-suffixes", "no-answer"],
)  # fmt: skip
def test_gpus_requested_for_the_job_are_its_allocated_ones(
    slurm: dict[str, tuple[str, str]], allocated: tuple[str, str], tres: str
) -> None:
    """squeue prints N/A for a job that asked with --gpus, and not with --gres."""
    slurm["allocated"] = allocated
    first, second = slurm_running.main({"job": "", "seconds": 15})["jobs"]
    assert (first["tres"], second["tres"]) == ("gres/gpu:2", tres)


def test_one_job_is_asked_for(slurm: dict[str, tuple[str, str]]) -> None:
    slurm["squeue"] = ("", "slurm_load_jobs error: Invalid job id specified")
    answer = slurm_running.main({"job": "8_1", "seconds": 15})
    assert "--jobs=8_1" in slurm["asked"][0] and answer["unknown"] and answer["jobs"] == []


@pytest.mark.parametrize("text", ["7|7|ali", "x|7|alice|2001|RUNNING|1|N/A|gpu|worker0|a\n", "7|7|alice\n", "{whole}8|8|bob"])
def test_damaged_list_is_not_a_shorter_one(slurm: dict[str, tuple[str, str]], text: str) -> None:
    """A job that is not read is not idle: nothing is known of it."""
    whole = "7|7|alice|2001|RUNNING|1795000000|N/A|gpu|worker0|a\n"
    slurm["squeue"] = (text.format(whole=whole), "")
    answer = slurm_running.main({"job": "", "seconds": 15})
    assert "squeue: " in answer["error"] and answer["jobs"] == []


def test_silent_slurm_is_no_empty_list(slurm: dict[str, tuple[str, str]]) -> None:
    slurm["squeue"] = ("", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    answer = slurm_running.main({"job": "", "seconds": 15})
    assert "Unable to contact" in answer["error"] and not answer["unknown"]
