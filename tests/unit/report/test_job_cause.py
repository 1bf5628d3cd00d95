"""Why a run ended, and the line that proves it: messages of Slurm 24.11 as the lab printed them, and of other releases."""

from __future__ import annotations

import doctest
import re
from typing import Any

import pytest
from support.rows import each_row

from rackwright.report.logs import job_cause
from rackwright.report.logs.document import LogEntry
from rackwright.report.logs.job_cause import explain, is_relevant
from rackwright.report.logs.job_record import JobRun, JobStep

T = 1795797384.0


def entry(message: str, unit: str = "slurmctld", node: str = "login0", time: float = T) -> LogEntry:
    return LogEntry(time, node, unit, 6, None, message)


def run(state: str = "FAILED", **values: Any) -> JobRun:
    whole = {"job": "5", "raw": "5", "nodes": ("w0",), "submitted": T - 10, "started": T - 5, "ended": T, **values}
    return JobRun(state=state, **whole)


def slurmd(message: str, node: str = "w0") -> LogEntry:
    return entry(message, "slurmd", node)


def kernel(message: str, node: str = "w0") -> LogEntry:
    return entry(message, "kernel", node)


EXIT = entry("_job_complete: JobId=5 WEXITSTATUS 7")
OTHER = entry("_job_complete: JobId=55 WEXITSTATUS 1")
KILL = entry("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=5 uid 2001")
OOM = slurmd("[5.batch] error: Detected 1 oom_kill event in StepId=5.batch. Some of the step tasks have been OOM Killed.")
OOM_OLD = slurmd("error: Step 5.0 exceeded memory limit (734003200 > 52428800), being killed")
OOM_OLDEST = slurmd("[5.batch] error: Exceeded job memory limit at some point.")
OOM_KERNEL = kernel(
    "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/slurmstepd.scope/job_5/step_0/user/task_0,task=python3,pid=7"
)
OOM_OTHER = kernel("oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/slurmstepd.scope/job_77/step_0,task=python3,pid=9")
TIME = entry("Time limit exhausted for JobId=5")
TIME_STEP = slurmd("[5.batch] error: *** JOB 5 ON w0 CANCELLED AT 2026-11-27T16:36:24 DUE TO TIME LIMIT ***")
NODE = entry("Killing JobId=5 on failed node w0")
NODE_DOWN = entry("error: Nodes w0 not responding, setting DOWN")
PROLOG = slurmd("error: [job 5] prolog failed status=1:0")
PROLOG_OUTPUT = slurmd("error: prolog failed: rc:1 output:gpu.no_xid_errors: expected none")
PROLOG_OTHER = slurmd("error: [job 6] prolog failed status=1:0")
STDOUT = slurmd("[5.batch] error: Could not open stdout file /nonexistent/x.out: No such file or directory")
REQUEUE = entry("Requeuing JobId=5")
REQUEUE_NODE = entry("requeue job JobId=5 due to failure of node w0")
PREEMPTED = entry("preempted JobId=5 has been requeued")
SRUN = JobStep("0", "FAILED", 3, 0)
BIG = JobStep("0", "OUT_OF_MEMORY", 0, 125, "4194300K")
XID = kernel("NVRM: Xid (PCI:0000:1b:00): 79, pid=1234, GPU has fallen off the bus.")


def steps(code: int, signal: int = 0) -> tuple[JobStep, ...]:
    return (JobStep("batch", "FAILED", code, signal),)


@each_row(
    ("job", "entries", "text", "evidence"),
    [
        (run(exit_code=7, steps=steps(7)), [OTHER, EXIT], "its script ended with exit code 7", [EXIT]),
        (run(exit_code=7), [OTHER], "it ended with exit code 7", []),
        (run(signal=9, steps=steps(0, 9)), [], "its script ended with signal 9 (SIGKILL)", []),
        (run(exit_code=127, steps=steps(127)), [], "its script ended with exit code 127 (command not found)", []),
        (run(exit_code=139, steps=steps(139)), [], "exit code 139 (a command was ended by SIGSEGV)", []),
        (run(exit_code=1, steps=(*steps(1), SRUN)), [], "ended with exit code 1; step 0 ended with exit code 3", []),
        (run(signal=53), [STDOUT], "its output file could not be opened", [STDOUT]),
        (run(signal=53), [], "its script did not start (ExitCode 0:53)", []),
        (run("OUT_OF_MEMORY", signal=125), [OOM_OTHER, OOM_KERNEL, OOM], "it ran out of memory", [OOM]),
        (run("OUT_OF_MEMORY", signal=125), [OOM_KERNEL], "it ran out of memory", [OOM_KERNEL]),
        (run("OUT_OF_MEMORY", memory="4G", steps=(BIG,)), [], "it asked for 4G; a task used up to 4194300K", []),
        (run("OUT_OF_MEMORY"), [OOM_OTHER], "it ran out of memory", []),
        (run("NODE_FAIL"), [entry("error: Nodes w[1-3] not responding, setting DOWN")], "w0 failed", []),
        (run("FAILED", signal=9), [OOM_OLD], "it ran out of memory", [OOM_OLD]),
        (run("FAILED", signal=9), [OOM_OLDEST], "it ran out of memory", [OOM_OLDEST]),
        (run("FAILED", signal=9), [OOM_OTHER], "ended with signal 9 (SIGKILL)", []),
        (run("TIMEOUT", limit_s=60.0), [TIME_STEP, TIME], "it reached its time limit of 1 min", [TIME]),
        (run("TIMEOUT"), [TIME_STEP], "it reached its time limit", [TIME_STEP]),
        (run("NODE_FAIL"), [NODE_DOWN, NODE], "w0 failed", [NODE]),
        (run("NODE_FAIL"), [NODE_DOWN], "w0 failed", [NODE_DOWN]),
        (run("NODE_FAIL", nodes=("w0", "w1"), failed_node="w1"), [], "w1 failed", []),
        (run("NODE_FAIL", nodes=("w0", "w1")), [NODE_DOWN], "w0 failed", [NODE_DOWN]),
        (run("CANCELLED", cancelled_by="alice"), [KILL], "it was cancelled while it ran by alice", [KILL]),
        (run("CANCELLED", cancelled_by="root", started=None), [], "it was cancelled before it started by root", []),
        (run("CANCELLED"), [KILL], "while it ran; the accounting does not name the user", [KILL]),
        (run("CANCELLED", cancelled_by="alice"), [KILL, PROLOG_OTHER, PROLOG_OUTPUT], "cancelled while it ran by alice", [KILL]),
        (run("FAILED", exit_code=7), [EXIT, PROLOG_OTHER, PROLOG_OUTPUT], "exit code 7", [EXIT]),
        (run("FAILED", exit_code=1), [PROLOG_OUTPUT, PROLOG], "the prolog failed on w0", [PROLOG, PROLOG_OUTPUT]),
        (run("REQUEUED"), [PROLOG_OUTPUT, PROLOG, REQUEUE], "the prolog failed on w0", [PROLOG, PROLOG_OUTPUT]),
        (run("REQUEUED"), [REQUEUE], "it was requeued", [REQUEUE]),
        (run("REQUEUED"), [REQUEUE_NODE], "its node failed", [REQUEUE_NODE]),
        (run("PREEMPTED"), [PREEMPTED], "preempted it", [PREEMPTED]),
        (run("COMPLETED"), [EXIT], "it ended with exit code 0", []),
        (run("COMPLETED", steps=(SRUN,)), [], "exit code 0; step 0 ended with exit code 3", []),
        (run("RUNNING", ended=None), [], "it has not ended: RUNNING", []),
        (run("RUNNING", ended=None), [NODE_DOWN], "it has not ended: RUNNING, and w0 does not respond", [NODE_DOWN]),
        (run("PENDING", reason="JobHeldUser", started=None, ended=None), [], "its user holds it", []),
        (run("PENDING", reason="ReqNodeNotAvail,_UnavailableNodes:w1", started=None), [], "is down, drained or reserved", []),
        (run("PENDING", reason="SomethingNew", started=None), [], "it waits (SomethingNew)", []),
        (run("PENDING", reason="BeginTime", restarts=1, started=None), [PROLOG], "started 1 time before", [PROLOG]),
        (run("NEW_STATE", exit_code=2), [], "ended with exit code 2", []),
    ],
    ids=lambda value: f"{value.state}{value.exit_code}" if isinstance(value, JobRun) else None,
)  # fmt: skip
def test_cause_and_evidence(job: JobRun, entries: list[LogEntry], text: str, evidence: list[LogEntry]) -> None:
    found = explain(job, entries)
    assert text in found.text
    assert list(found.evidence) == evidence


@pytest.mark.parametrize(
    "message",
    [
        "amdgpu 0000:0c:00.0: amdgpu: {7}1 uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:0c:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
        "amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!",
        "amdgpu 0000:0c:00.0: amdgpu: ring comp_1.0.1 timeout, signaled seq=81, emitted seq=83",
    ],
)
def test_errors_of_amdgpu_are_named_beside_the_cause(message: str) -> None:
    harmless = kernel("amdgpu 0000:0c:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block")
    assert explain(run(exit_code=7), [EXIT, kernel(message), harmless]).also == (kernel(message),)


@pytest.mark.parametrize(
    "message",
    [
        XID.message,
        "NVRM: GPU3 Xid (PCI:0000:4d:00 GPU-I:02): 94, pid=9, name=train, Contained memory error",
        "NVRM: GPU 0000:4d:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
        "pcieport 0000:4c:01.0: AER: Uncorrected (Fatal) error received: 0000:4d:00.0",
        "pcieport 0000:4c:01.0: AER: Multiple Uncorrectable (Non-Fatal) error message received from 0000:4d:00.0",
        "mlx5_core 0000:9a:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
        "mlx5_core 0000:9a:00.0 rail3: Link down",
        "mlx5_core 0000:9a:00.0: Port module event: module 0, Cable unplugged",
        "mlx5_core 0000:9a:00.0: temp_warn:190: High temperature on sensors with bit set 0x1",
        "mlx5_core 0000:9a:00.0: wait_func_handle_exec_timeout:1180: cmd[0]: MANAGE_PAGES(0x108) no done completion",
        "ixgbe 0000:18:00.1 eno2: NIC Link is Down",
        "bond0: (slave eno2): link status definitely down, disabling slave",
        "EDAC MC1: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0",
        "mce: [Hardware Error]: CPU 14: Machine Check Exception: 5 Bank 7: be00000000800400",
        "nvme nvme2: I/O 512 (I/O Cmd) QID 9 timeout, aborting",
        "nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10",
        "critical medium error, dev nvme2n1, sector 812 op 0x0:(READ)",
        "NMI watchdog: Watchdog detected hard LOCKUP on cpu 33",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "CPU71: Package temperature above threshold, cpu clock throttled (total events = 9)",
    ],
)
def test_errors_of_hardware_are_named_beside_the_cause(message: str) -> None:
    assert explain(run(exit_code=7), [EXIT, kernel(message)]).also == (kernel(message),)


@pytest.mark.parametrize(
    "message",
    [
        "audit: type=1400",
        "mlx5_core 0000:9a:00.0 rail3: Link up",
        "ixgbe 0000:18:00.1 eno2: NIC Link is Up 10 Gbps, Flow Control: RX/TX",
        "pcieport 0000:4c:01.0: AER: Corrected error received: 0000:4d:00.0",
        "EDAC MC1: 1 CE memory scrubbing error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0",
        "nvme nvme2: 63/0/0 default/read/poll queues",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
    ],
)
def test_other_entries_of_the_kernel_are_not_named(message: str) -> None:
    assert explain(run(exit_code=7), [EXIT, kernel(message)]).also == ()


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("sched: Allocate JobId=11_3(14) NodeList=w0", True),
        ("Launching batch job 14 for UID 2001", True),
        ("[14.batch] error: x", True),
        ("launch task StepId=14.0 request from UID:2001", True),
        ("sched: Allocate JobId=11_4(11) NodeList=w0", False),
        ("sched: Allocate JobId=11_30(41) NodeList=w0", False),
        ("[114.batch] x", False),
        ("usec=14", False),
    ],
)
def test_task_of_array_is_named_by_both_numbers(message: str, names: bool) -> None:
    assert job_cause.mentions(run(job="11_3", raw="14"), message) is names


@pytest.mark.parametrize(
    ("one", "relevant"),
    [
        (entry("Requeuing JobId=5", time=T + 500), True),
        (entry("Requeuing JobId=6"), False),
        (slurmd("error: [job 6] prolog failed status=1:0"), False),
        (slurmd("slurmd started"), True),
        (slurmd("slurmd started", node="w1"), False),
        (entry("slurmd started", "slurmd", "w0", T + 60), False),
        (entry("error: Nodes w0 not responding"), True),
        (entry("error: Nodes w[0-3] not responding"), True),
        (entry("error: Nodes w[1-3] not responding"), False),
        (OOM_OTHER, False),
        (entry("update_node: node w1 state set to DOWN"), False),
        (XID, True),
    ],
    ids=lambda value: value.message if isinstance(value, LogEntry) else None,
)
def test_entries_of_other_jobs_and_nodes_are_left_out(one: LogEntry, relevant: bool) -> None:
    assert is_relevant(run(), one, before=15, after=15) is relevant


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(job_cause).failed == 0


def test_names_of_jobs_are_no_patterns() -> None:
    assert re.compile(job_cause.ids(run(job="5+1", raw="6")))
