"""Options of slurmctld compared with slurm.conf: changes by scontrol are named, changes by power saving are ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.rows import each_row

from rackwright.checks.cluster import test_slurm
from rackwright.checks.cluster.harness.compare import Expect, Mismatch
from rackwright.checks.cluster.harness.probe import CommandOutput
from rackwright.checks.cluster.probes.slurm import SETTINGS
from rackwright.checks.cluster.probes.slurm_options import FILE, NODE_OPTIONS, PARTITION_OPTIONS, parse_file
from rackwright.errors import UndeterminedError

FOLDER = Path(__file__).parents[1] / "captured"
HEAD = "ClusterName=lab\n"
PARTITIONS, NODES, LOG = (
    test_slurm.test_partition_options_match_file,
    test_slurm.test_node_options_match_file,
    test_slurm.test_log_settings_match_file,
)
PROBES = {PARTITIONS: PARTITION_OPTIONS, NODES: NODE_OPTIONS, LOG: SETTINGS}


def text(probe):
    return (FOLDER / probe.name / "good.txt").read_text(encoding="utf-8")


def judged(check, before="", after="", file=None):
    """Run a check on the outputs of a healthy controller, with one passage replaced, and a slurm.conf."""
    output = text(PROBES[check])
    assert before in output
    answers = {FILE: file or text(FILE), PROBES[check]: output.replace(before, after, 1) if before else output}
    expect = Expect()
    check(lambda probe: probe.read(CommandOutput(out=answers[probe])), expect)
    return expect


@pytest.mark.parametrize("check", [PARTITIONS, NODES, LOG])
def test_unchanged_slurm_options_pass(check):
    assert judged(check).compared == 1


@pytest.mark.parametrize(
    ("check", "before", "after", "words"),
    [
        (PARTITIONS, "PriorityTier=1", "PriorityTier=7", "expected gpu PriorityTier: 1, found gpu PriorityTier: 7"),
        (PARTITIONS, "AllowGroups=ALL", "AllowGroups=root", "found gpu AllowGroups: root"),
        (PARTITIONS, "AllowAccounts=ALL", "DenyAccounts=students", "found gpu DenyAccounts: students"),
        (PARTITIONS, "MaxTime=UNLIMITED", "MaxTime=01:00:00", "expected gpu MaxTime: INFINITE, found gpu MaxTime: 01:00:00"),
        (PARTITIONS, "OverSubscribe=NO", "OverSubscribe=FORCE:4", "found gpu OverSubscribe: FORCE:4"),
        (PARTITIONS, "MinNodes=0", "MinNodes=2", "found gpu MinNodes: 2"),
        (PARTITIONS, "PreemptMode=REQUEUE", "PreemptMode=OFF", "expected gpu PreemptMode: REQUEUE, found gpu PreemptMode: OFF"),
        (PARTITIONS, "QoS=N/A", "QoS=owners", "expected gpu QoS: N/A, found gpu QoS: owners"),
        (PARTITIONS, "AllowQos=ALL", "AllowQos=normal", "expected gpu AllowQos: ALL, found gpu AllowQos: normal"),
        (PARTITIONS, "GraceTime=0", "GraceTime=60", "expected gpu GraceTime: 0, found gpu GraceTime: 60"),
        (NODES, "Weight=1", "Weight=7", "expected worker0 Weight: 1, found worker0 Weight: 7"),
        (NODES, "AvailableFeatures=(null)", "AvailableFeatures=fast", "found worker0 Features: fast"),
        (
            LOG,
            "SlurmctldDebug          = info",
            "SlurmctldDebug = debug2",
            "expected log SlurmctldDebug: info, found log SlurmctldDebug: debug2",
        ),
        (PARTITIONS, "DisableRootJobs=NO", "DisableRootJobs=YES", "expected gpu DisableRootJobs: NO, found gpu DisableRootJobs: YES"),
        (LOG, "DebugFlags              = (null)", "DebugFlags = Backfill,Gres", "found log DebugFlags: Backfill,Gres"),
        (LOG, "SlurmSchedLogLevel      = 0", "SlurmSchedLogLevel = 1", "found log SlurmSchedLogLevel: 1"),
    ],
)
def test_each_option_changed_by_scontrol_is_named(check, before, after, words):
    with pytest.raises(Mismatch) as raised:
        judged(check, before, after)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("check", "before", "after"),
    [
        (NODES, "State=IDLE ", "State=IDLE+CLOUD+POWERED_DOWN "),
        (NODES, "State=IDLE ", "State=IDLE+DRAIN Reason=bad DIMM, Weight=9 [root@2026-11-21T04:00:00] "),
        (NODES, "NodeName=worker1 ", "NodeName=dynamic7 Weight=9 "),
        (PARTITIONS, "MinNodes=0", "MinNodes=1"),
        (PARTITIONS, "State=UP", "State=DOWN"),
    ],
)
def test_states_drains_and_inherited_options_are_ignored(check, before, after):
    assert judged(check, before, after).compared == 1


@each_row(
    ("check", "file", "before", "after"),
    [
        (
            PARTITIONS,
            "PartitionName=gpu Nodes=ALL MaxTime=0-01:30:00 Shared=YES",
            "MaxTime=UNLIMITED",
            "OverSubscribe=YES:4 MaxTime=01:30:00",
        ),
        (PARTITIONS, "PartitionName=DEFAULT PriorityTier=3\npartitionname=gpu \\\n nodes=ALL # all", "PriorityTier=1", "PriorityTier=3"),
        (PARTITIONS, "PartitionName=gpu AllowGroups=b,a", "AllowGroups=ALL", "AllowGroups=a,b"),
        (NODES, "NodeName=worker[0-1] Weight=5\nSlurmctldDebug=3", "Weight=1", "Weight=5"),
        (NODES, "NodeName = worker0,worker1  Weight = 5", "Weight=1", "Weight=5"),
        (NODES, 'NodeName=worker[0-1] Features="b,a"', "AvailableFeatures=(null)", "AvailableFeatures=a,b"),
        (NODES, "NodeName=worker0,\\\r\nworker1 Weight=5\r", "Weight=1", "Weight=5"),
        (NODES, "NodeName=rack[0-1]n[0-3] Weight=9\nNodeName=worker[0-1] Weight=5 # Weight=7", "Weight=1", "Weight=5"),
        (NODES, "NODENAME=worker[0-1] WEIGHT=5", "Weight=1", "Weight=5"),
        (PARTITIONS, "PartitionName = gpu MaxTime = 90", "MaxTime=UNLIMITED", "MaxTime=01:30:00"),
        (PARTITIONS, "PartitionName=gpu MaxNodes=INFINITE MaxCPUsPerNode=infinite", "", ""),
        (PARTITIONS, "PartitionName=gpu Hidden=0 RootOnly=false ReqResv=No ExclusiveUser=no", "", ""),
        (PARTITIONS, "PartitionName=gpu Hidden=true", "Hidden=NO", "Hidden=YES"),
        (PARTITIONS, "PartitionName=gpu DisableRootJobs=yes", "DisableRootJobs=NO", "DisableRootJobs=YES"),
        (PARTITIONS, "DisableRootJobs=1\nPartitionName=gpu", "DisableRootJobs=NO", "DisableRootJobs=YES"),
        (PARTITIONS, "PartitionName=gpu PreemptMode=off QOS=owners", "QoS=N/A", "QoS=owners PreemptMode=OFF"),
        (PARTITIONS, "PreemptMode=SUSPEND,GANG\nPartitionName=gpu AllowQos=b,a", "AllowQos=ALL", "AllowQos=a,b PreemptMode=GANG,SUSPEND"),
    ],
)
def test_declared_options_are_read_in_every_form(check, file, before, after):
    output = text(PROBES[check]).replace(before, after) if before else text(PROBES[check])
    answers = {FILE: f"{HEAD}PreemptMode=REQUEUE\n{file}\n", PROBES[check]: output}
    if "OverSubscribe" in after:
        answers[PROBES[check]] = output.replace("OverSubscribe=NO ", "")
    if "PreemptMode" in after:
        answers[PROBES[check]] = output.replace("PreemptMode=REQUEUE ", "")
    check(lambda probe: probe.read(CommandOutput(out=answers[probe])), expect := Expect())
    assert expect.compared == 1


def test_log_level_may_be_numeric():
    assert judged(LOG, "SlurmctldDebug          = info", "SlurmctldDebug = debug", file=HEAD + "SlurmctldDebug=5\n").compared == 1


@pytest.mark.parametrize("check", [PARTITIONS, NODES])
def test_unreadable_line_is_unknown(check):
    answers = {FILE: text(FILE), PROBES[check]: text(PROBES[check]) + "garbage without a name\n"}
    with pytest.raises(UndeterminedError, match="a line cannot be read"):
        check(lambda probe: probe.read(CommandOutput(out=answers[probe])), Expect())


INCLUDES = ["Include /etc/slurm/more.conf (No such file or directory)", "include\t/etc/slurm/more.conf", "INCLUDE  more-%c.conf"]
PARTITION = "PartitionName=gpu Nodes=ALL\n"


@each_row("line", INCLUDES)
@each_row(
    ("check", "file"),
    [
        (PARTITIONS, "{include}"),
        (PARTITIONS, "{include}PartitionName=gpu Nodes=ALL\n"),
        (PARTITIONS, "DisableRootJobs=NO\nPartitionName=gpu Nodes=ALL\n{include}"),
        (NODES, "{include}"),
        (NODES, "NodeName=DEFAULT Weight=1\n{include}NodeName=worker[0-1]\n"),
        (NODES, "NodeName=worker0\n{include}"),
        (LOG, "{include}"),
        (LOG, "SlurmctldDebug=info\n{include}"),
    ],
    ids=["partition", "partition-defaults", "setting-of-all", "nodes", "node-defaults", "other-node", "log", "log-above"],
)
def test_option_that_an_unread_file_may_set_is_unknown(check, file, line):
    with pytest.raises(UndeterminedError) as raised:
        judged(check, file=HEAD + file.format(include=line + "\n"))
    assert "is not compared: slurm.conf has the line" in str(raised.value) and line.split()[1] in str(raised.value)


@pytest.mark.parametrize(
    ("check", "file", "before", "after", "words"),
    [
        (PARTITIONS, PARTITION + "{include}", "PriorityTier=1", "PriorityTier=7", "found gpu PriorityTier: 7"),
        (PARTITIONS, "{include}PartitionName=gpu MaxTime=60\n", "", "", "expected gpu MaxTime: 60"),
        (NODES, "{include}NodeName=worker[0-1] Weight=5\n", "", "", "expected worker0 Weight: 5"),
        (NODES, "NodeName=DEFAULT Weight=5\nNodeName=worker0\n{include}", "", "", "expected worker0 Weight: 5"),
        (NODES, "{include}NodeName=DEFAULT Weight=5\nNodeName=worker[0-1]\n", "", "", "expected worker0 Weight: 5"),
        (LOG, "{include}SlurmctldDebug=debug\n", "", "", "expected log SlurmctldDebug: debug"),
    ],
    ids=["above", "on-the-line", "node", "default-above", "default-below", "setting-below"],
)
def test_option_that_an_unread_file_cannot_set_still_fails(check, file, before, after, words):
    with pytest.raises(Mismatch) as raised:
        judged(check, before, after, file=HEAD + file.format(include=INCLUDES[0] + "\n"))
    assert words in str(raised.value)


def test_nodes_above_an_unread_file_pass():
    judged(NODES, file=HEAD + "NodeName=worker[0-1] State=UNKNOWN\n" + INCLUDES[0] + "\n")


def test_line_may_have_several_settings():
    found = parse_file("ClusterName=lab SlurmctldDebug=debug\nslurmctldport = 6817  DEBUGFLAGS=Gres,Backfill # all\n").settings
    assert found == {"clustername": "lab", "slurmctlddebug": "debug", "slurmctldport": "6817", "debugflags": "Gres,Backfill"}


def test_options_of_other_lines_are_no_settings():
    lines = 'NodeSet=h100 Nodes=worker[0-7]\nDownNodes=worker7 State=DOWN Reason="bad DIMM"\nSwitchName=leaf0 Nodes=worker[0-7]\n'
    assert parse_file(HEAD + lines).settings == {"clustername": "lab"}


def test_comment_does_not_continue():
    with pytest.raises(Mismatch, match="expected worker0 Weight: 5"):
        judged(NODES, file=HEAD + "# formerly: \\\nNodeName=worker[0-1] Weight=5\n")


def test_stray_word_in_a_node_is_unknown():
    with pytest.raises(ValueError, match="stray"):
        parse_file(HEAD + "NodeName=worker0 stray Weight=5\n")


def test_unknown_time_format_is_unknown():
    with pytest.raises(UndeterminedError, match='"soon" is not a time limit'):
        judged(PARTITIONS, "MaxTime=UNLIMITED", "MaxTime=soon")
