"""Probes of Slurm: daemons, configuration, nodes, partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext, scaled
from rackwright.checks.cluster.harness.tool_output import Lines, Row, UnreadableValue, flag, integer, lines_of, read_each_line, words
from rackwright.checks.cluster.probes.slurm_states import states_of
from rackwright.model.hostlists import expand_host_list
from rackwright.remote.command import python_command


def parse_ping(text: str) -> dict[str, bool]:
    """Return whether each controller is up, by host.

    >>> parse_ping("Slurmctld(primary) at login0 is UP")
    {'login0': True}
    """
    found = {host: state == "UP" for host, state in re.findall(r"^Slurmctld\(\S+\) at (\S+) is (UP|DOWN)", text, re.MULTILINE)}
    if not found:
        raise ValueError("no controller is listed")
    return found


CLIENT: Final = ("munge.service",)
"""Units that Slurm's commands need on their own node."""
OF_CONTROLLER: Final = (*CLIENT, "slurmctld.service")
"""Units that Slurm's commands need on a controller, and that PING needs there. A backup that takes over has a slurmctld of its own."""
MESSAGE_TIMEOUT: Final = 10
"""Seconds after which scontrol times out (slurm.conf(5), MessageTimeout, default). A controller that refuses is DOWN at once."""
PING = Probe("slurm-ping", on="slurm", command="scontrol ping", parse=parse_ping, needs=OF_CONTROLLER, statuses=frozenset({0, 1}))


def parse_version(text: str) -> str:
    """Return the version of `slurm-wlm 24.11.5` or `slurm 24.11.5`, without the package name. Warnings in other lines are ignored."""
    found = {match[1] for line in lines_of(text) if (match := re.fullmatch(r"\s*[\w-]+ (\d+\.\d+\.\d+\S*)\s*", line))}
    if len(found) != 1:
        raise ValueError("no version" if not found else "several versions")
    return found.pop()


def _version_command(context: ProbeContext) -> str:
    roles = context.node["roles"]
    daemon = (
        "slurmctld" if "controller" in roles else "slurmd" if "worker" in roles else "slurmdbd" if "accounting" in roles else "scontrol"
    )
    return f"{daemon} -V"


VERSION = Probe("slurm-version", on="slurm", command=_version_command, parse=parse_version)


def parse_digests(text: str) -> Lines[str]:
    """Return digests by file name without folder, from lines of `sha256sum`. A line `Include` names a file that was not read."""
    found = read_each_line(text, _digest)
    if "slurm.conf" not in found:
        raise ValueError("no slurm.conf")
    return found


def _digest(line: str) -> tuple[str, str]:
    digest, path = line.split()
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError("no digest")
    return path.rpartition("/")[2], digest


CONFIGURATION = Probe(
    "slurm-configuration",
    on="slurm",
    # slurmd stores fetched files under /run/slurm/conf. A node without that folder reads /etc/slurm.
    command=python_command(
        "slurm_conf",
        {"digests": [[f"{folder}/{name}.conf" for folder in ("/run/slurm/conf", "/etc/slurm")] for name in ("slurm", "gres", "cgroup")]},
    ),
    parse=parse_digests,
)


@dataclass(frozen=True)
class SlurmNode:
    """A node as the controller reports it; UnreadableValue for a value that was not read."""

    name: str
    states: frozenset[str] | UnreadableValue
    reason: str
    """Reason with its author and time, `bad DIMM [root@2026-11-21T04:00:00]`."""
    cpus: int | UnreadableValue
    memory_mib: int | UnreadableValue
    gpus: dict[str, int] | UnreadableValue
    """Number of GPUs by type; the type is empty where the configuration has none."""


def parse_nodes(text: str) -> Lines[SlurmNode]:
    """Return nodes by name from `scontrol --oneliner show nodes`."""
    found = read_each_line(text, _node)
    if not found and "no nodes" not in text.lower():
        raise ValueError("no nodes are listed")
    return found


_GIVEN: Final = re.compile(r" Reason=(.*?\[[^@\s\[\]]+@[^\]]*\])")
_AFTER: Final = re.compile(
    r"\s(?:Comment|AdminComment|Extra|InstanceId|InstanceType|ReservationName|ResumeAfterTime|AvailableFeatures|Parameters"
    r"|TLSCertTokenSet|Topology)="
)
"""Keys that scontrol prints after the reason, its author and its time (slurm_sprint_node_table of Slurm 24.11 to 26.11)."""


def _node(line: str) -> tuple[str, SlurmNode] | None:
    if not line.startswith("NodeName="):
        if " State=" in line or "CPUTot=" in line:
            raise ValueError("a node without a name")
        return None
    before, _, after = line.partition(" Reason=")
    given = _GIVEN.search(line)
    row = Row(fields(before).get("NodeName", ""), fields(before), line)
    reason = given[1] if given else _AFTER.split(after)[0]
    return words(row.subject), SlurmNode(
        name=row.subject,
        states=row.read("State", states_of),
        reason=reason.strip(),
        cpus=row.read("CPUTot", integer),
        memory_mib=row.read("RealMemory", integer),
        gpus=row.read("Gres", parse_gres) if "Gres" in row.cells else {},
    )


def parse_gres(text: str) -> dict[str, int]:
    """Return the number of GPUs by type in a Gres field or a list of TRES. A GRES without a number counts once: slurm.conf(5), Gres.

    >>> parse_gres("gpu:h100:8(S:0-1),nic:2"), parse_gres("(null)"), parse_gres("gpu"), parse_gres("gpu:l4:no_consume:2")
    ({'h100': 8}, {}, {'': 1}, {'l4': 2})
    >>> parse_gres("gres:gpu:h100:8(IDX:0-7)"), parse_gres("cpu=8,mem=2G,gres/gpu=8,gres/gpu:h100=8")
    ({'h100': 8}, {'h100': 8})
    """
    gpus: dict[str, int] = {}
    items = [item for item in re.sub(r"\((?!null)[^)]*\)", "", text.strip()).split(",") if item not in ("", "(null)")]
    listed = any("=" in item for item in items)
    for item in items:
        name, mark, rest = _gres(item, tres=listed)
        if name.lower() == "gpu":
            parts = [part for part in rest.split(":") if part != "no_consume"] if mark else []
            kind, count = _kind_and_count(parts)
            gpus[kind] = gpus.get(kind, 0) + count
    if listed and len(gpus) > 1:  # the untyped number of TRES includes the typed ones
        gpus[""] = gpus.get("", 0) - sum(count for kind, count in gpus.items() if kind)
    return {kind: count for kind, count in gpus.items() if kind or count > 0 or len(gpus) == 1}


def _gres(item: str, *, tres: bool) -> tuple[str, str, str]:
    """Return the name, a colon and the rest of a GRES. In a list of TRES, GRES have a prefix, and `=` before the number.

    Names of GRES may have hyphens, and those of licences the name of their server, `license/NAME@SERVER`.
    """
    if tres:
        name, equals, number = item.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z][\w-]*([/:][\w.@+-]+)*", name) or not re.fullmatch(r"[\d.]+[A-Za-z]?", number):
            raise ValueError(f'"{item}" is no TRES')
        return f"{name.removeprefix('gres/')}:{number}".partition(":") if name.startswith("gres/") else (name, "", "")
    bare = re.sub(r"^gres[:/]", "", item)
    if not re.fullmatch(r"[A-Za-z][\w-]*(:[\w.+-]+)*", bare):
        raise ValueError(f'"{item}" is no GRES')
    return bare.partition(":")


_MULTIPLES: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""Suffixes of a number of GRES: slurm.conf(5), Gres."""


def _kind_and_count(parts: list[str]) -> tuple[str, int]:
    """Return the type and the number in `h100:8`, `h100` or `8`. Raise ValueError for more parts."""
    if parts and (number := re.fullmatch(r"(\d+)([KMGT]?)", parts[-1], re.IGNORECASE)):
        parts, count = parts[:-1], int(number[1]) * _MULTIPLES[number[2].upper()]
    else:
        count = 1
    if len(parts) > 1:
        raise ValueError(f'"{":".join(parts)}" is not a type of GPU')
    return "".join(parts), count


def fields(line: str) -> dict[str, str]:
    """Return the `Key=value` pairs of a one-line record whose values have no spaces. Of a repeated key, as in free text, keep the first."""
    found: dict[str, str] = {}
    for word in line.split():
        key, mark, value = word.partition("=")
        if mark:
            found.setdefault(key, value)
    return found


NODES = Probe("slurm-nodes", on="role_controller", command="scontrol --oneliner show nodes", parse=parse_nodes, needs=OF_CONTROLLER)


@dataclass(frozen=True)
class Partition:
    """A partition as the controller reports it; UnreadableValue for a value that was not read."""

    state: str | UnreadableValue
    default: bool | UnreadableValue
    nodes: tuple[str, ...] | UnreadableValue
    max_time: str | UnreadableValue


def parse_partitions(text: str) -> Lines[Partition]:
    """Return partitions by name from `scontrol --oneliner show partitions`."""
    found = read_each_line(text, _partition)
    if not found:
        raise ValueError("no partitions are listed")
    return found


def _partition(line: str) -> tuple[str, Partition] | None:
    if not line.startswith("PartitionName="):
        if " MaxTime=" in line or "TotalNodes=" in line:
            raise ValueError("a partition without a name")
        return None
    row = Row(fields(line)["PartitionName"], fields(line), line)
    nodes = row.read("Nodes", expand) if "Nodes" in row.cells else ()
    return words(row.subject), Partition(row.read("State", words), row.read("Default", flag), nodes, row.read("MaxTime", words))


def expand(hostlist: str) -> tuple[str, ...]:
    """Return the names of a Slurm host list, sorted. A name can have several ranges.

    >>> expand("login0,worker[0-1,07-08]"), expand("rack[0-1]node[1-2]")
    (('login0', 'worker0', 'worker07', 'worker08', 'worker1'), ('rack0node1', 'rack0node2', 'rack1node1', 'rack1node2'))
    """
    if hostlist in ("", "(null)"):
        return ()
    return tuple(sorted(expand_host_list(hostlist)))


PARTITIONS = Probe(
    "slurm-partitions", on="role_controller", command="scontrol --oneliner show partitions", parse=parse_partitions, needs=OF_CONTROLLER
)


def parse_settings(text: str) -> dict[str, str]:
    """Return values by name from `scontrol show config`."""
    found = {name.strip(): value.strip() for name, mark, value in (line.partition("=") for line in text.splitlines()) if mark}
    if "ClusterName" not in found:
        raise ValueError("no ClusterName")
    return found


@dataclass(frozen=True)
class LastHealthCheck:
    """The last health check on a node."""

    seconds: int
    """Since its end."""
    slowness: int
    """Factor by which the node is slower than the one for which time limits were chosen (docs/adr/0026)."""


def parse_last_health_check(text: str) -> LastHealthCheck:
    """Return the last health check from its time, the node's time and the node's slowness.

    >>> parse_last_health_check("1796000000 1796000090 2")
    LastHealthCheck(seconds=90, slowness=2)
    """
    ended, now, slowness = map(int, text.split())
    return LastHealthCheck(now - ended, slowness)


LAST_HEALTH_CHECK = Probe(
    "slurm-last-health-check",
    on="role_worker",
    # Both times come from the node's clock, so that its offset does not matter.
    command=f"stat -c %Y /var/lib/rackwright/health.json && date +%s && echo {scaled(1)}",
    parse=parse_last_health_check,
)

SETTINGS = Probe("slurm-settings", on="role_controller", command="scontrol show config", parse=parse_settings, needs=OF_CONTROLLER)
