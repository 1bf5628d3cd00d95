"""Prerequisites of the phases: which nodes a node cannot do without, and who is left out because those have failed.

Pure: groups and the variable `cluster` of the inventory in, names out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Groups = Mapping[str, Sequence[str]]
Cluster = Mapping[str, Any]


class Need(NamedTuple):
    """Nodes that need at least one of some others; a node does not need itself."""

    nodes: Sequence[str]
    one_of: Sequence[str]


class Prerequisite(NamedTuple):
    """One kind of prerequisite of a phase."""

    phase: str
    what: str
    needs: Callable[[Groups, Cluster], Iterator[Need]]


def file_servers(groups: Groups, cluster: Cluster) -> Iterator[Need]:
    """Yield the clients of each file system with its servers. MooseFS serves while its master runs, which is the first server."""
    for filesystem in cluster.get("storage", ()):
        servers = filesystem["servers"][:1] if filesystem["kind"] == "moosefs" else filesystem["servers"]
        for server in servers:
            yield Need(filesystem["clients"], [server])


def slurm_database(groups: Groups, cluster: Cluster) -> Iterator[Need]:
    """Yield the controllers with the nodes of slurmdbd."""
    if both(groups, "role_accounting"):
        yield Need(both(groups, "role_controller"), both(groups, "role_accounting"))


def slurm_controllers(groups: Groups, cluster: Cluster) -> Iterator[Need]:
    """Yield workers and login nodes with the controllers. One controller is enough: the others are backups."""
    controllers = both(groups, "role_controller")
    if controllers:
        yield Need([name for name in groups.get("slurm", ()) if name not in controllers], controllers)


def control_plane(groups: Groups, cluster: Cluster) -> Iterator[Need]:
    """Yield workers and login nodes with the controllers. One controller is enough: it becomes the primary one."""
    controllers = groups.get("kube_control_plane", ())
    others = dict.fromkeys([*groups.get("kubernetes", ()), *groups.get("kubernetes_login", ())])
    if controllers:
        yield Need([name for name in others if name not in controllers], controllers)


def both(groups: Groups, role: str) -> list[str]:
    """Return the members of a group that take part in Slurm."""
    return [name for name in groups.get(role, ()) if name in groups.get("slurm", ())]


PREREQUISITES = (
    Prerequisite("storage", "server of a file system", file_servers),
    Prerequisite("scheduler", "database of Slurm's accounting", slurm_database),
    Prerequisite("scheduler", "Slurm controller", slurm_controllers),
    Prerequisite("kubernetes", "control plane", control_plane),
)


def not_reached(phase: str, groups: Groups, cluster: Cluster, failed: Mapping[str, str]) -> dict[str, str]:
    """Return the nodes that a phase leaves out, each with the failures that are the cause.

    `failed`: node -> what happened to it, such as `login0 failed in bootstrap`. A node that is left out is missing for others, too:
    those get the cause of the first.
    """
    known = dict(failed)
    needs = [need for row in PREREQUISITES if row.phase == phase for need in row.needs(groups, cluster)]
    while found := dict(_blocked(needs, known)):
        known |= found
    return {name: why for name, why in known.items() if name not in failed}


def _blocked(needs: Sequence[Need], known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for need in needs:
        if not need.one_of or any(name not in known for name in need.one_of):
            continue
        why = " and ".join(dict.fromkeys(known[name] for name in need.one_of))
        yield from ((name, why) for name in need.nodes if name not in known and name not in need.one_of)
