"""rackwright.cluster.slurm_accounting: what it adds, against a sacctmgr that answers from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import slurm_shares
from ansible_collections.rackwright.cluster.plugins.modules import slurm_accounting as accounting

# As printed by 24.11.5.
EMPTY = ""
REGISTERED = "lab|root|\nlab|root|root\n"
COMPLETE = "lab|root|\nlab|root|root\nlab|default|\nlab|default|alice\nlab|default|bob\n"
ASKED = {"cluster": "lab", "account": "default", "users": ["alice", "bob"]}


@pytest.fixture
def sacctmgr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sacctmgr that prints `answer` and records in `said` what it has to add."""
    program = tmp_path / "sacctmgr"
    program.write_text(f'#!/bin/sh\ncase $1 in --noheader) cat {tmp_path}/answer ;; *) echo "$@" >>{tmp_path}/said ;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def said(folder: Path) -> list[str]:
    """What was added, as sacctmgr heard it."""
    return (folder / "said").read_text().splitlines() if (folder / "said").exists() else []


@pytest.mark.parametrize(
    ("answer", "added", "words"),
    [
        (
            EMPTY,
            ["cluster lab", "account default", "user alice, user bob"],
            ["cluster lab", "account default cluster=lab", "user alice,bob"],
        ),
        (REGISTERED, ["account default", "user alice, user bob"], ["account default cluster=lab", "user alice,bob"]),
        (COMPLETE.replace("lab|default|bob\n", ""), ["user bob"], ["user bob account=default cluster=lab"]),
        (
            COMPLETE.replace("lab|", "other|") + REGISTERED,
            ["account default", "user alice, user bob"],
            ["account default", "user alice,bob"],
        ),
        (COMPLETE, [], []),
    ],
    ids=["nothing is there", "the cluster registered itself", "a user is new", "another cluster has them", "all is there"],
)
def test_adds_what_is_missing(run: Any, sacctmgr: Path, answer: str, added: list[str], words: list[str]) -> None:
    (sacctmgr / "answer").write_text(answer)
    told = run(accounting, ASKED, diff=True)
    assert told["added"] == added
    assert told["changed"] is bool(added)
    heard = said(sacctmgr)
    assert len(heard) == len(words)
    assert all(line.startswith(f"--immediate --quiet add {start}") for line, start in zip(heard, words, strict=True))


def test_check_mode_only_tells(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "answer").write_text(REGISTERED)
    told = run(accounting, ASKED, check=True)
    assert told["changed"] and told["added"] == ["account default", "user alice, user bob"]
    assert said(sacctmgr) == []


def test_names_are_lower_case_in_the_accounting(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "answer").write_text(COMPLETE)
    assert not run(accounting, {"cluster": "Lab", "account": "Default", "users": ["Alice"]})["changed"]


def test_a_database_that_is_away_is_an_error(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "sacctmgr").write_text("#!/bin/sh\necho 'sacctmgr: error: Sending PersistInit msg: Connection refused' >&2; exit 1\n")
    told = run(accounting, ASKED)
    assert told["failed"]
    assert "Connection refused" in told["msg"] and "journalctl -u slurmdbd" in told["msg"]
    assert run(accounting, ASKED, check=True)["changed"]


def test_check_mode_does_not_wait_for_a_suspended_daemon(run: Any, sacctmgr: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (sacctmgr / "sacctmgr").write_text(f"#!/bin/sh\ntouch {sacctmgr}/called\n")
    monkeypatch.setattr(accounting, "suspended_units", lambda *names: [f"{names[1]} is suspended by a signal"])
    told = run(accounting, ASKED, check=True)
    assert not told["changed"] and "slurmdbd.service is suspended by a signal" in told["msg"] and not (sacctmgr / "called").exists()
    run(accounting, ASKED)
    assert (sacctmgr / "called").exists()


def test_other_output_is_an_error(run: Any, sacctmgr: Path) -> None:
    (sacctmgr / "answer").write_text("lab|root\n")
    told = run(accounting, ASKED)
    assert told["failed"] and "check the Slurm version" in told["msg"]


# As printed by 24.11.5, after accounts, limits and a quality of service were made by hand.
QOS = """normal|0||||||||00:00:00|1.000000|
urgent|100|gres/gpu=16|6|gres/gpu=4|gres/gpu=8|4|1-02:00:00|normal|00:02:00|0.500000|OverPartQOS,DenyOnLimit
"""
ACCOUNTS = """root|||1|||normal|
root|root||1|||normal|
default||root|1|||normal|
default|bob||1|||normal|
research||root|3|cpu=4,gres/gpu=16|5|normal,urgent|urgent
research|alice||1|||normal,urgent|urgent
"""
USERS = "alice|research\nbob|default\nroot|root\n"
RESEARCH = {
    "name": "research",
    "parent": "root",
    "users": ["alice"],
    "fairshare": 3,
    "gpus": 16,
    "running_jobs": 5,
    "qos": ["urgent", "normal"],
}
URGENT = {
    "name": "urgent",
    "priority": 100,
    "gpus": 16,
    "running_jobs": 6,
    "gpus_per_job": 4,
    "gpus_per_user": 8,
    "running_jobs_per_user": 4,
    "max_time_s": 93600,
    "preempts": ["normal"],
    "grace_time_s": 120,
    "usage_factor": 0.5,
    "flags": ["DenyOnLimit", "OverPartQOS"],
}
FRESH = {"name": "idle", "priority": 0, "preempts": []}
SHARED = {"cluster": "lab", "account": "default", "users": ["bob"], "accounts": [RESEARCH], "qos": [URGENT]}


@pytest.fixture
def shared(sacctmgr: Path) -> Path:
    """The same with an accounting in which all of SHARED is as declared."""
    (sacctmgr / "answer").write_text("lab|root|\nlab|root|root\nlab|default|\nlab|default|bob\nlab|research|\nlab|research|alice\n")
    for name, text in (("qos", QOS), ("accounts", ACCOUNTS), ("users", USERS)):
        (sacctmgr / name).write_text(text)
    (sacctmgr / "sacctmgr").write_text(
        f'#!/bin/sh\ncd {sacctmgr}\ncase "$*" in *format=Cluster*) cat answer ;; '
        f'*format=Name) cut -d"|" -f1 qos ;; *format=Name,*) cat qos ;; '
        f'*format=Account*) cat accounts ;; *format=User*) cat users ;; *) echo "$@" >>said ;; esac\n'
    )
    return sacctmgr


def changed(row: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**row, **values}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (SHARED, []),
        ({**SHARED, "accounts": [changed(RESEARCH, fairshare=2)]}, ["modify account where name=research cluster=lab set Fairshare=2"]),
        (
            {**SHARED, "accounts": [changed(RESEARCH, gpus=None, running_jobs=None)]},
            ["modify account where name=research cluster=lab set GrpTRES=gres/gpu=-1 GrpJobs=-1"],
        ),
        (
            {**SHARED, "accounts": [changed(RESEARCH, qos=[])]},
            ["modify account where name=research cluster=lab set QosLevel=normal DefaultQOS=-1"],
        ),
        ({**SHARED, "qos": [changed(URGENT, max_time_s=61)]}, ["modify qos where name=urgent set MaxWall=2"]),
        ({**SHARED, "qos": [changed(URGENT, preempts=[])]}, ["modify qos where name=urgent set Preempt="]),
        (
            {**SHARED, "qos": [changed(URGENT, gpus=None, running_jobs=None, gpus_per_job=8, grace_time_s=0, usage_factor=1, flags=[])]},
            [
                "modify qos where name=urgent set GrpTRES=gres/gpu=-1 GrpJobs=-1 MaxTRES=gres/gpu=8"
                " GraceTime=0 UsageFactor=1.000000 Flags=-1"
            ],
        ),
        (
            {**SHARED, "qos": [URGENT, changed(FRESH, gpus_per_user=8, running_jobs_per_user=4, max_time_s=93600, flags=["NoReserve"])]},
            ["add qos idle", "modify qos where name=idle set MaxTRESPU=gres/gpu=8 MaxJobsPU=4 MaxWall=1560 Flags=NoReserve"],
        ),
        ({**SHARED, "qos": [URGENT, FRESH], "only_qos_names": True}, ["add qos idle"]),
        ({**SHARED, "qos": [changed(URGENT, priority=7)], "only_qos_names": True}, []),
        (
            {**SHARED, "accounts": [RESEARCH, changed(RESEARCH, name="vision", parent="research", qos=[], gpus=None, running_jobs=None)]},
            [
                "add account vision cluster=lab parent=research description=rackwright organization=rackwright",
                "modify account where name=vision cluster=lab set Fairshare=3",
                "add user alice account=vision cluster=lab",
            ],
        ),
        (
            {**SHARED, "users": [], "accounts": [changed(RESEARCH, users=["alice", "bob"])]},
            [
                "add user bob account=research cluster=lab",
                "modify user where name=bob cluster=lab set DefaultAccount=research",
                "delete user where name=bob account=default cluster=lab",
            ],
        ),
        ({**SHARED, "users": ["bob"], "accounts": [changed(RESEARCH, users=[])]}, []),
    ],
    ids=[
        *("as declared", "another share", "no limits any more", "no quality of service any more", "a longest job, rounded up"),
        *(
            "preempts nobody any more",
            "other limits and no flags of a quality of service",
            "a new quality of service",
            "only the names of new ones",
            "only the names, of which none is new",
            "an account below another",
            "a user who moves",
            "a user who is no longer named",
        ),
    ],
)
def test_shares_and_limits_are_set_where_they_differ(run: Any, shared: Path, asked: dict[str, Any], words: list[str]) -> None:
    told = run(accounting, asked)
    assert not told["failed"], told
    assert said(shared) == [f"--immediate --quiet {line}" for line in words]
    assert told["changed"] is bool(words) and len(told["added"]) == len(words)


def test_check_mode_tells_of_shares_and_sets_none(run: Any, shared: Path) -> None:
    told = run(accounting, {**SHARED, "accounts": [changed(RESEARCH, fairshare=2)]}, check=True, diff=True)
    assert told["added"] == ["account research: Fairshare=2"] and told["diff"] == {"prepared": "account research: Fairshare=2\n"}
    assert said(shared) == []


def test_a_listing_that_cannot_be_read_is_an_error(run: Any, shared: Path) -> None:
    (shared / "qos").write_text("normal|0\n")
    told = run(accounting, SHARED)
    assert told["failed"] and "cannot parse line normal|0" in told["msg"]


@pytest.mark.parametrize("shown", ["UNLIMITED", "INFINITE", "", " "])
def test_missing_time_limit_is_read_in_every_form(shown: str) -> None:
    assert slurm_shares.duration(shown) == slurm_shares.NO_LIMIT
