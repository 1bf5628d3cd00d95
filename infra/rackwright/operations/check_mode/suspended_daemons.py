"""Suspended daemons of a stack, read before the phases run: tasks that query such a daemon would wait for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from rackwright.drivers import remote_exec
from rackwright.time_limits import slowness

_LIFE: Final = 4.0
"""Seconds for the answer of a node, over an open connection, on a machine of slowness 1; 0.1 are usual. A node that does not answer
is compared like one without a suspended daemon."""
_PODS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""Static pods of kubeadm."""
_POD: Final = ".pod"
REPLAY_S: Final = 4.0
"""Seconds for the replay of module calls on nodes whose tasks may wait for a suspended daemon. A replay takes 1 to 2."""
PHASES_S: Final = 9.0
"""Seconds for the phases in check mode on the nodes with a suspended daemon. On one node they take 6 to 8 (2 cores), and the daemon that
does not run is reported by the first task that reads its unit."""

Suspended = Mapping[str, Mapping[str, str]]
"""Node -> daemon -> state; only nodes with a suspended daemon."""


async def read(stack: str, sudo: Mapping[str, bool], *, target: str) -> Suspended:
    """Return the suspended daemons of the nodes. `sudo`: node -> whether it is needed."""
    request = {"units": ["*.service"], "pods": _PODS, "report": "suspended"}
    answers, _ = await remote_exec.run_on_nodes(
        stack, "daemon_states", dict.fromkeys(sudo, request), sudo, target=target, limit=_LIFE * slowness()
    )
    return {name: answer["suspended"] for name, answer in answers.items() if answer["suspended"]}


def with_units(suspended: Suspended) -> list[str]:
    """Return the nodes on which a unit is suspended: the phases would restart it. Static pods are the kubelet's."""
    return [name for name, daemons in suspended.items() if any(not daemon.endswith(_POD) for daemon in daemons)]


def described(suspended: Suspended) -> str:
    """Return the suspended daemons in one line.

    >>> described({"login0": {"slurmctld.service": "frozen"}, "k0": {"etcd.pod": "suspended by a signal"}})
    'slurmctld.service is frozen on login0; static pod etcd is suspended by a signal on k0'
    """
    words = [(_name(daemon), state, node) for node, daemons in suspended.items() for daemon, state in daemons.items()]
    return "; ".join(f"{daemon} is {state} on {node}" for daemon, state, node in words)


def not_compared(nodes: Iterable[str], suspended: Suspended, *, but: Collection[str] = ()) -> tuple[tuple[str, str], ...]:
    """Return (node, reason) of nodes whose comparison a suspended daemon ended."""
    return tuple((name, f"not compared completely, because {described(suspended)}") for name in nodes if name not in but)


def _name(daemon: str) -> str:
    return f"static pod {daemon.removesuffix(_POD)}" if daemon.endswith(_POD) else daemon
