"""Options of partitions, nodes and the log, in slurmctld and in slurm.conf. `scontrol update` and `setdebug` change slurmctld's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, lines_of, quoted, read_each_line
from rackwright.checks.cluster.probes.slurm import OF_CONTROLLER, expand, fields
from rackwright.errors import UndeterminedError
from rackwright.remote.command import python_command

PARTITION_DEFAULTS: Final[Mapping[str, str]] = {
    "AllocNodes": "ALL",
    "AllowAccounts": "ALL",
    "AllowGroups": "ALL",
    "AllowQos": "ALL",
    "Alternate": "(null)",
    "DefaultTime": "NONE",
    "DenyAccounts": "(null)",
    "DenyQos": "(null)",
    "ExclusiveUser": "NO",
    "GraceTime": "0",
    "Hidden": "NO",
    "MaxCPUsPerNode": "UNLIMITED",
    "MaxNodes": "UNLIMITED",
    "MaxTime": "UNLIMITED",
    "MinNodes": "0",
    "OverSubscribe": "NO",
    "PriorityJobFactor": "1",
    "PriorityTier": "1",
    "QoS": "N/A",
    "ReqResv": "NO",
    "RootOnly": "NO",
}
"""Options of a partition that `scontrol update` changes, with their defaults: slurm.conf(5) of Slurm 24.11, PARTITION CONFIGURATION.
Options whose default is a setting of the whole cluster (OverTimeLimit, LLN, memory) are left out, but for those of _CLUSTER_WIDE."""
_CLUSTER_WIDE: Final[Mapping[str, str]] = {"DisableRootJobs": "NO", "PreemptMode": "OFF"}
"""Options of a partition whose default is the setting of the same name, with the defaults of the setting: slurm.conf(5)."""
NODE_DEFAULTS: Final[Mapping[str, str]] = {"Features": "(null)", "Weight": "1"}
"""Options of a node that `scontrol update` changes, with their defaults: slurm.conf(5), NODE CONFIGURATION."""
LOG_DEFAULTS: Final[Mapping[str, str]] = {"DebugFlags": "(null)", "SlurmctldDebug": "info", "SlurmSchedLogLevel": "0"}
"""Settings that `scontrol setdebug`, `setdebugflags` and `schedloglevel` change until the next restart: scontrol(1)."""
_ALIASES: Final = {"feature": "features", "availablefeatures": "features", "shared": "oversubscribe"}
"""Aliases of options in slurm.conf and in the output of scontrol."""
_LEVELS: Final = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")
"""Names of log levels by number: slurm.conf(5), SlurmctldDebug."""


Differences = tuple[Mapping[str, str | UnreadableValue], Mapping[str, str]]
"""Values found and declared by name. A value that was not compared is an UnreadableValue in the first, and missing in the second."""


@dataclass(frozen=True)
class File:
    """slurm.conf: options of the cluster, by lower-case name, and of each partition and node, with the defaults of the file.

    What a file that was not read may set is unknown: `at` returns an UnreadableValue.
    """

    settings: Lines[str]
    partitions: Lines[Lines[str]]
    nodes: Lines[Lines[str]]


def parse_file(text: str) -> File:
    """Return the options of slurm.conf(5) with the files that it includes.

    A line `Include` is left where its file was not read (rackwright.remote.programs.slurm_conf). That file may define partitions and
    nodes, change the defaults of those below the line, and replace the settings above it: Slurm uses the last value.
    """
    settings: dict[str, str] = {}
    found: dict[str, dict[str, Lines[str]]] = {"partitionname": {}, "nodename": {}}
    defaults: dict[str, dict[str, str]] = {"partitionname": {}, "nodename": {}}
    unread: list[str] = []
    has_name = False
    for line in _logical_lines(text):
        if re.match(r"include\s", line, re.IGNORECASE):
            unread.append(line)
            settings, defaults = {}, {kind: {} for kind in defaults}
            continue
        kind, options = line.partition("=")[0].strip().lower(), _assigned(line)
        if kind not in found:
            settings |= options if kind not in _OTHER_LINES else {}
            has_name = has_name or "clustername" in settings
            continue
        name = options.pop(kind)
        if name.upper() == "DEFAULT":
            defaults[kind] |= options
        else:
            names = expand(name) if kind == "nodename" else (name,)
            found[kind] |= {one: Lines({**defaults[kind], **options}, unread) for one in names}
    if not has_name and not unread:
        raise ValueError("no ClusterName")
    return File(Lines(settings, unread), Lines(found["partitionname"], unread), Lines(found["nodename"], unread))


_OTHER_LINES: Final = frozenset({"downnodes", "frontendname", "nodeset", "switchname"})
"""Lines with options of their own, which are not compared: slurm.conf(5)."""
_ASSIGNMENT: Final = re.compile(r"\s*([\w.]+)\s*=\s*(\"[^\"]*\"|\S*)(?=\s|$)")
"""A name and its value: blanks around `=` and quotes are allowed (Slurm, parse_config.c)."""


def _assigned(line: str) -> dict[str, str]:
    """Return the values of a line by lower-case name: a line may have several. Raise ValueError for another line."""
    found: dict[str, str] = {}
    at = 0
    while at < len(line):
        one = _ASSIGNMENT.match(line, at)
        if not one:
            raise ValueError(f'"{quoted(line)}" cannot be read')
        found[_canonical(one[1])] = one[2].strip('"')
        at = one.end()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments. A line that ends with a backslash is joined with the next; a comment is not."""
    begun = ""
    for line in lines_of(text):
        kept = begun + re.sub(r"(?<!\\)#.*", "", line).rstrip()
        begun = kept.removesuffix("\\")
        if kept.strip() and begun == kept:
            yield kept.strip()
        if begun == kept:
            begun = ""
    if begun.strip():
        yield begun.strip()


def _canonical(name: str) -> str:
    return _ALIASES.get(name.lower(), name.lower())


def parse_options(text: str) -> Lines[dict[str, str]]:
    """Return options by lower-case name, by name of the partition or node, from `scontrol --oneliner show partitions` or `nodes`."""
    found = read_each_line(text, _options)
    if not found:
        raise ValueError("nothing is listed")
    return found


def _options(line: str) -> tuple[str, dict[str, str]] | None:
    options = {_canonical(name): value for name, value in fields(line.partition(" Reason=")[0]).items()}
    name = options.get("partitionname") or options.get("nodename")
    if not name:
        raise ValueError("neither a partition nor a node")
    return name, options


def require_every_line(found: Lines[dict[str, str]]) -> None:
    """Raise UndeterminedError if a line was not read, because its options were not compared."""
    if found.unread:
        raise UndeterminedError(f'a line cannot be read: "{quoted(found.unread[0])}"')


def partition_differences(file: File, found: Mapping[str, Mapping[str, str]]) -> Differences:
    """Return the options of partitions that differ from the file, found and declared. Partitions of one side only are not compared."""
    inherited = {name: _inherited(file, name, default) for name, default in _CLUSTER_WIDE.items()}
    return _differences(file.partitions, found, {**PARTITION_DEFAULTS, **inherited})


def _inherited(file: File, name: str, default: str) -> str | UnreadableValue:
    """Return the value of a setting of the cluster, which partitions without their own option have."""
    value = file.settings.at(name.lower())
    if isinstance(value, UnreadableValue):
        return NotIncludedValue(name, file.settings.unread[0])
    return default if value is None else value


def node_differences(file: File, found: Mapping[str, Mapping[str, str]]) -> Differences:
    """Return the options of nodes that differ from the file, found and declared. Dynamic nodes are not in the file and not compared."""
    return _differences(file.nodes, found, NODE_DEFAULTS)


def log_differences(file: File, found: Mapping[str, str]) -> Differences:
    """Return the log settings that differ from the file, found and declared."""
    return _differences(Lines({"log": file.settings}), {"log": {name.lower(): value for name, value in found.items()}}, LOG_DEFAULTS)


def _differences(
    declared: Lines[Lines[str]], found: Mapping[str, Mapping[str, str]], defaults: Mapping[str, str | UnreadableValue]
) -> Differences:
    live: dict[str, str | UnreadableValue] = {}
    wanted: dict[str, str] = {}
    for subject, options in found.items():
        own = declared.at(subject)
        if isinstance(own, UnreadableValue):
            live[subject] = NotIncludedValue(subject, declared.unread[0])
        elif own is not None:
            _compare_options(subject, own, options, defaults, live, wanted)
    return live, wanted


def _compare_options(
    subject: str,
    declared: Lines[str],
    found: Mapping[str, str],
    defaults: Mapping[str, str | UnreadableValue],
    live: dict[str, str | UnreadableValue],
    wanted: dict[str, str],
) -> None:
    """Add the options of a subject that differ, or that were not compared, to what is live, and what they should be to what is wanted."""
    for name, default in defaults.items():
        has, key, own = found.get(name.lower()), f"{subject} {name}", declared.at(name.lower())
        should = default if own is None else own
        if has is None:
            continue
        if isinstance(should, UnreadableValue):
            line = should.said if isinstance(should, NotIncludedValue) else declared.unread[0]
            live[key] = NotIncludedValue(key, line or "")
        elif not _same(name, has, should):
            live[key], wanted[key] = has, should


class NotIncludedValue(UnreadableValue):
    """A value that was not compared, because a file that slurm.conf includes may set it and was not read."""

    def __init__(self, subject: str, line: str) -> None:
        super().__init__(subject, line, "")
        self.why = f'{subject} is not compared: slurm.conf has the line "{quoted(line)}", whose file was not read'


def _same(name: str, one: str, other: str) -> bool:
    """Return whether two values are equivalent. Raise UndeterminedError for a value of another form."""
    form = _FORMS.get(name, str.upper)
    try:
        return form(one) == form(other)
    except ValueError as error:
        raise UndeterminedError(f"{name}: {error}") from None


def minutes(text: str) -> str:
    """Return a time limit in minutes, rounded up as Slurm does: slurm.conf(5), MaxTime.

    >>> [minutes(text) for text in ("90", "1:30:00", "0-01:30:00", "1-0", "INFINITE")]
    ['90', '90', '90', '1440', 'UNLIMITED']
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return "UNLIMITED"
    if text.upper() == "NONE":
        return "NONE"
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text):
        raise ValueError(f'"{text}" is not a time limit')
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minute, second = (*parts, 0, 0)[:3]
    else:
        hours, minute, second = {1: (0, *parts, 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
    return str((int(days or 0) * 24 + hours) * 60 + minute + (1 if second else 0))


def _count(text: str) -> str:
    return "UNLIMITED" if text.upper() in ("UNLIMITED", "INFINITE") else text


def _yes_or_no(text: str) -> str:
    """Return YES or NO for the words of parse_config.c (s_p_handle_boolean)."""
    words = {**dict.fromkeys(("YES", "UP", "TRUE", "1"), "YES"), **dict.fromkeys(("NO", "DOWN", "FALSE", "0"), "NO")}
    return words.get(text.upper(), text.upper())


def _level(text: str) -> str:
    return _LEVELS[int(text)] if text.isdigit() and int(text) < len(_LEVELS) else text.lower()


def _words(text: str) -> str:
    return ",".join(sorted(text.upper().split(",")))


_FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    **dict.fromkeys(("DefaultTime", "MaxTime"), minutes),
    **dict.fromkeys(("AllowAccounts", "AllowGroups", "AllowQos", "DebugFlags", "DenyAccounts", "DenyQos", "PreemptMode"), _words),
    **dict.fromkeys(("MaxCPUsPerNode", "MaxNodes"), _count),
    **dict.fromkeys(("DisableRootJobs", "ExclusiveUser", "Hidden", "ReqResv", "RootOnly"), _yes_or_no),
    "AllocNodes": lambda text: ",".join(expand(text)),
    "Features": lambda text: ",".join(sorted(text.split(","))),
    "GraceTime": lambda text: text.partition(" ")[0],
    "MinNodes": lambda text: "0" if text == "1" else text,
    "OverSubscribe": lambda text: f"{text}:4".upper() if text.upper() in ("YES", "FORCE") else text.upper(),
    "SlurmctldDebug": _level,
    "SlurmSchedLogLevel": _level,
}
"""Normal forms for the comparison of values: MinNodes 0 and 1 are equivalent, and OverSubscribe=YES is YES:4 (slurm.conf(5))."""

FILE = Probe("slurm-file", on="role_controller", command=python_command("slurm_conf", {"file": "/etc/slurm/slurm.conf"}), parse=parse_file)
PARTITION_OPTIONS = Probe(
    "slurm-partition-options", on="role_controller", command="scontrol --oneliner show partitions", parse=parse_options, needs=OF_CONTROLLER
)
NODE_OPTIONS = Probe(
    "slurm-node-options", on="role_controller", command="scontrol --oneliner show nodes", parse=parse_options, needs=OF_CONTROLLER
)
