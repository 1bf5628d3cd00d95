"""What pods leave on this machine: a node that goes takes its own control groups along, but not those of hierarchies that it mounted.

On cgroup v1, systemd in a node mounts hierarchies that the machine has not mounted (net_cls, perf_event, hugetlb). They have no namespace
of the node's: the groups of its pods lie at their root, and a hierarchy with groups outlives all who mounted it (`man 7 cgroups`).
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

_CONTROLLERS: Final = Path("/proc/cgroups")
_PODS: Final = "kubepods.slice"
"""The kubelet's, below which all of its pods are."""
_REMOVE: Final = f"""
mount -t cgroup -o "$1" none "$2" || exit 1
[ -d "$2/{_PODS}" ] || exit 0
[ -z "$(find "$2/{_PODS}" -name cgroup.procs -exec cat {{}} +)" ] || exit 0
find "$2/{_PODS}" -depth -type d -exec rmdir {{}} + && echo removed
"""
"""In a namespace of mounts of its own, so that the mount ends with it; groups with processes are somebody's."""
_PATIENCE: Final = 5.0
"""Seconds for removed groups to be gone; 0.3 were seen. Only the last mount that finds a hierarchy without groups ends it."""


def unmounted(controllers: str, mounts: str) -> list[str]:
    """Hierarchies of cgroup v1 that the kernel has and nobody mounted here, as options of `mount`.

    `controllers`: /proc/cgroups. `mounts`: /proc/self/mountinfo.

    >>> kernel = "#subsys_name hierarchy num_cgroups enabled\\ncpu 1 2 1\\nnet_cls 10 32 1\\nnet_prio 10 32 1\\nhugetlb 0 1 1"
    >>> unmounted(kernel, "1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu")
    ['net_cls,net_prio']
    """
    here = {option for line in mounts.splitlines() if " - cgroup " in line for option in line.split()[-1].split(",")}
    found: dict[str, list[str]] = {}
    for line in controllers.splitlines():
        name, hierarchy, *_ = line.split()
        if hierarchy.isdigit() and hierarchy != "0" and name not in here:
            found.setdefault(hierarchy, []).append(name)
    return [",".join(names) for names in found.values()]


def remove_pods() -> list[str]:
    """Remove what pods left, once no node that runs them is there, and the hierarchies with it; what stays, and why."""
    done = {options: _run(options) for options in _here()}
    emptied = [options for options, ended in done.items() if "removed" in ended.stdout]
    deadline = time.monotonic() + _PATIENCE
    while emptied and any(_groups(options) > 1 for options in emptied) and time.monotonic() < deadline:
        time.sleep(0.05)
    for options in emptied:
        _run(options)
    return [
        f"control groups of pods stay in the machine's hierarchy {options}: {ended.stderr.strip()}"
        for options, ended in done.items()
        if ended.returncode
    ]


def _groups(options: str) -> int:
    """How many groups a hierarchy has, its root among them, and those that are going."""
    rows = [line.split() for line in _CONTROLLERS.read_text(encoding="ascii").splitlines()]
    return max((int(row[2]) for row in rows if row[0] in options.split(",")), default=0)


def _here() -> list[str]:
    try:
        return unmounted(_CONTROLLERS.read_text(encoding="ascii"), Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    except FileNotFoundError:  # a kernel without cgroup v1
        return []


def _run(options: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="rackwright-") as folder:
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _REMOVE, "sh", options, folder]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
