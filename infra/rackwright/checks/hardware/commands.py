"""The commands of the hardware report, by part of a node. They do not belong to the checks: a run of the checks does not run them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext, T, gpu_tool_seconds
from rackwright.checks.cluster.probes.adapters import NAME_OF_LINK, PERMANENT_MAC
from rackwright.checks.cluster.probes.nvidia_smi import ENDS, query
from rackwright.checks.hardware import parsers
from rackwright.report.hardware.facts import Part

HARDWARE_PROBES: dict[Part, HardwareProbe[Any]] = {}
"""Every question, by the part that it is about."""


@dataclass(frozen=True, eq=False)
class HardwareProbe(Probe[T]):
    """A probe of the hardware report; its name is the part it is about."""

    def __post_init__(self) -> None:
        HARDWARE_PROBES[Part(self.name)] = self


CPUS = HardwareProbe(Part.CPUS, on="nodes", command="lscpu -J", parse=parsers.parse_cpus)
MEMORY = HardwareProbe(Part.MEMORY, on="nodes", command="grep ^MemTotal: /proc/meminfo", parse=parsers.parse_memory)
NUMA = HardwareProbe(
    Part.NUMA,
    on="nodes",
    command="cd /sys/devices/system/node 2>/dev/null && for n in node[0-9]*; do "
    "echo \"${n#node}|$(cat $n/cpulist)|$(sed -n 's/.*MemTotal: *\\([0-9]*\\) kB/\\1/p' $n/meminfo)\"; done; true",
    parse=parsers.parse_numa,
)
GPUS = HardwareProbe(
    Part.GPUS,
    on="gpu",
    command=query(parsers.GPU_FIELDS),
    parse=parsers.parse_gpus,
    statuses=ENDS,
    planned_timeout=gpu_tool_seconds,
)
GPU_LINKS = HardwareProbe(
    Part.GPU_LINKS, on="gpu", command="nvidia-smi topo -m", parse=parsers.parse_gpu_links, statuses=ENDS, planned_timeout=gpu_tool_seconds
)
INTERFACES = HardwareProbe(
    Part.INTERFACES,
    on="nodes",
    command="cd /sys/class/net && for n in *; do [ -e $n/operstate ] || continue; "
    f'echo "$n|$(cat $n/operstate)|$(cat $n/speed 2>/dev/null)|$(cat $n/type)|$({NAME_OF_LINK.format("$n/device/driver")})'
    f'|$(cat $n/device/numa_node 2>/dev/null)|$({PERMANENT_MAC})|$({NAME_OF_LINK.format("$n/device")})"; done',
    parse=parsers.parse_interfaces,
)
_SYSFS: Final = (
    "for p in /sys/class/infiniband/*/ports/*; do [ -e $p/state ] || continue; d=${p%/ports/*}; "
    'echo "${d##*/}|${p##*/}|$(cat $p/state)|$(cat $p/phys_state)|$(cat $p/rate)|$(cat $p/link_layer)'
    "|$(cat $d/device/numa_node 2>/dev/null)|$(cat $d/fw_ver 2>/dev/null)|$(cat $d/node_guid)|$(cat $p/gids/0)"
    f'|$({NAME_OF_LINK.format("$d/device")})"; done'
)
_LSBLK: Final = "lsblk -J -b -d -o NAME,TYPE,SIZE,MODEL,ROTA,TRAN"
_BY_ID: Final = (
    'for l in /dev/disk/by-id/*; do [ -e "$l" ] || continue; d=$(readlink -f "$l"); echo "${d#/dev/}|${l##*/}"; done; echo "end|"'
)


def _ports(place: ProbeContext) -> str:
    """Return the command for the kernel's own folders; a simulated fabric is visible only to `ibstat`, on nodes that are on it."""
    simulated = place.declared.fabric is not None and place.declared.fabric["simulated"]
    return "ibstat" if simulated and place.node.get("rails") else _SYSFS


RDMA = HardwareProbe(Part.RDMA, on="nodes", command=_ports, parse=parsers.parse_rdma)
DISKS = HardwareProbe(Part.DISKS, on="nodes", command=f"{_LSBLK} && {{ {_BY_ID}; }}", parse=parsers.parse_disks)
_MOUNTS: Final = """
import os, re, subprocess, sys, time
SHARED = "nfs nfs4 lustre fuse ceph cifs smb3 beegfs gpfs glusterfs 9p virtiofs".split()
DF = ["df", "-B1", "--output=source,fstype,size,avail,target"]
LIMIT = 4 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
points = []
for line in open("/proc/self/mountinfo", errors="surrogateescape"):
    before, _, after = line.partition(" - ")
    if after.split(" ")[0].partition(".")[0] in SHARED:
        points.append(re.sub(r"\\\\([0-7]{3})", lambda found: chr(int(found[1], 8)), before.split(" ")[4]))
pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
children = [(point, subprocess.Popen(DF + ["--", point], **pipes)) for point in dict.fromkeys(points)]
sys.stdout.flush()
subprocess.call(DF + ["-l"] + [word for kind in "tmpfs devtmpfs squashfs iso9660 efivarfs".split() for word in ("-x", kind)])
deadline = time.monotonic() + LIMIT
for point, child in children:
    try:
        said = child.communicate(timeout=max(0.1, deadline - time.monotonic()))[0].decode("utf-8", "replace")
        print("".join(row + chr(10) for row in said.splitlines() if not row.startswith("Filesystem ")), end="")
    except subprocess.TimeoutExpired:
        child.kill()
        print("df: %s: no answer within %d s" % (point, LIMIT))
sys.stdout.flush()
os._exit(0)
"""
"""Each shared file system is queried by a process of its own, for half of a probe's time limit: a server that does not respond holds no
other one, and no process is waited for. `df -l` leaves out file systems of servers before it queries them (df(1))."""

MOUNTS = HardwareProbe(Part.MOUNTS, on="nodes", command=f"python3 -I -S -c {shlex.quote(_MOUNTS)}", parse=parsers.parse_mounts)
