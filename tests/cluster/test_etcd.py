"""etcd, where Kubernetes keeps all it knows, has its members, a leader and room."""

from __future__ import annotations

from cluster.probes.control import ETCD


def test_answers(ask, expect):
    """A read that a majority must agree on: below a majority nothing changes in the cluster any more."""
    expect(ask(ETCD).trouble or "answers", "answers")


def test_members_match_plan(etcd, cluster, expect):
    """A member that is gone and still counted takes the majority with it when the next one goes."""
    expect(dict.fromkeys(etcd.members, "member"), dict.fromkeys(cluster.scheduler.controllers, "member"))


def test_has_room(etcd, expect, limit):
    """At its quota it takes no more, and raises an alarm that stays until somebody lifts it."""
    share = 100 * etcd.bytes / (etcd.quota or 2 * 1024**3)
    expect(f"{share:.0f} % of its quota", f"at most {limit:g} %", holds=share <= limit)


def test_raises_no_alarm(etcd, expect):
    """NOSPACE makes the cluster read-only, CORRUPT says that members differ."""
    expect(etcd.alarms, ())


def test_refuses_strangers(etcd, expect):
    """Whoever reaches etcd without a certificate has all of Kubernetes, past every rule of who may do what."""
    expect(etcd.stranger, "refused")


def test_folder_is_roots(etcd, expect):
    """Its files are the cluster's whole contents."""
    owner, mode = etcd.data
    expect(f"user {owner}, mode {mode:o}", "user 0, mode 700", holds=owner == 0 and not mode & 0o077)
