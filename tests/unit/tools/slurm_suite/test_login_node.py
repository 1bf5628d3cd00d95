"""Jobs and objects that tests leave are removed, and what stays is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_suite.login_node import OBJECTS, LoginNode, changes

from rackwright.errors import RackwrightError, UndeterminedError


class LocalNode(LoginNode):
    """A node whose commands run on this machine, with Slurm's commands from a folder."""

    def _ssh(self, command: str) -> list[str]:
        return ["env", f"PATH={self.ssh_config}:/usr/bin:/bin", "sh", "-c", command]


COMMANDS = {
    "squeue": "cat jobs",
    "scancel": "echo $* > cancelled; : > jobs",
    "sinfo": "case $* in *version*) echo slurm-wlm 1.2.3 ;; *) cat nodes ;; esac",
    "scontrol": """case $* in
        delete*) echo "$*" > deleted; : > reservations ;;
        *reservation*) cat reservations ;;
        *) echo PartitionName=all A=1 ;;
        esac""",
    "sacctmgr": "echo root",
}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalNode:
    for name, text in COMMANDS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    for name, text in {"jobs": "", "nodes": "n1\nn1\nn2\n", "reservations": ""}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return LocalNode(tmp_path, "login0", "erin")


def test_version_is_read_with_the_name_of_debian(node: LocalNode) -> None:
    assert node.slurm_version() == "1.2.3"


def test_objects_are_read_by_kind(node: LocalNode) -> None:
    found = node.objects()
    assert set(found) == set(OBJECTS)
    assert found["partition"] == {"all"} and found["reservation"] == set() and found["node that can run jobs"] == {"n1", "n2"}


def test_clean_cluster_needs_no_removal(node: LocalNode) -> None:
    assert node.clean(node.objects(), patience=0) == ([], [])


def test_jobs_and_reservations_are_removed(node: LocalNode) -> None:
    before = node.objects()
    Path("jobs").write_text("8\n7\n7\n", encoding="utf-8")
    Path("reservations").write_text("ReservationName=mine StartTime=now\n", encoding="utf-8")
    assert node.clean(before, patience=0) == (["job 7", "job 8", "reservation mine"], [])
    assert Path("cancelled").read_text(encoding="utf-8") == "7 8\n"
    assert Path("deleted").read_text(encoding="utf-8") == "delete ReservationName=mine\n"


def test_job_that_stays_and_missing_node_are_damage(node: LocalNode) -> None:
    before = node.objects()
    Path("scancel").write_text("#!/bin/sh\n", encoding="utf-8")
    Path("jobs").write_text("7\n", encoding="utf-8")
    Path("nodes").write_text("n1\n", encoding="utf-8")
    removed, damage = node.clean(before, patience=0)
    assert removed == ["job 7"]
    assert damage == ["job 7 of erin does not end", "node that can run jobs n2 is missing"]


def test_changes_are_named_in_both_directions() -> None:
    assert changes({"qos": {"a", "b"}}, {"qos": {"b", "c"}}) == ["qos a is missing", "qos c is new"]


def test_failed_command_is_an_error_with_its_message(node: LocalNode) -> None:
    with pytest.raises(RackwrightError, match="no such thing"):
        node.run("echo no such thing >&2; exit 3")


def test_command_without_an_answer_is_undetermined(node: LocalNode) -> None:
    with pytest.raises(UndeterminedError, match="no answer"):
        node.run("sleep 60", timeout=0.2)


def test_closed_stream_ends_the_command(node: LocalNode) -> None:
    lines = node.stream("read order; echo $order; cat > rest; echo ended > ended", {"a": 1})
    assert next(lines) == '{"a": 1}\n'
    assert not Path("ended").exists()
    lines.close()
    assert Path("ended").exists()


def test_stream_that_fails_is_an_error(node: LocalNode) -> None:
    with pytest.raises(RackwrightError, match="exit status 3"):
        list(node.stream("read order; exit 3", {}))
