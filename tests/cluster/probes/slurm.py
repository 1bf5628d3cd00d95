"""What Slurm says of itself: daemons, configuration, nodes, partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cluster.harness.probe import Place, Probe


def parse_ping(text: str) -> dict[str, bool]:
    """Whether each controller is up, by host.

    >>> parse_ping("Slurmctld(primary) at login0 is UP")
    {'login0': True}
    """
    found = {host: state == "UP" for host, state in re.findall(r"^Slurmctld\(\S+\) at (\S+) is (UP|DOWN)", text, re.MULTILINE)}
    if not found:
        raise ValueError("no controller is listed")
    return found


PING = Probe("slurm-ping", on="slurm", command="scontrol ping", parse=parse_ping, statuses=frozenset({0, 1}))


def parse_version(text: str) -> str:
    """`slurm-wlm 24.11.5` or `slurm 24.11.5`, without the distributor's word."""
    found = re.fullmatch(r"\S+ (\d+\.\d+\.\d+\S*)", text.strip())
    if not found:
        raise ValueError("no version")
    return found[1]


def _version_command(place: Place) -> str:
    roles = place.node["roles"]
    daemon = (
        "slurmctld" if "controller" in roles else "slurmd" if "worker" in roles else "slurmdbd" if "accounting" in roles else "scontrol"
    )
    return f"{daemon} -V"


VERSION = Probe("slurm-version", on="slurm", command=_version_command, parse=parse_version)


def parse_digests(text: str) -> dict[str, str]:
    """`sha256sum` lines by file name without its folder."""
    found = {path.rpartition("/")[2]: digest for digest, path in (line.split() for line in text.splitlines())}
    if "slurm.conf" not in found:
        raise ValueError("no slurm.conf")
    return found


CONFIGURATION = Probe(
    "slurm-configuration",
    on="slurm",
    # What slurmd fetched lies under /run/slurm/conf; a node without it reads /etc/slurm.
    command="for f in slurm gres cgroup; do for d in /run/slurm/conf /etc/slurm; do "
    "[ -r $d/$f.conf ] && sha256sum $d/$f.conf && break; done; done; true",
    parse=parse_digests,
)


@dataclass(frozen=True)
class SlurmNode:
    """A node as the controller has it."""

    name: str
    states: frozenset[str]
    reason: str
    cpus: int
    memory_mib: int
    gpus: dict[str, int]
    """GPUs by type; the type is empty where none is given."""


def parse_nodes(text: str) -> dict[str, SlurmNode]:
    """`scontrol --oneliner show nodes`."""
    found = [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]
    if not found and "no nodes" not in text.lower():
        raise ValueError("no nodes are listed")
    return {node.name: node for node in found}


def _node(line: str) -> SlurmNode:
    values = fields(line)
    reason = line.partition(" Reason=")[2].strip()
    states = re.sub(r"[*~#!%$@^-]+$", "", values["State"])
    suffix = "+NOT_RESPONDING" if values["State"].rstrip("+").endswith("*") else ""
    return SlurmNode(
        name=values["NodeName"],
        states=frozenset((states + suffix).split("+")),
        reason=reason,
        cpus=int(values["CPUTot"]),
        memory_mib=int(values["RealMemory"]),
        gpus=parse_gres(values.get("Gres", "")),
    )


def parse_gres(text: str) -> dict[str, int]:
    """GPUs by type out of a Gres field.

    >>> parse_gres("gpu:h100:8(S:0-1),nic:2"), parse_gres("(null)")
    ({'h100': 8}, {})
    """
    gpus: dict[str, int] = {}
    for item in re.sub(r"\([^)]*\)", "", text).split(","):
        name, _, rest = item.partition(":")
        if name == "gpu":
            kind, _, count = rest.rpartition(":")
            gpus[kind] = gpus.get(kind, 0) + int(count)
    return gpus


def fields(line: str) -> dict[str, str]:
    """`Key=value` pairs of a one-line record, as far as values have no spaces."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


NODES = Probe("slurm-nodes", on="role_controller", command="scontrol --oneliner show nodes", parse=parse_nodes)


@dataclass(frozen=True)
class Partition:
    """A partition as the controller has it."""

    state: str
    default: bool
    nodes: tuple[str, ...]
    max_time: str


def parse_partitions(text: str) -> dict[str, Partition]:
    """`scontrol --oneliner show partitions`."""
    found = {}
    for line in text.splitlines():
        if line.startswith("PartitionName="):
            values = fields(line)
            found[values["PartitionName"]] = Partition(
                values["State"], values["Default"] == "YES", expand(values.get("Nodes", "")), values["MaxTime"]
            )
    if not found:
        raise ValueError("no partitions are listed")
    return found


def expand(hostlist: str) -> tuple[str, ...]:
    """Names of a Slurm host list, sorted.

    >>> expand("login0,worker[0-1,07-08]")
    ('login0', 'worker0', 'worker07', 'worker08', 'worker1')
    """
    if hostlist in ("", "(null)"):
        return ()
    names: list[str] = []
    for item in re.findall(r"[^,\[]+(?:\[[^\]]*\])?[^,\[]*", hostlist):
        found = re.fullmatch(r"(.*?)\[(.*)\](.*)", item)
        names += [f"{found[1]}{number}{found[3]}" for number in _numbers(found[2])] if found else [item]
    return tuple(sorted(names))


def _numbers(ranges: str) -> list[str]:
    found = []
    for item in ranges.split(","):
        low, _, high = item.partition("-")
        found += [f"{number:0{len(low)}d}" for number in range(int(low), int(high or low) + 1)]
    return found


PARTITIONS = Probe("slurm-partitions", on="role_controller", command="scontrol --oneliner show partitions", parse=parse_partitions)


def parse_settings(text: str) -> dict[str, str]:
    """`scontrol show config`: values by name."""
    found = {name.strip(): value.strip() for name, mark, value in (line.partition("=") for line in text.splitlines()) if mark}
    if "ClusterName" not in found:
        raise ValueError("no ClusterName")
    return found


LAST_LOOK = Probe(
    "slurm-last-look",
    on="role_worker",
    # Both times are the node's own, so that its clock does not matter here.
    command="stat -c %Y /var/lib/rackwright/health.json && date +%s",
    parse=lambda text: int(text.split()[1]) - int(text.split()[0]),
)
"""Seconds since the node last looked at itself."""

SETTINGS = Probe("slurm-settings", on="role_controller", command="scontrol show config", parse=parse_settings)
