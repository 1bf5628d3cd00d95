"""Logs of a running stack's nodes, read from their journals and log files; nothing is installed for it and nothing is changed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from rackwright.drivers import remote_exec, ssh_connections
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.model.finding import did_you_mean
from rackwright.report.logs.document import PRIORITIES, LogReport, NodeLogs, merge, node_logs
from rackwright.report.redact import redactor
from rackwright.time_limits import slowness

REACH: Final = 10.0
"""Seconds for connecting to a node."""
_SECONDS: Final = 20.0
"""Seconds in which a node of usual speed searches its logs; journalctl reads some 50,000 entries a second. Chosen."""
_MARGIN: Final = 15.0
"""Seconds beyond a node's own limit until the connection is closed."""
_BYTES: Final = 64 << 20
"""Bytes that all nodes may answer together; each gets its share."""
_LEAST_BYTES: Final = 256 << 10
"""Bytes that a node of a large cluster may answer: about 1,000 lines. Chosen."""
STATIC_PODS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""Parts of a control plane that are no units: the kubelet runs them as static pods."""
_POD: Final = re.compile(r"[a-z0-9*?]([a-z0-9*?.-]*[a-z0-9*?])?/[a-z0-9*?]([a-z0-9*?.-]*[a-z0-9*?])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """What a user asks for."""

    nodes: tuple[str, ...] = ()
    """Names, groups or patterns; none: all nodes that are in."""
    units: tuple[str, ...] = ()
    pod: str = ""
    """NAMESPACE/NAME; both may be patterns."""
    since: float | None = None
    until: float | None = None
    grep: str = ""
    priority: int | None = None
    lines: int = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """A program and what it is asked on each node."""

    program: str
    values: Mapping[str, Any]


def query_logs(stack: str, query: LogQuery) -> LogReport:
    """Return the newest entries of all nodes by time.

    Raises InputError if the stack is not up, for an unknown node, unit or pod and for a pattern that is none; UndeterminedError at Ctrl-C.
    """
    running = RunningStack.of(stack)
    names = select_nodes(running, query.nodes)
    requests = list(_requests(running, query))
    try:
        answers = asyncio.run(ask(running, names, requests, since=query.since, until=query.until))
    except KeyboardInterrupt:
        raise UndeterminedError("interrupted", path=f"stack {stack}") from None
    _refuse_unknown(query, answers)
    out = [
        NodeLogs(name, reason=_out(running, name), is_out=True) for name in running.inventory.out if name not in names and not query.nodes
    ]
    return merge(stack, query.since, query.until, [*answers, *out], query.lines)


_ALONE: Final[Mapping[str, tuple[str, ...]]] = {
    "--job": ("--pod", "--follow", "--node", "--unit", "--priority", "--until"),
    "--pod": ("--follow", "--unit"),
    "--follow": ("--since", "--until"),
}
"""Option -> options that have no meaning beside it."""


def refuse_combinations(options: Mapping[str, Any]) -> None:
    """Raise InputError for two options that exclude each other; an option without a value is not given."""
    for option, others in _ALONE.items():
        for other in others:
            if options.get(option) and options.get(other):
                hint = f"leave out {other} or {option}"
                raise InputError(f"cannot be combined with {other}", path=option, hint=hint)


def select_nodes(running: RunningStack, wanted: Sequence[str]) -> list[str]:
    """Return the nodes that names, groups and patterns mean; none means all that are in. Raises InputError for one that means none."""
    inventory = running.inventory
    every = {**inventory.nodes, **inventory.out}
    if not wanted:
        return list(inventory.nodes)
    found: dict[str, None] = {}
    for name in wanted:
        members = [one for one in every if fnmatchcase(one, name)] or [one for one in inventory.groups.get(name, ()) if one in every]
        if not members:
            known = [*every, *(group for group, nodes in inventory.groups.items() if nodes and not group.startswith("@"))]
            raise InputError(f"stack {running.name} has no node and no group `{name}`", path="--node", hint=did_you_mean(name, known))
        found |= dict.fromkeys(members)
    return list(found)


def priority_of(text: str) -> int:
    """Return the number of a priority; raise InputError for an unknown one.

    >>> priority_of("err"), priority_of("warn"), priority_of("5")
    (3, 4, 5)
    """
    names = {**{name: number for number, name in enumerate(PRIORITIES)}, "error": 3, "warn": 4, "critical": 2, "emergency": 0}
    names |= {str(number): number for number in range(8)}
    if text.lower() not in names:
        raise InputError(f"unknown priority `{text}`", path="--priority", hint=did_you_mean(text, PRIORITIES))
    return names[text.lower()]


def pattern(text: str) -> str:
    """Return a regular expression that ignores case if it has no capital letters, as journalctl's; raise InputError for an invalid one."""
    try:
        re.compile(text)
    except re.error as error:
        hint = "write a regular expression of Python; put \\ before characters such as ( [ * to search for them"
        raise InputError(f"`{text}` is not a regular expression: {error}", path="--grep", hint=hint) from None
    return text if text != text.lower() else f"(?i:{text})"


def _requests(running: RunningStack, query: LogQuery) -> Iterable[Request]:
    """Yield the programs that answer a query."""
    common = {"rules": [["", pattern(query.grep)]] if query.grep else [], "priority": query.priority, "lines": query.lines}
    kubernetes = (running.inventory.cluster.get("scheduler") or {}).get("kind") == "kubernetes"
    if query.pod:
        namespace, name = _pod(query.pod, running.name, kubernetes=kubernetes)
        yield Request("container_logs", {**common, "namespace": namespace, "pod": name})
        return
    units = [unit.removesuffix(".service") for unit in query.units]
    static = [unit for unit in units if kubernetes and unit in STATIC_PODS]
    for unit in static:
        yield Request("container_logs", {**common, "namespace": "kube-system", "pod": f"{unit}-*"})
    if rest := [unit for unit in units if unit not in static]:
        yield Request("journal", {**common, "units": rest, "files": True})
    elif not static:
        yield Request("journal", {**common, "units": [], "files": True})


def _pod(text: str, stack: str, *, kubernetes: bool) -> tuple[str, str]:
    if not kubernetes:
        raise InputError("has no pods (its scheduler is not kubernetes)", path=f"stack {stack}", hint="pass --unit or --job")
    if not _POD.fullmatch(text):
        raise InputError(f"`{text}` is not a pod", path="--pod", hint="write NAMESPACE/NAME, `kube-system/coredns-*` for example")
    namespace, _, name = text.partition("/")
    return namespace, name


async def ask(
    running: RunningStack, names: Sequence[str], requests: Sequence[Request], *, since: float | None, until: float | None
) -> list[NodeLogs]:
    """Return what each node answers to the requests, in parallel; a node that is asked several has all answers in one."""
    stack, inventory = running.name, running.inventory
    lost = await ssh_connections.connect_all(stack, names, within=REACH)
    there = [name for name in names if name not in lost]
    records = {**inventory.nodes, **inventory.out}
    sudo = {name: records[name]["user"] != "root" for name in there}
    mask = redactor(paths.secrets(stack), paths.ssh_private_key_file(stack))
    limit = (_SECONDS + _MARGIN) * await asyncio.to_thread(slowness)
    found: dict[str, NodeLogs] = {name: NodeLogs(name, reason=_why(running, name, why)) for name, why in lost.items()}
    for request in requests:
        sent = time.time()
        size = max(_LEAST_BYTES, _BYTES // max(len(there), 1))
        values = {**request.values, "now": sent, "since": since, "until": until, "seconds": _SECONDS, "bytes": size}
        answers, failed = await remote_exec.run_on_nodes(
            stack, request.program, dict.fromkeys(there, values), sudo, target=inventory.target, limit=limit
        )
        span = (sent, time.time())
        for name in there:
            logs = _read(name, answers.get(name), failed.get(name, ""), since=since, until=until, span=span, mask=mask)
            found[name] = _joined(found[name], logs) if name in found else logs
    return [found[name] for name in names]


def _read(name: str, answer: Any, why: str, *, mask: Callable[[str], str], **limits: Any) -> NodeLogs:
    if why:
        return NodeLogs(name, reason=mask(why))
    try:
        return node_logs(name, answer, mask=mask, **limits)
    except (KeyError, TypeError, IndexError, ValueError) as error:
        return NodeLogs(name, reason=f"its answer cannot be read: {error!r}")


def _joined(one: NodeLogs, other: NodeLogs) -> NodeLogs:
    """Return two answers of one node as one."""
    return replace(
        one,
        entries=(*one.entries, *other.entries),
        reason=one.reason or other.reason,
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))),
        more=one.more or other.more,
        known={**(one.known or {}), **(other.known or {})},
        seen=(*one.seen, *other.seen),
    )


def _refuse_unknown(query: LogQuery, answers: Sequence[NodeLogs]) -> None:
    """Raise InputError for a unit or a pod that no node has, if all nodes answered."""
    if any(not node.answered for node in answers):
        return
    known = {name for node in answers for name, there in (node.known or {}).items() if there}
    if query.pod:
        if not known:
            namespace, _, name = query.pod.partition("/")
            others = {name for node in answers for name in (node.known or {})}
            raise InputError(f"no node has logs of a pod `{name}` in namespace {namespace}", path="--pod", hint=did_you_mean(name, others))
        return
    for unit in (one.removesuffix(".service") for one in query.units):
        if unit not in known and not any(fnmatchcase(name, f"{unit}-*") for name in known if unit in STATIC_PODS):
            seen = {name for node in answers for name in node.seen}
            raise InputError(f"no node that was asked has a unit `{unit}`", path="--unit", hint=did_you_mean(unit, {*seen, "kernel"}))


def _why(running: RunningStack, name: str, why: str) -> str:
    """Return why a node could not be read; one that Slurm suspends may be without power, and is not resumed for its logs."""
    saving = ((running.inventory.cluster.get("scheduler") or {}).get("power_saving") or {}).get("nodes", ())
    return f"{why}; Slurm may have suspended it, and logs do not resume a node" if name in saving else why


def _out(running: RunningStack, name: str) -> str:
    return f"declared out; pass `--node {name}` to read it"
