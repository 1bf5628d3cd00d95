"""Slurm's accounting: what is registered, and who can reach its database."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe


def parse_table(text: str) -> tuple[tuple[str, ...], ...]:
    """`sacctmgr --parsable2`: fields of each row below the titles. A table without titles is none, however empty it may be.

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
    """An account as the accounting has it; None is no limit."""

    parent: str
    fairshare: int
    gpus: int | None
    running_jobs: int | None
    qos: frozenset[str]
    """What it may ask for."""
    by_default: str
    """What its jobs get that ask for none; empty where that is Slurm's own."""


@dataclass(frozen=True)
class Shares:
    """Accounts by name, and their users."""

    accounts: dict[str, Account]
    users: dict[str, frozenset[str]]


def parse_shares(text: str) -> Shares:
    """Associations of one cluster: account|user|parent|share|limits|jobs|qos|default qos."""
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
    """The limit on GPUs in a list of limits.

    >>> gpus_of("cpu=4,gres/gpu=16"), gpus_of("cpu=4")
    (16, None)
    """
    limits = dict(part.split("=") for part in tres.split(",") if part)
    return number(limits.get("gres/gpu", ""))


def number(text: str) -> int | None:
    """A number, or None for none."""
    return int(text) if text else None


SHARES = Probe(
    "accounting-shares",
    on="role_accounting",
    command=lambda place: (
        "sacctmgr --parsable2 show associations"
        f" where cluster={place.declared.cluster['scheduler']['cluster_name']}"
        " format=account,user,parentname,fairshare,grptres,grpjobs,qos,defaultqos"
    ),
    parse=parse_shares,
    needs=SERVERS,
)


@dataclass(frozen=True)
class Qos:
    """A quality of service as the accounting has it; None is no limit."""

    priority: int
    gpus_per_user: int | None
    running_jobs_per_user: int | None
    max_time_s: int | None
    preempts: frozenset[str]


def parse_qos(text: str) -> dict[str, Qos]:
    """Lines name|priority|limits of a user|jobs of a user|longest job|what it preempts."""
    found = {
        name: Qos(int(priority), gpus_of(tres), number(jobs), seconds(wall), frozenset(filter(None, preempts.split(","))))
        for name, priority, tres, jobs, wall, preempts in parse_table(text)
    }
    if not found:
        raise ValueError("no QOS")
    return found


def seconds(shown: str) -> int | None:
    """A time as sacctmgr shows it.

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
    """Addresses on which something listens, from `ss` filtered by port, below its titles; `*` stands for all of them."""
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
    """Whether nothing but this node itself can connect; true where nothing listens at all, as a socket file does for a local database.

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
