"""Accounting is up, knows the cluster and its users, and keeps its database to itself."""

from __future__ import annotations

from cluster.probes.accounting import ASSOCIATIONS, CLUSTERS, LISTENING, QOS, SHARES, Account, Qos, only_local
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


def test_accounts_match_plan(ask, cluster, expect):
    """Shares and limits are kept by what the accounting has, not by what was agreed."""
    found = ask(SHARES).accounts
    planned = {
        one.name: Account(one.parent, one.fairshare, one.gpus, one.running_jobs, frozenset(one.qos or ["normal"]), (one.qos or [""])[0])
        for one in cluster.scheduler.accounts
    }
    expect({name: found.get(name, "missing") for name in planned}, planned)


def test_users_are_in_their_accounts(ask, cluster, expect):
    """Who is in one account too many has a way around the limits of the other."""
    found, names = ask(SHARES).users, {user.name for user in cluster.users}
    homes = {name: sorted(account for account, users in found.items() if name in users) for name in sorted(names)}
    planned = {name: sorted(one.name for one in cluster.scheduler.accounts if name in one.users) or ["default"] for name in sorted(names)}
    expect(homes, planned)


def test_qos_match_plan(ask, cluster, expect):
    """A quality of service without its limit is a way to the head of the queue for everybody."""
    found = ask(QOS)
    planned = {
        one.name: Qos(one.priority, one.gpus_per_user, one.running_jobs_per_user, minutes(one.max_time_s), frozenset(one.preempts))
        for one in cluster.scheduler.qos
    }
    expect({name: found.get(name, "missing") for name in planned}, planned)


def minutes(seconds):
    """The longest job, which Slurm counts in whole minutes, in seconds."""
    return None if seconds is None else -(-seconds // 60) * 60
