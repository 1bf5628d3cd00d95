"""Probes of Slurm's accounting: registered clusters, accounts and limits, and the addresses of its database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import Row, UnreadableValue, integer, lines_of, quoted


def parse_table(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of `sacctmgr --parsable2` without the titles. An output without titles is not a table, even an empty one.

    >>> parse_table("Cluster|ControlHost\\nlab|10.77.0.16\\n"), parse_table("Cluster|ControlHost\\n")
    ((('lab', '10.77.0.16'),), ())
    """
    titles, *rows = [tuple(line.split("|")) for line in lines_of(text) if "|" in line] or [()]
    if not titles:
        raise ValueError("no titles")
    if odd := [row for row in rows if len(row) != len(titles)]:
        raise ValueError(f'rows differ in length: "{quoted("|".join(odd[0]))}"')
    return tuple(rows)


SERVERS: Final = ("munge.service", "slurmdbd.service", "mariadb.service")
"""Units that sacctmgr needs, on the node with the database."""
CLUSTERS = Probe(
    "accounting-clusters",
    on="@submit",
    command="sacctmgr --parsable2 show cluster format=cluster,controlhost,controlport",
    parse=parse_table,
    needs=SERVERS,
)
ASSOCIATIONS = Probe(
    "accounting-associations",
    on="role_accounting",
    command="sacctmgr --parsable2 show associations format=cluster,account,user",
    parse=parse_table,
    needs=SERVERS,
)


@dataclass(frozen=True)
class Account:
    """An account of the accounting database; None means no limit, and UnreadableValue a value that was not read."""

    parent: str
    fairshare: int | str | UnreadableValue
    """Shares; `parent` where the members share with those of the parent (sacctmgr(1), Fairshare)."""
    gpus: int | UnreadableValue | None
    running_jobs: int | UnreadableValue | None
    qos: frozenset[str]
    """Qualities of service that a job of the account may request."""
    by_default: str
    """Quality of service of jobs that request none; empty where Slurm's default applies."""


@dataclass(frozen=True)
class Shares:
    """Accounts by name, and their users."""

    accounts: dict[str, Account]
    users: dict[str, frozenset[str]]


def parse_shares(text: str) -> Shares:
    """Return the associations of one cluster from lines `account|user|parent|share|limits|jobs|qos|default qos`."""
    accounts: dict[str, Account] = {}
    users: dict[str, set[str]] = {}
    for cells in parse_table(text):
        name, user, parent, _, _, _, qos, default = cells
        if user:
            users.setdefault(name, set()).add(user)
        else:
            row = _row(name, ("Fairshare", "GrpTRES", "GrpJobs"), cells[3:6], cells)
            limits = row.read("Fairshare", _share), row.read("GrpTRES", gpus_of), row.read("GrpJobs", number)
            accounts[name] = Account(parent, *limits, frozenset(filter(None, qos.split(","))), default)
    if "root" not in accounts:
        raise ValueError("no account root")
    return Shares(accounts, {name: frozenset(found) for name, found in users.items()})


def _row(subject: str, names: tuple[str, ...], values: tuple[str, ...], cells: tuple[str, ...]) -> Row:
    return Row(subject, dict(zip(names, values, strict=True)), "|".join(cells))


def _share(text: str) -> int | str:
    return "parent" if text.strip().lower() == "parent" else integer(text)


def gpus_of(tres: str) -> int | None:
    """Return the limit on GPUs in a list of limits.

    >>> gpus_of("cpu=4,gres/gpu=16"), gpus_of("cpu=4")
    (16, None)
    """
    limits = dict(part.split("=", 1) for part in tres.strip().split(",") if part)
    return number(limits.get("gres/gpu", ""))


def number(text: str) -> int | None:
    """Return a number, or None for an empty text and for the words of no limit."""
    return None if _is_unlimited(text) else integer(text)


def _is_unlimited(text: str) -> bool:
    return text.strip().upper() in ("", "UNLIMITED", "INFINITE")


SHARES = Probe(
    "accounting-shares",
    on="role_accounting",
    command=lambda context: (
        "sacctmgr --parsable2 show associations"
        f" where cluster={context.declared.cluster['scheduler']['cluster_name']}"
        " format=account,user,parentname,fairshare,grptres,grpjobs,qos,defaultqos"
    ),
    parse=parse_shares,
    needs=SERVERS,
)


@dataclass(frozen=True)
class Qos:
    """A quality of service of the accounting database; None means no limit, and UnreadableValue a value that was not read."""

    priority: int | UnreadableValue
    gpus: int | UnreadableValue | None
    running_jobs: int | UnreadableValue | None
    gpus_per_job: int | UnreadableValue | None
    gpus_per_user: int | UnreadableValue | None
    running_jobs_per_user: int | UnreadableValue | None
    max_time_s: int | UnreadableValue | None
    preempts: frozenset[str]
    grace_time_s: int | UnreadableValue | None
    """Seconds between the signal and the end of a preempted job; None for none."""
    usage_factor: float | UnreadableValue
    flags: frozenset[str]


_QOS_COLUMNS: Final = (
    *("Name", "Priority", "GrpTRES", "GrpJobs", "MaxTRES", "MaxTRESPU", "MaxJobsPU", "MaxWall"),
    *("Preempt", "GraceTime", "UsageFactor", "Flags"),
)


def parse_qos(text: str) -> dict[str, Qos]:
    """Return qualities of service by name from a table with the columns above."""
    found = dict(_qos(cells) for cells in parse_table(text))
    if not found:
        raise ValueError("no QOS")
    return found


def _qos(cells: tuple[str, ...]) -> tuple[str, Qos]:
    name = cells[0]
    row = _row(name, _QOS_COLUMNS, cells, cells)
    return name, Qos(
        priority=row.read("Priority", integer),
        gpus=row.read("GrpTRES", gpus_of),
        running_jobs=row.read("GrpJobs", number),
        gpus_per_job=row.read("MaxTRES", gpus_of),
        gpus_per_user=row.read("MaxTRESPU", gpus_of),
        running_jobs_per_user=row.read("MaxJobsPU", number),
        max_time_s=row.read("MaxWall", seconds),
        preempts=_names(row.cells["Preempt"]),
        grace_time_s=row.read("GraceTime", lambda shown: seconds(shown) or None),
        usage_factor=row.read("UsageFactor", float),
        flags=_names(row.cells["Flags"]),
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def seconds(shown: str) -> int | None:
    """Return the seconds of a time as sacctmgr prints it.

    >>> seconds("1-02:00:00"), seconds("")
    (93600, None)
    """
    if _is_unlimited(shown):
        return None
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", shown.strip())
    if not found:
        raise ValueError(f'"{shown}" is not a time')
    days, hours, minutes, last = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + last


QOS = Probe(
    "accounting-qos",
    on="role_accounting",
    command=f"sacctmgr --parsable2 show qos format={','.join(_QOS_COLUMNS).lower()}",
    parse=parse_qos,
    needs=SERVERS,
)


def parse_listening(text: str) -> tuple[str, ...]:
    """Return the listening addresses from `ss` filtered by port, below its titles; `*` stands for all addresses."""
    found = []
    titles, *lines = lines_of(text) or [""]
    if not titles.startswith("State"):
        raise ValueError("no titles")
    for line in lines:
        state, _, _, local, *_ = line.split()
        if state != "LISTEN":
            raise ValueError(f"not a listening socket: {line}")
        address = local.rpartition(":")[0].strip("[]").partition("%")[0]
        found.append(address)
    return tuple(sorted(set(found)))


def only_local(addresses: tuple[str, ...]) -> bool:
    """Return whether only this node can connect; True where nothing listens, because a local database may use a socket file.

    >>> only_local(("127.0.0.1", "::1", "::ffff:127.0.0.1")), only_local(("0.0.0.0",)), only_local(("*",))
    (True, False, False)
    """
    return all(address != "*" and _is_loopback(address) for address in addresses)


def _is_loopback(text: str) -> bool:
    """Return whether an address is a loopback address, also as an IPv6 address that holds one of IPv4 (RFC 4291, 2.5.5.2)."""
    address = ip_address(text)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


DATABASE_PORT = 3306
"""TCP port of MariaDB: its default, https://mariadb.com/kb/en/server-system-variables/#port."""
LISTENING = Probe(
    "database-listening",
    on="role_accounting",
    command=f"ss --listening --tcp --numeric 'sport = :{DATABASE_PORT}'",
    parse=parse_listening,
)
