"""Accounting is up, knows the cluster and its users, and keeps its database to itself."""

from __future__ import annotations

from cluster.probes.accounting import ASSOCIATIONS, CLUSTERS, LISTENING, only_local
from cluster.probes.units import ACCOUNTING, DATABASE, UNITS


def test_daemon_runs(ask, expect):
    """The daemon, as systemd sees it: while it is away, the controller keeps jobs' records in memory."""
    unit = ask(UNITS)[ACCOUNTING]
    expect(unit.described, "active", holds=unit.state == "active")


def test_database_runs(ask, expect):
    """The database below it."""
    unit = ask(UNITS)[DATABASE]
    expect(unit.described, "active", holds=unit.state == "active")


def test_database_is_local(ask, expect):
    """Its only client is on the same node: a port to the network is an attack without a use."""
    listening = ask(LISTENING)
    expect(listening or "no network port", "this node alone", holds=only_local(listening))


def test_cluster_is_registered(ask, cluster, expect):
    """Asked where users ask: jobs of a cluster that accounting does not know are not recorded."""
    found = [row[0] for row in ask(CLUSTERS)]
    expect(found, f"{cluster.scheduler.cluster_name} among them", holds=cluster.scheduler.cluster_name in found)


def test_users_have_associations(ask, cluster, expect):
    """A user without one cannot be limited, and cannot submit where associations are enforced."""
    name = cluster.scheduler.cluster_name
    found = {user for where, _, user in ask(ASSOCIATIONS) if where == name}
    planned = sorted(user.name for user in cluster.users)
    expect([user for user in planned if user in found], planned)
