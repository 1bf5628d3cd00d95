"""etcd, the store of all Kubernetes objects, has its members, a leader and free space."""

from __future__ import annotations

from rackwright.catalog.kubernetes import etcd as release_of_etcd
from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.control import ETCD, Etcd
from rackwright.errors import UndeterminedError


def test_answers(ask: Ask, expect: Expect) -> None:
    """The read needs the agreement of a majority: without a majority nothing in the cluster can change."""
    trouble = ask(ETCD).error
    expect(trouble if isinstance(trouble, UnreadableValue) or trouble else "answers", "answers")


def test_members_match_plan(etcd: Etcd, cluster: Record, expect: Expect) -> None:
    """A lost member that is still counted costs the majority when the next member fails; a learner does not vote."""
    found = {name: "learner" if is_learner else "member" for name, (_, is_learner) in (etcd.members or {}).items()}
    expect(found, dict.fromkeys(cluster.scheduler.controllers, "member"))


def test_version_matches_release(etcd: Etcd, cluster: Record, expect: Expect) -> None:
    """Members of one release: after an upgrade that stopped half-way, the older ones keep all of them at the older features and format."""
    planned = release_of_etcd(cluster.scheduler.version)
    if planned is None:
        raise UndeterminedError(f"the release of etcd for Kubernetes {cluster.scheduler.version} is not in the catalogue")
    expect(etcd.version, planned)


def test_database_has_space(etcd: Etcd, expect: Expect, limit: float) -> None:
    """At its quota etcd refuses writes, and raises an alarm that an administrator must disarm."""
    share = 100 * etcd.bytes / (etcd.quota or 2 * 1024**3)
    expect(f"{share:.0f} % of its quota", f"at most {limit:g} %", holds=share <= limit)


def test_no_alarms(etcd: Etcd, expect: Expect) -> None:
    """NOSPACE makes the cluster read-only; CORRUPT means that members differ."""
    expect(etcd.alarms, ())


def test_unauthenticated_clients_refused(etcd: Etcd, expect: Expect) -> None:
    """A client that reaches etcd without a certificate bypasses all of Kubernetes' access control."""
    expect(etcd.unauthenticated, "refused")


def test_data_dir_permissions(etcd: Etcd, expect: Expect) -> None:
    """The files contain all data of the cluster."""
    owner, mode = etcd.data
    expect(f"user {owner}, mode {mode:o}", "user 0, mode 700", holds=owner == 0 and not mode & 0o077)
