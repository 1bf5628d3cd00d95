"""Why a run of a job ended as it did: one sentence, and the log lines that prove it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from signal import Signals
from typing import Final

from rackwright.report.logs.document import LogEntry
from rackwright.report.logs.job_record import JobRun, JobStep

_OOM_SIGNAL: Final = 125
"""Signal of ExitCode for a job that ran out of memory: SIG_OOM 253 without its high bit (Slurm, slurm.h)."""
_SETUP_SIGNAL: Final = 53
"""Signal of ExitCode for a batch script that slurmstepd could not start, as Slurm 24.11 records a missing output folder."""
_SHELL: Final = 128
"""A shell's exit status for a command that a signal ended is 128 and the signal (sh(1p), 2.8.2)."""
_PROVES: Final[dict[str, tuple[str, ...]]] = {
    "memory": (
        r"oom[_-]kill event",
        r"(?i)exceeded (?:job|step)?\s*memory limit",
        r"(?i)out of memory: kill|memory cgroup out of memory|oom-kill:",
    ),
    "time": (r"(?i)time limit exhausted", r"DUE TO TIME LIMIT"),
    "node": (
        r"not responding, setting DOWN",
        r"on failed node",
        r"due to failure of node",
        r"DUE TO NODE FAILURE",
        r"unexpectedly rebooted",
    ),
    "silent": (r"not responding",),
    "prolog": (r"(?i)prolog\S* (?:failed|exited with|error|hung|timed? ?out|launch failure)", r"(?i)prolog.{0,80}(?:fail|error)"),
    "requeue": (r"Requeuing JobId=", r"(?i)requeue"),
    "cancel": (r"REQUEST_KILL_JOB", r"(?i)signal_job|kill_job", r"CANCELLED AT"),
    "preempt": (r"(?i)preempt",),
    "deadline": (r"(?i)deadline",),
    "output": (r"(?i)could not open std(?:out|err|in) file", r"(?i)unable to (?:open|create|write) .*(?:script|spool|out)"),
    "exit": (r"WEXITSTATUS \d+", r"WTERMSIG \d+", r"(?i)exited? with exit code|task \d+ .*exited"),
}
"""Lines that prove a kind of end, the plainest first: messages of slurmctld, slurmd, slurmstepd and the kernel."""
HARDWARE: Final = (
    r"NVRM:.*\bXid|SXid|RmInitAdapter failed|Machine check|mce: |Hardware Error|EDAC .*UE|out of memory|Out of memory|oom-kill"
    r"|fallen off the bus|AER: .*[Uu]ncorrect|PCIe Bus Error: severity=Uncorrect"
    r"|I/O error|critical (?:medium|target) error|nvme\d+: (?:controller is down|I/O .*timeout|Device not ready|Removing after)"
    r"|EXT4-fs error|XFS .*(?:error|shutdown)|nfs: server .* not responding|LustreError|[Ll]ink (?:is |status )?(?:definitely )?[Dd]own\b"
    r"|(?:soft|hard) (?:lockup|LOCKUP)|rcu.* detected .*stall|hung_task|blocked for more than|above threshold, cpu clock"
    r"|mlx5_core .*(?:err|fatal|health|timeout|unplugged|High temperature)"
    r"|amdgpu.*(?:[1-9]\d* (?:new )?(?:uncorrectable|deferred) hardware errors|uncorrectable hardware error\()"
    r"|amdgpu.*(?:GPU reset|ring \S+ timeout|poison)"
)
"""Lines of the kernel that matter to each job of a node: GPU, CPU, memory, disk, file system, network."""
_WAITS: Final = {
    "Resources": "no nodes are free that have what it asks for",
    "Priority": "jobs of a higher priority are before it",
    "Dependency": "a job that it depends on has not ended",
    "DependencyNeverSatisfied": "a job that it depends on ended in a way that it excludes, so it never starts",
    "JobHeldUser": "its user holds it; `scontrol release` releases it",
    "JobHeldAdmin": "an administrator holds it; `scontrol release` releases it",
    "BeginTime": "its begin time has not come",
    "Nodes_required_for_job_are_DOWN": "nodes that it asks for are down, drained or reserved",
    "ReqNodeNotAvail": "a node that it asks for is down, drained or reserved",
    "PartitionTimeLimit": "it asks for more time than its partition permits",
    "PartitionNodeLimit": "it asks for more nodes than its partition permits, or for nodes that are down",
    "PartitionDown": "its partition is down",
    "BadConstraints": "no node has what it asks for",
    "Licenses": "licences that it asks for are in use",
    "Reservation": "its reservation has not begun",
    "launch_failed_requeued_held": "it could not be launched and is held; `scontrol release` releases it",
    "AssociationJobLimit": "its account has reached its limit of jobs",
    "QOSMaxJobsPerUserLimit": "its user has reached the limit of jobs of the QOS",
}
"""Reasons of pending jobs (squeue(1), JOB REASON CODES)."""


@dataclass(frozen=True, slots=True)
class JobCause:
    """Why a run ended: a sentence, the entries that prove it, and other entries that may matter."""

    text: str
    evidence: tuple[LogEntry, ...] = ()
    also: tuple[LogEntry, ...] = ()


def explain(run: JobRun, entries: Sequence[LogEntry]) -> JobCause:
    """Return why a run ended, or what it waits for. The state is Slurm's; entries prove it and name what Slurm does not know."""
    own = [entry for entry in entries if mentions(run, entry.message)]
    evidence, text = _end(run, own, entries)
    also = tuple(entry for entry in entries if entry.unit == "kernel" and re.search(HARDWARE, entry.message) and entry not in evidence)
    return JobCause(text, tuple(evidence), also[:_MOST])


_NEAR: Final = 5.0
"""Seconds between the two lines of slurmd about a prolog; 0.001 measured in the lab."""
_MOST: Final = 5
"""Lines that are shown beside the evidence; the entries have all of them."""


def ids(run: JobRun) -> str:
    """Return a regular expression of the names under which daemons write of a run."""
    names = "|".join(re.escape(name) for name in dict.fromkeys((run.raw, run.job)))
    return job_pattern(names)


def job_pattern(names: str) -> str:
    """Return a regular expression that finds one of the names where a daemon means a job or a step of it.

    >>> [bool(re.search(job_pattern("5"), text)) for text in ("JobId=5 done", "[5.batch] x", "/job_5/step_0", "StepId=5.0", "STEP 5.0 ON")]
    [True, True, True, True, True]
    >>> [bool(re.search(job_pattern("5"), text)) for text in ("JobId=51 done", "JobId=5_1(8)", "[55.batch]", "exit status 5", "uid=5")]
    [False, False, False, False, False]
    """
    before = r"(?:\b[Jj][Oo][Bb][ _]?(?:[Ii][Dd])?s?(?:[ =:#]+|_)|\bS[Tt][Ee][Pp](?:[Ii]d)?[ =]|\bstep |\[|\()"
    return rf"{before}(?:{names})(?!\d|_\d|\+\d)"


def mentions(run: JobRun, message: str) -> bool:
    """Return whether a message is of the run."""
    return re.search(ids(run), message) is not None


_ANY_JOB: Final = re.compile(r"\b(?:[Jj]ob ?(?:[Ii]d)?|[Ss]tep(?:Id)?)[ =](\d+)|\[(\d+)\.|\bjob_(\d+)\b")


def is_relevant(run: JobRun, entry: LogEntry, *, before: float, after: float) -> bool:
    """Return whether an entry is of a run, or of its nodes within its time and of no other job.

    before, after: seconds before its start and after its end.
    """
    if mentions(run, entry.message):
        return True
    if run.is_waiting or run.started is None or _ANY_JOB.search(entry.message):
        return False
    if not run.started - before <= entry.time <= (run.ended or float("inf")) + after:
        return False
    if entry.unit in ("slurmctld", "slurmdbd"):
        return any(names_node(entry.message, name) for name in run.nodes)
    return entry.node in run.nodes


def names_node(text: str, node: str) -> bool:
    """Return whether a text names a node, by itself or in a list of Slurm with one range.

    >>> [names_node("Nodes w[0-2,7] not responding", node) for node in ("w1", "w7", "w3", "w")], names_node("node w10 down", "w1")
    ([True, True, False, False], False)
    >>> names_node("Nodes rack1-n[01-16] not responding", "rack1-n08"), names_node("[w0.batch]", "w0")
    (True, True)
    """
    if re.search(rf"(?<![\w-]){re.escape(node)}(?![\w\[-])", text):
        return True
    for start, ranges, end in _LIST.findall(text):
        number = node[len(start) : len(node) - len(end)] if node.startswith(start) and node.endswith(end) else ""
        for low, _, high in (part.partition("-") for part in ranges.split(",") if part):
            if number.isdecimal() and len(number) >= len(low) and int(low) <= int(number) <= int(high or low):
                return True
    return False


_LIST: Final = re.compile(r"([\w.-]+)\[(\d[\d,-]*)\]([\w.-]*)")


def find(kind: str, entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Return the first entry that proves a kind of end in the plainest words; an empty list without one."""
    rows = list(entries)
    for pattern in _PROVES[kind]:
        for entry in rows:
            if re.search(pattern, entry.message):
                return [entry]
    return []


def _end(run: JobRun, own: Sequence[LogEntry], entries: Sequence[LogEntry]) -> tuple[list[LogEntry], str]:
    """Return the evidence and the sentence of a run."""
    if run.is_waiting:
        return _waiting(run, own, entries)
    if not run.is_over:
        silent = find("silent", _lost(run, entries))
        more = f", and {_lost_nodes(run, silent)} does not respond" if silent else ""
        return silent, f"it has not ended: {run.state}{more}"
    if run.state == "COMPLETED":
        step = next((one for one in run.steps if one.exit_code or one.signal), None)
        more = f"; step {step.name} ended with {exit_text(step.exit_code, step.signal)}" if step else ""
        return [], f"it ended with exit code 0{more}"
    if run.state == "OUT_OF_MEMORY" or (run.state == "FAILED" and find("memory", own)):
        return find("memory", own) or find("memory", (entry for entry in entries if not _ANY_JOB.search(entry.message))), _memory(run)
    if run.state == "TIMEOUT":
        limit = f" of {duration(run.limit_s)}" if run.limit_s else ""
        return find("time", own), f"it reached its time limit{limit}"
    if run.state in ("NODE_FAIL", "BOOT_FAIL"):
        node = _lost(run, entries)
        return find("node", own) or find("node", node), _node(run, node)
    if run.state != "CANCELLED" and (prolog := _prolog(run, own, entries)):
        return prolog, f"the prolog failed on {prolog[0].node if prolog[0].node in run.nodes else 'a node'}"
    if run.state == "CANCELLED":
        before = "before it started" if run.started is None else "while it ran"
        by = f" by {run.cancelled_by}" if run.cancelled_by else "; the accounting does not name the user who did it"
        return find("cancel", own), f"it was cancelled {before}{by}"
    if run.state in ("PREEMPTED", "DEADLINE"):
        what = "a job of a higher priority preempted it" if run.state == "PREEMPTED" else "it could not end before its deadline"
        return find("preempt" if run.state == "PREEMPTED" else "deadline", own), what
    if run.state == "REQUEUED":
        node = find("node", own)
        what = "its node failed" if node else "it was requeued"
        return node or find("requeue", own), f"{what}: this run was ended, and the job was queued again"
    return _failed(run, own)


def _waiting(run: JobRun, own: Sequence[LogEntry], entries: Sequence[LogEntry]) -> tuple[list[LogEntry], str]:
    reason = run.reason or "no reason is recorded"
    key = reason.strip("()").split(",")[0].replace(" ", "_")
    meaning = f": {_WAITS[key]}" if key in _WAITS else ""
    again = f"; it was started {run.restarts} time{'s' if run.restarts > 1 else ''} before" if run.restarts else ""
    return _prolog(run, own, entries), f"it waits ({reason}){meaning}{again}"


def _prolog(run: JobRun, own: Sequence[LogEntry], entries: Sequence[LogEntry]) -> list[LogEntry]:
    """Return slurmd's line that the prolog of a run failed, and before it the one with the prolog's output, which names no job."""
    failed = find("prolog", own)
    if not failed:
        return []
    near = [one for one in entries if one.node == failed[0].node and abs(one.time - failed[0].time) < _NEAR and "output:" in one.message]
    return [*failed, *find("prolog", near)]


def _memory(run: JobRun) -> str:
    used = max((step.max_memory for step in run.steps if step.max_memory), key=_bytes, default="")
    parts = [f"it asked for {run.memory}" if run.memory else "", f"a task used up to {used}" if used else ""]
    told = "; ".join(part for part in parts if part)
    return "it ran out of memory" + (f" ({told})" if told else "")


def _bytes(text: str) -> float:
    found = re.fullmatch(r"([\d.]+)([KMGT]?)", text)
    return float(found[1]) * 1024 ** " KMGT".index(found[2] or " ") if found else 0.0


def _lost(run: JobRun, entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Return slurmctld's lines about the nodes of a run."""
    names = [name for name in (*run.nodes, run.failed_node) if name]
    return [entry for entry in entries if entry.unit == "slurmctld" and any(names_node(entry.message, name) for name in names)]


def _lost_nodes(run: JobRun, lines: Sequence[LogEntry]) -> str:
    named = [name for name in run.nodes if any(names_node(line.message, name) for line in lines)]
    return run.failed_node or ", ".join(named) or (run.nodes[0] if len(run.nodes) == 1 else "one of its nodes")


def _node(run: JobRun, lines: Sequence[LogEntry]) -> str:
    node = _lost_nodes(run, find("node", lines))
    return f"{node} failed" if run.state == "NODE_FAIL" else f"{node} did not start"


def _failed(run: JobRun, own: Sequence[LogEntry]) -> tuple[list[LogEntry], str]:
    """Return the evidence and the sentence of a run that a command's exit code ended."""
    code, signal = run.exit_code, run.signal
    batch = next((step for step in run.steps if step.name == "batch"), None)
    if output := find("output", own):
        return output, "its output file could not be opened"
    if signal == _SETUP_SIGNAL and not code:
        return find("exit", own), f"its script did not start (ExitCode 0:{signal}); usually its output file or its folder cannot be opened"
    who = "its script" if batch and _same(batch, run) else "it"
    steps = [step for step in run.steps if step.name not in ("batch", "extern") and (step.exit_code or step.signal)]
    more = (
        f"; step {steps[0].name} ended with {exit_text(steps[0].exit_code, steps[0].signal)}" if steps and not _same(steps[0], run) else ""
    )
    reason = f" ({run.reason})" if run.reason not in ("", "NonZeroExitCode", "RaisedSignal:9(Killed)") and not code and not signal else ""
    return find("exit", own), f"{who} ended with {exit_text(code, signal)}{more}{reason}"


def _same(step: JobStep, run: JobRun) -> bool:
    return (step.exit_code, step.signal) == (run.exit_code, run.signal)


def exit_text(code: int, signal: int) -> str:
    """Return an exit code and signal of Slurm in words.

    >>> exit_text(7, 0), exit_text(0, 9), exit_text(137, 0), exit_text(127, 0)
    ('exit code 7', 'signal 9 (SIGKILL)', 'exit code 137 (a command was ended by SIGKILL)', 'exit code 127 (command not found)')
    >>> exit_text(0, 125), exit_text(255, 0)
    ('signal 125 (Slurm: out of memory)', 'exit code 255')
    """
    if signal:
        return f"signal {signal} ({_signal_name(signal)})"
    known = {126: "command is not executable", 127: "command not found"}.get(code)
    if known is None and _SHELL < code < _SHELL + 32:
        known = f"a command was ended by {_signal_name(code - _SHELL)}"
    return f"exit code {code}" + (f" ({known})" if known else "")


def _signal_name(number: int) -> str:
    if number == _OOM_SIGNAL:
        return "Slurm: out of memory"
    try:
        return Signals(number).name
    except ValueError:
        return "unknown"


def duration(seconds: float) -> str:
    """Return a duration with its two largest units.

    >>> duration(5), duration(65), duration(3 * 3600 + 60), duration(90000)
    ('5 s', '1 min 5 s', '3 h 1 min', '1 d 1 h')
    """
    whole = round(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((index for index, (number, _) in enumerate(parts) if number), 3)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number) or "0 s"
