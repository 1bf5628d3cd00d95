"""Hierarchies of control groups that a node must not have: those that this machine has not mounted (cgroup v1, `man 7 cgroups`).

systemd in a node mounts every hierarchy of the kernel. Hierarchies that the machine has mounted begin at the node's group, by its
namespace. A new one begins at its root for all nodes: a kubelet finds the pods of other nodes there, of other stacks too, and removes
their groups while they start ("unable to apply cgroup configuration"). Hierarchies with groups also outlive all containers that mounted
them.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final

_JOINED: Final = ("net_cls", "net_prio")
"""Controllers that systemd mounts together (src/shared/mount-setup.c, join_with)."""
_HIDE: Final = "mkdir -p /sys/fs/cgroup/{name} && mount -t tmpfs -o ro,size=4k,mode=555 none /sys/fs/cgroup/{name}"


def rootless() -> bool:
    """Return whether containers run without root on this machine."""
    return os.geteuid() != 0


@cache
def is_cgroup_v2() -> bool:
    """Return whether this machine has cgroup v2 only (`man 7 cgroups`): its systemd mounts cgroup v2, and so does a node's."""
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()


def job_constraints(*, rootless: bool, declared_cpus: int, cpus: int | None = None, root: Path = Path("/")) -> tuple[str, ...]:
    """Return what the control groups of container nodes on this machine can confine a job to; nothing on cgroup v1.

    - memory, where the controller is delegated to the user who runs the containers.
    - cores, where cpuset is, too, and the machine has as many CPUs as its largest node declares (`cpus`: as many as this process may use,
      sched_getaffinity(2): a machine that is a container itself may have a part of its host's).
    - devices, for root alone: Slurm filters them with a BPF program, which only root can load (cgroup-v2.rst, "Device controller").
    """
    delegated = f"user.slice/user-{os.geteuid()}.slice/user@{os.geteuid()}.service" if rootless else ""
    try:
        controllers = (root / "sys/fs/cgroup" / delegated / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return ()
    if "memory" not in controllers:
        return ()
    enough = declared_cpus <= (cpus or len(os.sched_getaffinity(0)))
    cores = ("cores",) if "cpuset" in controllers and enough else ()
    return (*cores, "memory", *(() if rootless else ("devices",)))


def shared() -> list[str]:
    """Return paths below /sys/fs/cgroup where systemd in a node would mount a shared hierarchy, on a machine with cgroup v1."""
    return unmounted(Path("/proc/cgroups").read_text(encoding="ascii"), Path("/proc/self/mountinfo").read_text(encoding="utf-8"))


def hide_unmounted() -> list[str]:
    """Return the shell commands that a container runs before its systemd, which mounts nothing on an existing mount."""
    return [_HIDE.format(name=name) for name in shared()]


def unmounted(controllers: str, mounts: str) -> list[str]:
    r"""Return controllers of the kernel that this machine has not mounted, as systemd names their folders.

    `controllers`: /proc/cgroups. `mounts`: /proc/self/mountinfo.

    >>> kernel = "#subsys_name hierarchy num_cgroups enabled\ncpu 1 2 1\nnet_cls 10 3 1\nnet_prio 10 3 1\nhugetlb 0 1 1\nrdma 0 1 0"
    >>> unmounted(kernel, "1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu")
    ['hugetlb', 'net_cls,net_prio']
    """
    here = {option for line in mounts.splitlines() if " - cgroup " in line for option in line.split()[-1].split(",")}
    rows = [line.split() for line in controllers.splitlines() if not line.startswith("#")]
    names = {row[0] for row in rows if row[3] == "1"} - here
    joined = [",".join(_JOINED)] if names.issuperset(_JOINED) else []
    return sorted(names.difference(_JOINED) if joined else names) + joined
