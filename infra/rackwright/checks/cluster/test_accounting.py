"""Accounting runs, has the cluster and its users, and its database is local."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.probes.accounting import ASSOCIATIONS, CLUSTERS, LISTENING, QOS, SHARES, Account, Qos, only_local
from rackwright.checks.cluster.probes.units import ACCOUNTING, DATABASE, UNITS


def test_daemon_runs(ask: Ask, expect: Expect) -> None:
    """State of the daemon in systemd: while the daemon is down, the controller keeps the records of jobs in memory."""
    unit = ask(UNITS)[ACCOUNTING]
    expect(unit.described, "active", holds=unit.state == "active")


def test_database_runs(ask: Ask, expect: Expect) -> None:
    """Accounting stores all records in this database."""
    unit = ask(UNITS)[DATABASE]
    expect(unit.described, "active", holds=unit.state == "active")


def test_database_is_local(ask: Ask, expect: Expect) -> None:
    """The only client is on the same node: a network port adds attack surface and has no use."""
    listening = ask(LISTENING)
    expect(listening or "no network port", "local connections only", holds=only_local(listening))


def test_cluster_is_registered(ask: Ask, cluster: Record, expect: Expect) -> None:
    """Queried where users submit: jobs of a cluster that is not registered are not recorded."""
    found = [row[0] for row in ask(CLUSTERS)]
    expect(found, f"{cluster.scheduler.cluster_name} among them", holds=cluster.scheduler.cluster_name in found)


def test_users_have_associations(ask: Ask, cluster: Record, expect: Expect) -> None:
    """A user without an association cannot be limited, and cannot submit where associations are enforced."""
    name = cluster.scheduler.cluster_name
    found = {user for where, _, user in ask(ASSOCIATIONS) if where == name}
    planned = sorted(user.name for user in cluster.users)
    expect([user for user in planned if user in found], planned)


def test_accounts_match_plan(ask: Ask, cluster: Record, expect: Expect) -> None:
    """Slurm enforces the shares and limits that the accounting database holds."""
    found = ask(SHARES).accounts
    planned = {
        one.name: Account(one.parent, one.fairshare, one.gpus, one.running_jobs, frozenset(one.qos or ["normal"]), (one.qos or [""])[0])
        for one in cluster.scheduler.accounts
    }
    expect(_values({name: found[name] for name in planned if name in found}), _values(planned))


def test_users_are_in_their_accounts(ask: Ask, cluster: Record, expect: Expect) -> None:
    """A user in an additional account can bypass the limits of the planned one."""
    found, names = ask(SHARES).users, {user.name for user in cluster.users}
    homes = {name: sorted(account for account, users in found.items() if name in users) for name in sorted(names)}
    planned = {name: sorted(one.name for one in cluster.scheduler.accounts if name in one.users) or ["default"] for name in sorted(names)}
    expect(homes, planned)


def test_qos_match_plan(ask: Ask, cluster: Record, expect: Expect) -> None:
    """A QOS without its limit lets every user jump the queue."""
    found = ask(QOS)
    planned = {one.name: _planned_qos(one) for one in cluster.scheduler.qos}
    expect(_values({name: found[name] for name in planned if name in found}), _values(planned))


def _planned_qos(one: Record) -> Qos:
    """Return a planned QOS as the accounting database holds it; sacctmgr prints six digits of a factor."""
    return Qos(
        priority=one.priority,
        gpus=one.gpus,
        running_jobs=one.running_jobs,
        gpus_per_job=one.gpus_per_job,
        gpus_per_user=one.gpus_per_user,
        running_jobs_per_user=one.running_jobs_per_user,
        max_time_s=minutes(one.max_time_s),
        preempts=frozenset(one.preempts),
        grace_time_s=one.grace_time_s or None,
        usage_factor=round(one.usage_factor, 6),
        flags=frozenset(one.flags),
    )


def _values(records: Mapping[str, Account | Qos]) -> dict[str, Any]:
    """Return the values of records by `name field`, so that each is compared alone."""
    return {f"{name} {field.name}": getattr(one, field.name) for name, one in records.items() for field in fields(one)}


def minutes(seconds: int | None) -> int | None:
    """Return the time limit of a job in seconds, rounded as Slurm does to whole minutes."""
    return None if seconds is None else -(-seconds // 60) * 60
