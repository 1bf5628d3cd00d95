"""Jobs run where and as whom they should, and get what they asked for. On idle nodes only: a node at work is left in peace."""

from __future__ import annotations

from cluster.probes.smoke import MEMORY, runner
from rackwright.errors import CouldNotTell


def test_run_on_every_node(node, smoke, expect):
    """One job over all nodes: started, answered, ended."""
    job, task = smoke.job("plain", node.name), smoke.task("plain", node.name)
    expect(f"ran on {task.host}" if task else f"did not: {job.said or job.rc}", f"ran on {node.name}")


def test_run_as_their_user(node, judge, cluster, smoke, expect):
    """The user who submits is the user who runs, by the same number."""
    name = runner(judge.place(node.name))
    expect(_task(smoke, "plain", node).uid, next(user.uid for user in cluster.users if user.name == name))


def test_get_the_gpus_they_ask_for(node, smoke, expect):
    """Exactly as many, and told to use as many."""
    job, task = smoke.job("first", node.name), _task(smoke, "first", node)
    visible = len(task.visible or ())
    expect(f"{len(set(task.gpus))} given, {visible} visible", f"{job.asked} given, {job.asked} visible")


def test_share_no_gpu(node, smoke, expect):
    """Two jobs at the same time on the same node have different GPUs."""
    first, second = _task(smoke, "first", node), _task(smoke, "second", node)
    if first.ended < second.began or second.ended < first.began:
        raise CouldNotTell("the two jobs did not run at the same time")
    both = sorted(set(first.gpus) & set(second.gpus))
    expect(f"{', '.join(first.gpus)} and {', '.join(second.gpus)}", "none in common", holds=not both and bool(first.gpus and second.gpus))


def test_get_no_gpu_unasked(node, smoke, expect):
    """A job that asks for none must not find any."""
    task = _task(smoke, "plain", node)
    hidden = task.visible in (None, (), ("NoDevFiles",))
    expect(", ".join(task.visible or ()) or "none", "none", holds=hidden and not task.gpus)


def test_memory_is_confined(node, smoke, expect):
    """A job that takes more than it asked for is ended, and not the jobs beside it."""
    found = _task(smoke, "plain", node).memory_mib
    expect("no limit" if found is None else f"{found} MiB", f"{MEMORY} MiB")


def test_cores_are_confined(node, smoke, expect):
    """A job runs on the cores that it was given."""
    task = _task(smoke, "plain", node)
    expect(f"{task.cores} of the node's CPUs", f"{task.cpus} of the node's CPUs", holds=0 < task.cores == task.cpus)


def test_gpus_are_confined(node, smoke, expect):
    """A job that asked for no GPU can open none, and one that asked for some can open as many."""
    plain, first = _task(smoke, "plain", node), smoke.job("first", node.name)
    opened = _task(smoke, "first", node).opened
    expect(f"{len(plain.opened)} without, {len(opened)} with GPUs", f"0 without, {first.asked} with GPUs")


def test_are_accounted_for(smoke, expect):
    """Who ran what, with what: state, user and GPUs of every job of the run are in the database."""
    smoke.must_have_sent()
    if not smoke.accounts or smoke.accounts["rc"]:
        raise CouldNotTell(f"accounting was not asked: {(smoke.accounts or {}).get('said') or 'no job ran'}")
    recorded = {job["JobID"]: job for job in smoke.accounts["jobs"]}
    found, planned = {}, {}
    for job in (job for job in smoke.jobs if job.tasks and not job.rc):
        record = recorded.get(job.tasks[0].job, {})
        tres = dict(item.split("=", 1) for item in record.get("AllocTRES", "").split(",") if "=" in item)
        found[job.name] = f"{record.get('State', 'missing')}, {record.get('NNodes', 0)} nodes, {tres.get('gres/gpu', 0)} GPUs"
        planned[job.name] = f"COMPLETED, {len(job.nodes)} nodes, {job.asked * len(job.nodes)} GPUs"
    if not planned:
        raise CouldNotTell("no job ended that could have been recorded")
    expect(found, planned)


def test_batch_output_is_shared(node, judge, smoke, expect):
    """A script that was submitted here ran elsewhere, and what it printed is here."""
    smoke.must_have_sent()
    if smoke.batch is None:
        raise CouldNotTell("no batch job was sent")
    words = smoke.batch["output"].split()
    said = f"ran on {words[2]} as {words[3]}" if len(words) == 4 and words[0] == "BATCH" else smoke.batch["said"] or "no output"
    first = next(job for job in smoke.jobs if job.name == "plain").nodes[0]
    expect(said, f"ran on {first} as {runner(judge.place(node.name)) or 'root'}")


def _task(smoke, name, node):
    """What the job said from the node; CouldNotTell where it never got there."""
    task = smoke.task(name, node.name)
    if task is None:
        raise CouldNotTell(f"no job ran here: {smoke.job(name, node.name).said or 'it said nothing'}")
    return task
