"""Outputs of Slurm 20.11 to 26.05: states of nodes, GRES, host lists, versions."""

from __future__ import annotations

import pytest
from support.rows import each_row

from rackwright.checks.cluster.probes.slurm import expand, parse_gres, parse_version
from rackwright.checks.cluster.probes.slurm_states import at_work, is_idle, is_working, states_of
from rackwright.remote.programs import smoke_jobs


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE+CLOUD+NOT_RESPONDING+POWERING_UP", True),
        ("CANCEL_REBOOT", True),
        ("MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", True),
        ("IDLE*+CLOUD+POWERED_DOWN", True),
        ("IDLE*+CLOUD+POWERING_DOWN", True),
        ("IDLE+CLOUD+POWER", True),
        ("ALLOCATED#+CLOUD", True),
        ("IDLE+CLOUD+POWERING_DOWN", True),
        ("MIXED+PLANNED+POWER_DRAIN", True),
        ("IDLE+CLOUD+NOT_RESPONDING", False),
        ("IDLE*+POWER_UP", False),
        ("DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", False),
        ("DOWN~", False),
        ("IDLE+CLOUD+DRAIN+NOT_RESPONDING+POWERING_UP", False),
        ("IDLE+CLOUD+INVALID_REG+POWERING_UP", False),
    ],
)
def test_silence_counts_unless_power_changes(state, expected):
    assert is_working(states_of(state)) is expected


@each_row(
    ("field", "gpus"),
    [
        ("gpu", {"": 1}),
        ("gpu:h100", {"h100": 1}),
        ("gpu:8", {"": 8}),
        ("gpu:h100:8(S:0-1)", {"h100": 8}),
        ("gpu:h100:8(S:0,2-3),gpu:l4:2(S:1)", {"h100": 8, "l4": 2}),
        ("gpu:h100:4(IDX:0-3),gpu:h100:4", {"h100": 8}),
        ("gpu:2,gpu:l4:2", {"": 2, "l4": 2}),
        ("gpu:no_consume:4", {"": 4}),
        ("gpu:l4:no_consume:4", {"l4": 4}),
        ("gpu:nvidia_h100_80gb_hbm3_1g.10gb+me:1", {"nvidia_h100_80gb_hbm3_1g.10gb+me": 1}),
        ("gpu:tesla_v100-sxm2-32gb:1K", {"tesla_v100-sxm2-32gb": 1024}),
        ("gpu:a100:4,shard:a100:64,mps:400,bandwidth:lustre:no_consume:4G", {"a100": 4}),
        ("VisLicense:1,gpu:2", {"": 2}),
        ("gpu:8(IDX:N/A)", {"": 8}),
        ("gpu:a100:0(IDX:N/A),mps:a100:0(IDX:N/A)", {"a100": 0}),
        ("gres:gpu:h100:8(IDX:0-7)", {"h100": 8}),
        ("gres/gpu:h100:8", {"h100": 8}),
        ("gpu:1g.10gb:7,gpu:3g.40gb:2", {"1g.10gb": 7, "3g.40gb": 2}),
        ("gres/gpu=8", {"": 8}),
        ("gres/gpu:h100=8", {"h100": 8}),
        ("cpu=96,mem=1056000M,billing=96,gres/gpu=8,gres/gpu:h100=8", {"h100": 8}),
        ("billing=12200,cpu=4,gres/gpu:h100=1,gres/gpu=1,mem=42.5G,node=1", {"h100": 1}),
        ("gres/gpu=10,gres/gpu:h100=8,gres/shard=20", {"h100": 8, "": 2}),
        ("cpu=8,mem=2G,energy=120K,license/matlab=2", {}),
        ("local-nvme:1,gpu:h100:8(S:0-1)", {"h100": 8}),
        ("cpu=8,gres/gpu=2,gres/gpu:h100=2,gres/local-nvme=1,license/solver-x@lic0=40,mem=2.50G", {"h100": 2}),
        ("", {}),
    ],
)
def test_gres_counts_gpus(field, gpus):
    assert parse_gres(field) == gpus


@pytest.mark.parametrize("field", ["gpu:a:b:2", "gpu:8 nic:2", "gpu:8,gres/gpu=8", "gres/gpu=N/A", "gres/gpu=1,5", "8", "N/A"])
def test_other_text_is_no_gres(field):
    with pytest.raises(ValueError, match="is no"):
        parse_gres(field)


@pytest.mark.parametrize(
    ("hostlist", "names"),
    [
        ("rack[0-1]node[08-10]", ("rack0node08", "rack0node09", "rack0node10", "rack1node08", "rack1node09", "rack1node10")),
        ("n[1,3-4]-ib,m", ("m", "n1-ib", "n3-ib", "n4-ib")),
        ("r[1]c[2]s[3-4]", ("r1c2s3", "r1c2s4")),
        ("n[098-101,7]", ("n098", "n099", "n100", "n101", "n7")),
        ("n[001-002,12]-ib[0-1]", ("n001-ib0", "n001-ib1", "n002-ib0", "n002-ib1", "n12-ib0", "n12-ib1")),
        ("(null)", ()),
    ],
)
def test_hostlist_gives_every_name(hostlist, names):
    assert expand(hostlist) == names


@pytest.mark.parametrize(
    "hostlist",
    [
        *("n[0-9:2]", "n[0-99999999]", "a[0-999]b[0-999]", "n[1-2", "n1]", "n[5-3]", "n[1--3]", "a,,b", "a b", "bgl[000x133]"),
    ],
)
def test_other_text_is_no_hostlist(hostlist):
    with pytest.raises(ValueError, match=r"names|host list"):
        expand(hostlist)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("slurm 20.11.9\n", "20.11.9"),
        ("slurm-wlm 24.11.5\r\n", "24.11.5"),
        ("slurm 26.05.0-0rc1\n", "26.05.0-0rc1"),
        ("slurmd: warning: LogFile is not set\nslurm 25.05.2\n", "25.05.2"),
    ],
)
def test_version_is_read_beside_warnings(text, version):
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "slurm\n", "slurm 24.11.5\nslurm 25.05.0\n", "slurm unknown\n"])
def test_other_text_is_no_version(text):
    with pytest.raises(ValueError, match="version"):
        parse_version(text)


IDLE, BUSY, UNUSABLE = "idle", "at work", "unusable"
LONG_STATES = {
    **dict.fromkeys(("idle", "idle~", "idle#", "idle!", "idle%"), IDLE),
    **dict.fromkeys(("power_down", "powered_down", "powering_up", "powering_down"), IDLE),
    **dict.fromkeys(("allocated", "allocated+", "allocated#", "allocated!", "allocated-", "allocated$"), BUSY),
    **dict.fromkeys(("mixed", "mixed+", "mixed-", "mixed$", "mixed!", "mixed#", "completing", "planned", "blocked"), BUSY),
    **dict.fromkeys(("reserved", "maint", "idle$"), BUSY),
    **dict.fromkeys(("idle*", "allocated*", "mixed*", "completing*", "maint*", "unknown", "unk*"), UNUSABLE),
    **dict.fromkeys(("idle@", "mixed@", "allocated^", "idle^", "reboot", "reboot^", "reboot@"), UNUSABLE),
    **dict.fromkeys(("down", "down*", "down$", "down~", "down^", "drained", "drained*", "drained$", "drained~"), UNUSABLE),
    **dict.fromkeys(("draining", "draining@", "drain@", "fail", "failing", "fail*", "inval", "error", "no_respond"), UNUSABLE),
    **dict.fromkeys(("future", "?", "n/a", "idle&"), UNUSABLE),
}
"""States as `sinfo -o %T` prints them, in words of Slurm 20.11 to 25.05 (sinfo(1), NODE STATE CODES)."""


@each_row("reason", ["none", "Not responding"])
@each_row("state", LONG_STATES)
def test_job_is_submitted_to_idle_nodes_only(state, reason):
    found = f"{state} {reason}"
    assert (is_idle(found), at_work(found)) == (LONG_STATES[state] == IDLE, LONG_STATES[state] == BUSY)
    assert smoke_jobs.is_idle(found) == is_idle(found)  # the program on the submitting node has no such module


def test_empty_state_is_neither_idle_nor_at_work():
    assert not is_idle("") and not at_work("")
