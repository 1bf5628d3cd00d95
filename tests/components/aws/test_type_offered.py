"""`up` and a preview refuse an instance type that the zone does not have, before the first resource exists. moto plays AWS."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pytest

from rackwright import targets
from rackwright.drivers.aws.account import Account
from rackwright.inventory import applied, paths
from rackwright.model import Cluster
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster
from rackwright.targets import program
from rackwright.targets.aws.offerings import require_offered


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory in which nothing was applied."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Warnings of the program."""
    found: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", found.append)
    return found


def cluster(zone: str, workers: int = 2, type_: str = "g5.xlarge") -> Cluster:
    """A login node and some workers."""
    described = {
        "target": {
            "kind": "aws",
            "region": "us-east-1",
            "zone": zone,
            "image": {"id": "ami-0123456789abcdef0"},
            "instances": {"login": {"type": "p5.48xlarge"}, "worker": {"type": type_}},
        },
        "network": {"cidr": "10.90.0.0/22"},
        "groups": {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": workers}},
    }
    loaded = load_cluster(described)
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def plan(zone: str, workers: int = 2, type_: str = "g5.xlarge") -> Plan:
    """Their plan."""
    return expand(cluster(zone, workers, type_), "mine")


def apply(described: Cluster) -> None:
    """Record a cluster as applied."""
    file = paths.applied("mine")
    file.parent.mkdir(parents=True, exist_ok=True)
    record = applied.document(applied.serialize_cluster(described), program.serialize_plan(expand(described, "mine")), converged=True)
    file.write_text(json.dumps(record))


def test_type_that_the_zone_lacks_names_other_zones(account: Account, warned: list[str]) -> None:
    """us-east-1e sells p5.48xlarge and no g5.xlarge (moto's copy of DescribeInstanceTypeOfferings)."""
    with pytest.raises(pulumi.RunError) as refused:
        require_offered(plan("us-east-1e"))
    assert str(refused.value) == (
        "stacks/Pulumi.mine.yaml: 1 finding(s)\n"
        "target.instances.worker.type: g5.xlarge is not offered in us-east-1e\n"
        "  offered in us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f"
    )
    assert warned == []


def test_types_that_the_zone_has_are_accepted(account: Account, warned: list[str]) -> None:
    require_offered(plan("us-east-1a"))
    assert warned == []


def test_group_without_nodes_is_not_asked_for(account: Account) -> None:
    require_offered(plan("us-east-1e", workers=0))


def test_existing_instances_are_not_asked_for(account: Account) -> None:
    """A zone that sells a type no longer must not stop the stack that has it; a third node and another type are new."""
    apply(cluster("us-east-1e"))
    require_offered(plan("us-east-1e"))
    with pytest.raises(pulumi.RunError, match=r"g5\.xlarge is not offered"):
        require_offered(plan("us-east-1e", workers=3))
    with pytest.raises(pulumi.RunError, match=r"g5\.2xlarge is not offered"):
        require_offered(plan("us-east-1e", type_="g5.2xlarge"))


def test_record_that_cannot_be_read_counts_as_none(account: Account) -> None:
    apply(cluster("us-east-1e"))
    paths.applied("mine").write_text("{}")
    with pytest.raises(pulumi.RunError, match=r"g5\.xlarge is not offered"):
        require_offered(plan("us-east-1e"))


def test_without_credentials_the_question_is_a_warning(no_account: None, warned: list[str]) -> None:
    require_offered(plan("us-east-1e"))
    (words,) = warned
    assert words.startswith("target.zone: the zones that offer these types are unknown: g5.xlarge, p5.48xlarge: ")
    assert "Unable to locate credentials" in words


def test_zone_id_is_refused_with_the_look_up() -> None:
    """Only the account can translate it."""
    for zone in ("use1-az1", "usw2-lax1-az1", "apne1-az4"):
        loaded = load_cluster({"target": {"kind": "aws", "region": "us-east-1", "zone": zone}})
        (found,) = [one for one in loaded.findings if one.path == "target.zone"]
        assert f"`{zone}` is a zone ID" in found.cause and "describe-availability-zones" in found.hint


def test_target_refuses_before_its_first_resource(account: Account) -> None:
    """Outside of Pulumi's engine any resource would raise another error."""
    with pytest.raises(pulumi.RunError, match=r"g5\.xlarge is not offered"):
        targets.target("aws").build(plan("us-east-1e"), "ssh-ed25519 AAAA")
