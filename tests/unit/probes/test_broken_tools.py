"""Partially broken tools: no output with status 0, missing, killed by a signal, only errors. All leave the check unknown."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.acceptance.evaluators import records
from rackwright.checks.cluster import test_accounting, test_gpu, test_software, test_storage
from rackwright.checks.cluster.harness.probe import CommandOutput, Probe
from rackwright.checks.cluster.probes.accounting import ASSOCIATIONS, CLUSTERS, LISTENING
from rackwright.checks.cluster.probes.accounts import ACCOUNTS
from rackwright.checks.cluster.probes.driver_errors import XIDS
from rackwright.checks.cluster.probes.gpu import DEVICES, GPUS
from rackwright.checks.cluster.probes.neuron import NEURON_DEVICES
from rackwright.checks.cluster.probes.pods import REMAINING_PODS
from rackwright.checks.cluster.probes.software import DCGM_HEALTH, NCCL
from rackwright.checks.cluster.probes.sshd import HOST_KEYS
from rackwright.checks.cluster.probes.storage import ANSWERING, MOUNTS, NFS_SERVER, ROOTS
from rackwright.checks.cluster.probes.storage_usage import USAGE
from rackwright.errors import UndeterminedError
from rackwright.remote.programs import commands
from rackwright.report.verdict import Verdict

NODE = {"name": "w0", "gpus": {"simulated": False}, "address": "10.0.0.1"}
STORAGE = {"kind": "nfs", "mount": "/home", "clients": ["w0"], "servers": ["w0"]}
DECLARED = SimpleNamespace(cluster={"storage": [STORAGE], "users": [{"name": "alice"}], "scheduler": {}}, members=lambda _: ("w0",))
RUN = SimpleNamespace(data={"nodes": {"w0": {"plain": {"uid": "8c03"}}}})
PLACE = SimpleNamespace(node=NODE, declared=DECLARED, earlier_result=lambda *_: RUN)
ASKED = [ACCOUNTS, ASSOCIATIONS, CLUSTERS, DCGM_HEALTH, DEVICES, GPUS, HOST_KEYS, LISTENING, MOUNTS, NCCL]
ASKED += [NEURON_DEVICES, NFS_SERVER, ROOTS, USAGE, XIDS]
TOOLS = ("awk", "cat", "dcgmi", "exportfs", "find", "getent", "grep", "journalctl", "ldconfig", "ls", "nvidia-smi", "readlink", "sacctmgr")
TOOLS += ("head", "sed", "ss", "ssh-keygen", "stat", "timeout", "xargs")


@pytest.fixture
def ask(tmp_path):
    """Run a probe on a machine on which this script replaces all tools."""

    def asked(probe: Probe, script: str) -> CommandOutput:
        for tool in TOOLS:
            (tmp_path / tool).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / tool).chmod(0o755)
        environment = {"PATH": str(tmp_path), "RACKWRIGHT_SLOWNESS": "1"}
        ended = subprocess.run(["/bin/sh", "-c", probe.command_at(PLACE)], env=environment, capture_output=True, text=True, cwd="/")
        return CommandOutput(rc=ended.returncode, out=ended.stdout, err=ended.stderr)

    return asked


MISSING = "echo 'cannot open shared object file' >&2; exit 127"


@pytest.mark.parametrize("script", ["exit 0", MISSING, "kill -KILL $$", "echo oops >&2; exit 1"])
@pytest.mark.parametrize("probe", ASKED, ids=[probe.name for probe in ASKED])
def test_broken_tool_leaves_check_unknown(ask, probe, script):
    raw = ask(probe, script)
    with pytest.raises(UndeterminedError):
        probe.read(raw)


@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        ("exit 0", Verdict.UNKNOWN),
        (MISSING, Verdict.UNKNOWN),
        ("kill -KILL $$", Verdict.UNKNOWN),
        ("echo 'stat: /home: Stale file handle' >&2; exit 1", Verdict.FAILED),
        ("echo nfs", Verdict.PASSED),
    ],
)
def test_mount_needs_file_system_type_from_stat(ask, script, verdict):
    raw = ask(ANSWERING, script)
    node, cluster = SimpleNamespace(name="w0"), SimpleNamespace(storage=[SimpleNamespace(mount="/home", clients=["w0"])])
    assert verdict_of(test_storage.test_answers, {ANSWERING: lambda: ANSWERING.read(raw)}, node=node, cluster=cluster)[0] is verdict


def test_leftover_search_fails_without_tools(tmp_path):
    environment = {"PATH": str(tmp_path)}
    assert subprocess.run(["/bin/sh", "-c", REMAINING_PODS.command_at(PLACE)], env=environment, capture_output=True).returncode == 127


LOOP = f"yes 'NVRM: Xid (PCI:0000:10:00): 31, pid=1, {'x' * 99}' | head -n 20000"
"""A program that fails 20,000 times."""


@pytest.mark.parametrize(
    ("journal", "verdict"),
    [
        ("exit 1", Verdict.UNKNOWN),
        ("echo 'Compiled without pattern matching support' >&2; exit 1", Verdict.UNKNOWN),
        ("case \"$*\" in *'--grep=.'*) echo 'Linux version 6.12'; exit 0;; esac; exit 1", Verdict.PASSED),
        ("echo 'NVRM: Xid (PCI:0000:10:00): 79, pid=1, GPU has fallen off the bus.'", Verdict.FAILED),
        (f"yes 'NVRM: Xid (PCI:0000:10:00): 31, pid=1, {'x' * 99}' | head -n 20000", Verdict.PASSED),
        (
            f"yes 'NVRM: Xid (PCI:0000:10:00): 31, pid=1, {'x' * 99}' | head -n 20000; echo 'NVRM: Xid (PCI:0000:10:00): 79, x'",
            Verdict.FAILED,
        ),
        ("yes 'nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 23001, Fatal, Link 12 x' | head -n 90", Verdict.FAILED),
    ],
)
def test_clean_log_must_have_been_read(tmp_path, journal, verdict):
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\n{journal}\n")
    (tmp_path / "journalctl").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = subprocess.run(["/bin/sh", "-c", XIDS.command_at(PLACE)], env=environment, capture_output=True, text=True)
    raw = CommandOutput(rc=ended.returncode, out=ended.stdout, err=ended.stderr)
    assert verdict_of(test_gpu.test_no_xid_errors, {XIDS: lambda: XIDS.read(raw)})[0] is verdict
    assert len(raw.out) < commands.MAX_OUTPUT / 10


def test_log_is_unknown_without_the_filter(tmp_path):
    """A missing awk must not look like a log without errors."""
    for name, text in (("journalctl", "echo 'NVRM: Xid (PCI:0000:10:00): 79, x'"), ("awk", "exit 127")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.run(["/bin/sh", "-c", XIDS.command_at(PLACE)], env=environment, capture_output=True).returncode == 3


def test_real_stat_lists_devices():
    ended = subprocess.run(["/bin/sh", "-c", NEURON_DEVICES.command_at(PLACE)], capture_output=True, text=True)
    assert NEURON_DEVICES.read(CommandOutput(rc=ended.returncode, out=ended.stdout)) == ()


@pytest.mark.parametrize(
    ("check", "probe", "empty"),
    [
        (test_accounting.test_cluster_is_registered, CLUSTERS, "Cluster|ControlHost|ControlPort\n"),
        (test_accounting.test_users_have_associations, ASSOCIATIONS, "Cluster|Account|User\n"),
        (test_software.test_nccl_matches_plan, NCCL, "1142 libs found in cache `/etc/ld.so.cache'\n"),
        (test_gpu.test_devices_are_distinct, DEVICES, "/dev/null|character special file|1:3\n"),
    ],
)
def test_empty_list_fails_and_missing_list_is_unknown(check, probe, empty):
    node = SimpleNamespace(gpus=SimpleNamespace(count=8))
    versions = SimpleNamespace(nccl="2.28.9")
    scheduler = SimpleNamespace(cluster_name="lab")
    cluster = SimpleNamespace(scheduler=scheduler, users=[SimpleNamespace(name="alice")], software=SimpleNamespace(versions=versions))
    verdicts = [verdict_of(check, answers_of({probe: text}), node=node, cluster=cluster)[0] for text in (empty, "")]
    assert verdicts == [Verdict.FAILED, Verdict.UNKNOWN]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rc": -9, "out": "GPU 0\n", "err": ""}, "was ended by signal 9: GPU 0"),
        ({"rc": 137, "out": "", "err": "Killed\n"}, "was ended by signal 9: Killed"),
        ({"rc": 0, "out": "\n", "err": ""}, "printed nothing and ended with status 0"),
        ({"rc": 127, "out": "", "err": ""}, "ended with status 127"),
    ],
)
def test_crashed_acceptance_tool_is_unknown(said, words):
    with pytest.raises(UndeterminedError, match=words):
        records.tool({"nvidia-smi": said}, "nvidia-smi")


@pytest.mark.parametrize("status", [0, 1, 15, 226, 255])
def test_exited_acceptance_tool_is_read(status):
    assert records.tool({"dcgmi": {"rc": status, "out": "x", "err": ""}}, "dcgmi") == "x"


@pytest.mark.parametrize(("characters", "told"), [(40, True), (41, False)])
def test_oversized_output_is_not_reported_partially(monkeypatch, characters, told):
    monkeypatch.setattr(commands, "MAX_OUTPUT", 40)
    answer = commands.ask("long", f"printf %0{characters}d 0", 5, commands.time.monotonic() + 5)
    assert (answer["error"] == "") is told
