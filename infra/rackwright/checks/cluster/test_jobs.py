"""Jobs run on the planned nodes, as the right user, with the requested resources. On idle nodes only; busy nodes are not touched."""

from __future__ import annotations

import signal
from typing import Final

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.pytest_plugin import CheckPlugin
from rackwright.checks.cluster.harness.tool_output import UnreadableValue, answer_of
from rackwright.checks.cluster.probes.slurm import parse_gres
from rackwright.checks.cluster.probes.smoke import MEMORY, SmokeResults, Task, decisive, runner
from rackwright.checks.cluster.probes.ssh_access import ADMITTED, REFUSED, SSH_ACCESS
from rackwright.errors import UndeterminedError


def test_run_on_every_node(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """One job over all nodes starts, answers and ends."""
    job, task = smoke.job("plain", node.name), smoke.task("plain", node.name)
    why = job.why
    expect(f"ran on {task.host}" if task else why if isinstance(why, UnreadableValue) else f"did not run: {why}", f"ran on {node.name}")


def test_run_as_their_user(node: Record, check_plugin: CheckPlugin, cluster: Record, smoke: SmokeResults, expect: Expect) -> None:
    """The job must run as the user who submits it, with the same UID."""
    name = runner(check_plugin.context(node.name))
    expect(_task(smoke, "plain", node).uid, next(user.uid for user in cluster.users if user.name == name))


def test_get_requested_gpus(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """A job must get exactly the requested number of GPUs, and see the same number."""
    job, task = smoke.job("first", node.name), _task(smoke, "first", node)
    visible = len(task.visible or ())
    expect(f"{len(set(task.gpus))} given, {visible} visible", f"{job.requested_gpus} given, {job.requested_gpus} visible")


def test_gpus_exclusive(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """Two jobs at the same time on the same node must have different GPUs."""
    first, second = _task(smoke, "first", node), _task(smoke, "second", node)
    if first.ended < second.began or second.ended < first.began:
        raise UndeterminedError("the two jobs did not run at the same time")
    both = sorted(set(first.gpus) & set(second.gpus))
    expect(f"{', '.join(first.gpus)} and {', '.join(second.gpus)}", "none in common", holds=not both and bool(first.gpus and second.gpus))


def test_no_gpu_without_request(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """A job that requests no GPU must not see any."""
    task = _task(smoke, "plain", node)
    hidden = task.visible in (None, (), ("NoDevFiles",))
    expect(", ".join(task.visible or ()) or "none", "none", holds=hidden and not task.gpus)


def test_memory_is_confined(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """A job that exceeds its requested memory must be killed, not the jobs beside it."""
    found = _task(smoke, "plain", node).memory_mib
    expect("no limit" if found is None else f"{found} MiB", f"{MEMORY} MiB")


def test_cores_are_confined(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """A job must run only on the cores that it was allocated."""
    task = _task(smoke, "plain", node)
    expect(f"{task.cores} of the node's CPUs", f"{task.cpus} of the node's CPUs", holds=0 < task.cores == task.cpus)


def test_gpus_are_confined(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """The kernel must refuse a job with EPERM every GPU that is not its own. A simulated GPU has no driver: opening it ends with ENXIO."""
    plain, first = _task(smoke, "plain", node), _task(smoke, "first", node)
    if not plain.devices:
        raise UndeterminedError("the node has no device file of a GPU that a job could try to open")
    own = {f"/dev/nvidia{index}" for index in first.gpus}
    simulated = bool(node.gpus and node.gpus.simulated)
    expect(_opening(plain, set(), simulated) | _opening(first, own, simulated), _planned(plain, set()) | _planned(first, own))


def test_memory_overuse_is_killed(node: Record, smoke: SmokeResults, expect: Expect) -> None:
    """The kernel must kill a process that fills more memory than its job requested, and Slurm must report OUT_OF_MEMORY."""
    job = smoke.exceeding_job(node.name)
    task, state = job.tasks.get(node.name), job.slurm_state()
    if task is None:
        why = answer_of("the job", decisive(job.output) or "no output")
        raise UndeterminedError(f"no report from the job that exceeds its memory: {why.why if isinstance(why, UnreadableValue) else why}")
    if task.signal != signal.SIGKILL or not (task.kills is None or task.kills):
        ended = "refused the memory, not killed" if task.status == _REFUSED else f"ended by signal {task.signal}"
        expect("used twice the memory that it requested" if not task.signal and not task.status else ended, "killed by the kernel")
        return
    if not state:
        raise UndeterminedError("the process was killed, but Slurm did not report how the job ended")
    expect(f"killed by the kernel, Slurm: {state}", "killed by the kernel, Slurm: OUT_OF_MEMORY")


def test_ssh_requires_job(node: Record, smoke: SmokeResults, ask: Ask, expect: Expect) -> None:
    """sshd must refuse an ordinary user without a job on the node, and put the session of one with a job into the job's control group."""
    smoke.job("plain", node.name)  # raises for a busy node, and for one that takes no job
    access = ask(SSH_ACCESS)
    expect({"without a job": access.without_job, "with a job": access.with_job}, {"without a job": REFUSED, "with a job": ADMITTED})


_REFUSED: Final = 3
"""Exit status of the process that could not get the memory (rackwright.remote.programs.smoke_jobs)."""


def _opening(task: Task, own: set[str], simulated: bool) -> dict[str, str]:
    """Return by device and job what opening it gave. A simulated GPU opens, or has no driver (ENXIO)."""
    job = f"job with {len(own)} GPUs"
    found = {path: "opens" if simulated and path in own and error == "ENXIO" else error for path, error in task.devices.items()}
    return {f"{path} in a {job}": found.get(path, "no device file") for path in sorted({*found, *own})}


def _planned(task: Task, own: set[str]) -> dict[str, str]:
    job = f"job with {len(own)} GPUs"
    return {f"{path} in a {job}": "opens" if path in own else "EPERM" for path in sorted({*task.devices, *own})}


def test_are_recorded_in_accounting(cluster: Record, smoke: SmokeResults, expect: Expect) -> None:
    """State, user and GPUs of every job of the run must be in the accounting database; in an exclusive partition, all GPUs of its nodes."""
    whole = any(one.default and getattr(one, "exclusive", False) for one in cluster.scheduler.partitions)
    of_node = {one.name: one.gpus for one in cluster.scheduler.nodes}
    smoke.require_jobs_sent()
    if not smoke.accounts or smoke.accounts["rc"]:
        raise UndeterminedError(f"accounting was not queried: {(smoke.accounts or {}).get('said') or 'no job ran'}")
    found: dict[str, str | UnreadableValue] = {}
    planned: dict[str, str] = {}
    for job in (job for job in smoke.jobs if job.tasks and not job.rc):
        expected = sum(of_node.get(name, 0) for name in job.nodes) if whole else job.requested_gpus * len(job.nodes)
        planned[job.name] = f"COMPLETED, {len(job.nodes)} nodes, {expected} GPUs"
        record = smoke.record(job)
        if isinstance(record, UnreadableValue):
            found[job.name] = record
            continue
        gpus = sum(parse_gres(",".join(item for item in record.get("AllocTRES", "").split(",") if item.startswith("gres/"))).values())
        found[job.name] = f"{record.get('State', 'missing')}, {record.get('NNodes', 0)} nodes, {gpus} GPUs"
    if not planned:
        raise UndeterminedError("no job completed that accounting could record")
    expect(found, planned)


def test_batch_output_is_shared(node: Record, check_plugin: CheckPlugin, smoke: SmokeResults, expect: Expect) -> None:
    """A script that was submitted here ran on another node, and its output must be readable here."""
    smoke.require_jobs_sent()
    if smoke.batch is None:
        raise UndeterminedError("no batch job was submitted")
    output = smoke.batch_output
    words = [] if isinstance(output, UnreadableValue) else output.split()
    if len(words) == 4 and words[0] == "BATCH":
        output = f"ran on {words[2]} as {words[3]}"
    first = next(job for job in smoke.jobs if job.name == "plain").nodes[0]
    expect(output, f"ran on {first} as {runner(check_plugin.context(node.name)) or 'root'}")


def _task(smoke: SmokeResults, name: str, node: Record) -> Task:
    """Return the job's report from the node; raise UndeterminedError if the job did not run there."""
    task = smoke.task(name, node.name)
    if task is None:
        raise UndeterminedError(f"no job ran here: {smoke.job(name, node.name).output or 'no output'}")
    return task
