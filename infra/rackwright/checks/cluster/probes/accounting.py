"""Probes of Slurm's accounting: registered clusters, accounts and limits, and the addresses of its database."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe


def parse_table(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of `sacctmgr --parsable2` without the titles. An output without titles is not a table, even an empty one.

    >>> parse_table("Cluster|ControlHost\\nlab|10.77.0.16\\n"), parse_table("Cluster|ControlHost\\n")
    ((('lab', '10.77.0.16'),), ())
    """
    titles, *rows = [tuple(line.split("|")) for line in text.splitlines() if "|" in line] or [()]
    if not titles or any(len(row) != len(titles) for row in rows):
        raise ValueError("rows differ in length" if titles else "no titles")
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
    """An account of the accounting database; None means no limit."""

    parent: str
    fairshare: int
    gpus: int | None
    running_jobs: int | None
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
    for name, user, parent, share, tres, jobs, qos, default in parse_table(text):
        if user:
            users.setdefault(name, set()).add(user)
        else:
            accounts[name] = Account(parent, int(share), gpus_of(tres), number(jobs), frozenset(filter(None, qos.split(","))), default)
    if "root" not in accounts:
        raise ValueError("no account root")
    return Shares(accounts, {name: frozenset(found) for name, found in users.items()})


def gpus_of(tres: str) -> int | None:
    """Return the limit on GPUs in a list of limits.

    >>> gpus_of("cpu=4,gres/gpu=16"), gpus_of("cpu=4")
    (16, None)
    """
    limits = dict(part.split("=") for part in tres.split(",") if part)
    return number(limits.get("gres/gpu", ""))


def number(text: str) -> int | None:
    """Return a number, or None for an empty text."""
    return int(text) if text else None


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
    """A quality of service of the accounting database; None means no limit."""

    priority: int
    gpus_per_user: int | None
    running_jobs_per_user: int | None
    max_time_s: int | None
    preempts: frozenset[str]


def parse_qos(text: str) -> dict[str, Qos]:
    """Return qualities of service by name from lines `name|priority|limits of a user|jobs of a user|longest job|what it preempts`."""
    found = {
        name: Qos(int(priority), gpus_of(tres), number(jobs), seconds(wall), frozenset(filter(None, preempts.split(","))))
        for name, priority, tres, jobs, wall, preempts in parse_table(text)
    }
    if not found:
        raise ValueError("no QOS")
    return found


def seconds(shown: str) -> int | None:
    """Return the seconds of a time as sacctmgr prints it.

    >>> seconds("1-02:00:00"), seconds("")
    (93600, None)
    """
    if not shown:
        return None
    days, _, rest = shown.rpartition("-")
    hours, minutes, last = (int(part) for part in rest.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + last


QOS = Probe(
    "accounting-qos",
    on="role_accounting",
    command="sacctmgr --parsable2 show qos format=name,priority,maxtrespu,maxjobspu,maxwall,preempt",
    parse=parse_qos,
    needs=SERVERS,
)


def parse_listening(text: str) -> tuple[str, ...]:
    """Return the listening addresses from `ss` filtered by port, below its titles; `*` stands for all addresses."""
    found = []
    titles, *lines = text.splitlines() or [""]
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

    >>> only_local(("127.0.0.1", "::1")), only_local(("0.0.0.0",)), only_local(("*",))
    (True, False, False)
    """
    return all(address != "*" and ip_address(address).is_loopback for address in addresses)


DATABASE_PORT = 3306
"""TCP port of MariaDB: its default, https://mariadb.com/kb/en/server-system-variables/#port."""
LISTENING = Probe(
    "database-listening",
    on="role_accounting",
    command=f"ss --listening --tcp --numeric 'sport = :{DATABASE_PORT}'",
    parse=parse_listening,
)
