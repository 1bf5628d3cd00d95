"""Outputs of sacctmgr and ss: limits of every form, and addresses of the database."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rackwright.checks.cluster import test_accounting
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.accounting import gpus_of, only_local, parse_listening, parse_qos, parse_shares, parse_table, seconds
from rackwright.errors import UndeterminedError

SHARES = "Account|User|ParentName|Share|GrpTRES|GrpJobs|QOS|Def QOS\n"
QOS = "Name|Priority|GrpTRES|GrpJobs|MaxTRES|MaxTRESPU|MaxJobsPU|MaxWall|Preempt|GraceTime|UsageFactor|Flags\n"
ROOT = "root|||1|||normal|\nroot|root||1|||normal|\n"


def account(row):
    return parse_shares(f"{SHARES}{ROOT}{row}\n").accounts["physics"]


def test_share_of_parent_is_read():
    found = account("physics||root|parent|cpu=64,gres/gpu=16,gres/gpu:l4=4||normal,high|high")
    assert (found.fairshare, found.gpus, found.running_jobs, found.qos) == ("parent", 16, None, {"normal", "high"})


def judged(*rows):
    """Judge two planned accounts, each with one share and eight GPUs."""
    found = parse_shares(SHARES + ROOT + "".join(f"{row}\n" for row in rows))
    same = {"parent": "root", "fairshare": 1, "gpus": 8, "running_jobs": None, "qos": [], "users": []}
    cluster = SimpleNamespace(scheduler=SimpleNamespace(accounts=[SimpleNamespace(name=name, **same) for name in ("chem", "physics")]))
    test_accounting.test_accounts_match_plan(lambda probe: found, cluster, Expect())


def test_account_with_unread_value_is_unknown_unless_another_differs():
    good, unread = "chem||root|1|gres/gpu=8||normal|", "physics||root|?|gres/gpu=8||normal|"
    judged(good, good.replace("chem", "physics"))
    with pytest.raises(UndeterminedError, match="physics"):
        judged(good, unread)
    with pytest.raises(Mismatch, match="expected chem fairshare: 1, found chem fairshare: parent"):
        judged(good.replace("root|1", "root|parent"), unread)
    with pytest.raises(Mismatch, match="found physics gpus: 9"):
        judged(good, unread.replace("=8", "=9"))
    with pytest.raises(Mismatch, match="missing"):
        judged(unread)


def test_unread_value_spoils_no_other():
    found = account("physics||root|?|gres/gpu=many|7|normal|")
    assert isinstance(found.fairshare, UnreadableValue) and isinstance(found.gpus, UnreadableValue)
    assert (found.running_jobs, found.parent) == (7, "root")
    qos = parse_qos(
        f"{QOS}normal|0||||||||00:00:00|1.000000|\nlong|5|gres/gpu=9|3|gres/gpu=1|gres/gpu=8|2|soon|normal|00:01:00|x|NoReserve\n"
    )
    assert isinstance(qos["long"].max_time_s, UnreadableValue) and isinstance(qos["long"].usage_factor, UnreadableValue)
    assert (qos["long"].priority, qos["long"].gpus, qos["long"].running_jobs, qos["long"].gpus_per_job) == (5, 9, 3, 1)
    assert (qos["long"].grace_time_s, qos["long"].flags) == (60, {"NoReserve"})
    assert (qos["normal"].max_time_s, qos["normal"].grace_time_s, qos["normal"].usage_factor) == (None, None, 1)


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
    "flags": ["DenyOnLimit"],
}


def judge_qos(**changes):
    """Compare the QOS of the captured output with a plan."""
    found = parse_qos((Path(__file__).parents[1] / "captured" / "accounting-qos" / "good.txt").read_text(encoding="utf-8"))
    cluster = SimpleNamespace(scheduler=SimpleNamespace(qos=[SimpleNamespace(**{**URGENT, **changes})]))
    test_accounting.test_qos_match_plan(lambda probe: found, cluster, Expect())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpus": 8}, "expected urgent gpus: 8, found urgent gpus: 16"),
        ({"running_jobs": None}, "found urgent running_jobs: 6"),
        ({"gpus_per_job": None}, "found urgent gpus_per_job: 4"),
        ({"grace_time_s": 0}, "found urgent grace_time_s: 120"),
        ({"usage_factor": 1.0}, "expected urgent usage_factor: 1.0, found urgent usage_factor: 0.5"),
        ({"flags": []}, "urgent flags"),
    ],
)
def test_each_changed_setting_of_qos_is_named(changes, words):
    judge_qos()
    judge_qos(usage_factor=0.5000001)
    with pytest.raises(Mismatch, match=words):
        judge_qos(**changes)


@pytest.mark.parametrize(
    ("shown", "result"),
    [
        ("1-00:00:00", 86400),
        ("00:30:00", 1800),
        ("365-12:00:01", 31579201),
        ("UNLIMITED", None),
        ("INFINITE", None),
        ("", None),
        (" ", None),
    ],
)
def test_time_of_sacctmgr_is_read(shown, result):
    assert seconds(shown) == result


@pytest.mark.parametrize("shown", ["soon", "1-00", "12:00", "1:2:3", "-1"])
def test_other_text_is_no_time(shown):
    with pytest.raises(ValueError, match="is not a time"):
        seconds(shown)


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [("gres/gpu=16", 16), ("billing=9,gres/gpu:h100=4,mem=64G", None), ("license/x=1=2,gres/gpu=0", 0), (" cpu=1,gres/gpu=2 ", 2)],
)
def test_gpu_limit_is_read(tres, gpus):
    assert gpus_of(tres) == gpus


def test_table_is_read_beside_warnings_and_line_ends():
    assert parse_table("sacctmgr: warning: old client\r\nCluster|Port\r\nlab|6817\r\n\r\n") == (("lab", "6817"),)


def test_odd_row_is_quoted():
    with pytest.raises(ValueError, match=r"lab\|6817\|x"):
        parse_table("Cluster|Port\nlab|6817|x\n")


SS = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n"


@pytest.mark.parametrize(
    ("local", "is_local"),
    [
        ("127.0.0.1:3306", True),
        ("127.0.0.53%lo:3306", True),
        ("[::1]:3306", True),
        ("[::ffff:127.0.0.1]:3306", True),
        ("[::ffff:192.0.2.1]:3306", False),
        ("[::]:3306", False),
        ("*:3306", False),
        ("192.0.2.7%eth0:3306", False),
    ],
)
def test_only_loopback_is_local(local, is_local):
    assert only_local(parse_listening(f"{SS}LISTEN 0 80 {local} 0.0.0.0:*\r\n\n")) is is_local
