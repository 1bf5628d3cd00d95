"""Slurm's accounting: what is registered, and who can reach its database."""

from __future__ import annotations

from ipaddress import ip_address

from cluster.harness.probe import Probe


def parse_table(text: str) -> tuple[tuple[str, ...], ...]:
    """`sacctmgr --noheader --parsable2`: fields of each row."""
    rows = tuple(tuple(line.split("|")) for line in text.splitlines() if "|" in line)
    if len({len(row) for row in rows}) > 1:
        raise ValueError("rows of different length")
    return rows


CLUSTERS = Probe(
    "accounting-clusters",
    on="@submit",
    command="sacctmgr --noheader --parsable2 show cluster format=cluster,controlhost,controlport",
    parse=parse_table,
)
ASSOCIATIONS = Probe(
    "accounting-associations",
    on="role_accounting",
    command="sacctmgr --noheader --parsable2 show associations format=cluster,account,user",
    parse=parse_table,
)


def parse_listening(text: str) -> tuple[str, ...]:
    """Addresses on which something listens, from `ss` filtered by port; `*` stands for all of them."""
    found = []
    for line in text.splitlines():
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
LISTENING = Probe(
    "database-listening",
    on="role_accounting",
    command=f"ss --no-header --listening --tcp --numeric 'sport = :{DATABASE_PORT}'",
    parse=parse_listening,
)
