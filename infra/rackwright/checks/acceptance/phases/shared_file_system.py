"""The shared file system is mounted inside jobs, as large as planned, the same on all nodes, and consistent when all write at once."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Final

from rackwright.catalog.checks import acceptance
from rackwright.checks.acceptance.phase import AcceptanceProbe, Finding, Job, Output, Outputs, Phase, PhaseScope, compared, guarded, program
from rackwright.checks.acceptance.smoke import TASK, answer, arguments, failure_of, probe_job, record_on
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.smoke import write_requests
from rackwright.checks.cluster.probes.storage import MOUNTS, is_there
from rackwright.errors import UndeterminedError

_LOOK: Final = program("visible_files.py")
_NAME: Final = 24
"""Characters of a host's name in the lines of the common file."""
_LAST: Final = 100
"""Round in which all nodes read: after every part has written."""


@dataclass(frozen=True)
class VisibleFiles:
    """What a node sees of the files that jobs wrote."""

    files: Mapping[str, str]
    """First line of the file that each node wrote, by name."""
    lines: Mapping[str, int]
    """Whole lines of each host in the files that all nodes wrote together."""
    error: str
    """Why nothing can be read; empty otherwise."""


def parse_visible_files(text: str) -> VisibleFiles:
    """Return the output of programs/visible_files.py."""
    data = json.loads(text.strip().splitlines()[-1])
    return VisibleFiles({}, {}, data["error"]) if "error" in data else VisibleFiles(data["files"], data["lines"], "")


def parse_size(text: str) -> int:
    """Return the size in MiB from blocks and their size.

    >>> parse_size("1310720 4096")
    5120
    """
    blocks, size = text.split()
    return int(blocks) * int(size) // 2**20


SIZE: Final = AcceptanceProbe("acceptance-size", on="storage_client", command="stat -f -c '%b %S' \"$MOUNT\"", parse=parse_size)
HERE: Final = AcceptanceProbe(
    "acceptance-seen",
    on="@submit",
    command=f'python3 -I -S -c {shlex.quote(_LOOK.text)} "$FOLDER"/part-*',
    parse=parse_visible_files,
    timeout=30,
)
"""The same reading on the node where results are read."""


def jobs(scope: PhaseScope) -> Sequence[Job]:
    """Return the jobs that query the mount, then write at once, then read everywhere."""
    if scope.mount is None:
        return ()
    found = [probe_job(f"mounts-{part.name}", part.nodes, MOUNTS, shared=True) for part in scope.parts]
    found += [
        probe_job(f"size-{part.name}", part.nodes, SIZE, environment={"MOUNT": scope.mount}, round=1, shared=True) for part in scope.parts
    ]
    if scope.folder is None:
        return found
    how, folders = write_requests(scope.storage), tuple(_folder(scope, part.name) for part in scope.parts)
    for number, (part, folder) in enumerate(zip(scope.parts, folders, strict=True)):
        words = arguments(folder=folder, records=how["records"], locks=how["locks"])
        found.append(Job(f"write-{part.name}", part.nodes, TASK, words, round=2 + number, shared=True))
        found.append(Job(f"look-{part.name}", part.nodes, _LOOK, folders, round=_LAST, shared=True))
    return found


def files(scope: PhaseScope) -> Mapping[str, str]:
    """Return files that must exist before: if two nodes create the same file at once, both may get the error that it exists (FUSE)."""
    return {f"part-{part.name}/together": "" for part in scope.parts}


def evaluate(scope: PhaseScope, outputs: Outputs) -> Iterator[Finding]:
    """Yield the view of each node, and that of the node where results are read."""
    if scope.mount is None:
        raise UndeterminedError(
            "the plan has no file system that its users may write to and that all compute nodes and the submitting one mount"
        )
    yield compared("directory_created", scope.submitter, scope.error or "made", "made")
    for part in scope.parts:
        for node in part.nodes:
            yield guarded("is_mounted", node, partial(_mounted, scope, outputs[f"mounts-{part.name}"], node))
            yield guarded("size_matches_plan", node, partial(_sized, scope, outputs[f"size-{part.name}"], node))
    if scope.folder is None:
        raise UndeterminedError(f"nothing was written, because the run's folder could not be created: {scope.error}")
    writers = _writers(scope, outputs)
    for part in scope.parts:
        for node in part.nodes:
            yield guarded("writable", node, partial(_wrote, outputs[f"write-{part.name}"], node))
            read = partial(_view_of, outputs[f"look-{part.name}"], node)
            yield guarded("cross_node_visibility", node, partial(_shown, "cross_node_visibility", node, read, writers))
            yield guarded("no_lost_writes", node, partial(_kept, scope, node, read, writers))
    here = partial(scope.answer, HERE)
    yield guarded("visible_on_submit_hosts", scope.submitter, partial(_shown, "visible_on_submit_hosts", scope.submitter, here, writers))


def _mounted(scope: PhaseScope, output: Output, node: str) -> Finding:
    one = {**scope.storage, "mount": scope.mount}
    if scope.in_pods and "FailedMount" in output.missing_output.get(node, ""):  # A pod without its volume never starts.
        return compared("is_mounted", node, output.missing_output[node], f"{one['kind']} at {scope.mount}")
    mounts = answer(output, node, MOUNTS)
    addresses = {host["name"]: host["address"] for host in scope.declared.cluster.get("hosts", ())}
    right = is_there(mounts, SimpleNamespace(**one), node, addresses, in_pod=scope.in_pods)
    if not right and isinstance(unread := mounts.at(scope.mount), UnreadableValue):
        raise UndeterminedError(unread.why)
    found = one["kind"] if right else mounts[scope.mount].type if scope.mount in mounts else "nothing"
    return compared("is_mounted", node, f"{found} at {scope.mount}", f"{one['kind']} at {scope.mount}", holds=right)


def _sized(scope: PhaseScope, output: Output, node: str) -> Finding:
    size, planned = answer(output, node, SIZE), scope.storage["size_mib"]
    share = acceptance()["shared_file_system.size_matches_plan"].limit or 0.0
    near = abs(size - planned) <= share * planned
    return compared("size_matches_plan", node, f"{size} MiB", f"{planned} MiB within {share:.0%}", holds=near)


def _wrote(output: Output, node: str) -> Finding:
    failed = failure_of(output.only(node))
    return compared("writable", node, failed or f"written by {record_on(output, node).host}", "written", holds=not failed)


def _shown(check: str, node: str, read: Callable[[], VisibleFiles], writers: Sequence[str]) -> Finding:
    seen = read()
    planned = {f"from-{host}": f"written by a job on {host}" for host in writers}
    return compared(check, node, seen.error or seen.files, planned)


def _kept(scope: PhaseScope, node: str, read: Callable[[], VisibleFiles], writers: Sequence[str]) -> Finding:
    seen, records = read(), write_requests(scope.storage)["records"]
    return compared("no_lost_writes", node, seen.error or seen.lines, {host[:_NAME]: records for host in writers})


def _view_of(output: Output, node: str) -> VisibleFiles:
    """Return what a node saw; raises UndeterminedError if its job did not read."""
    printed = output.only(node).out
    try:
        return parse_visible_files(printed)
    except (ValueError, KeyError, IndexError):
        raise UndeterminedError(f"job {output.job.name} printed no record of {node}: {output.error or 'it printed no JSON'}") from None


def _writers(scope: PhaseScope, outputs: Outputs) -> list[str]:
    """Return the hosts that report a write, which the others must see; raise UndeterminedError if none does."""
    tasks = [task for part in scope.parts for task in outputs[f"write-{part.name}"].tasks]
    found = sorted(task.host for task in tasks if not failure_of(task) and "TASK " in task.out)
    if not found:
        raise UndeterminedError("no job wrote anything")
    return found


def _folder(scope: PhaseScope, part: str) -> str:
    return f"{scope.folder}/part-{part}"


PHASE: Final = Phase(
    "shared_file_system", "Shared file system", evaluate, jobs, probes=(HERE,), files=files, cleanup_patterns=("part-*/*",)
)
