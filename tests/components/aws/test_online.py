"""`rackwright validate --online`: the AWS account's findings on a stack.

moto replaces AWS where it can; elsewhere there are responses that botocore's own model accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from rackwright.catalog.instances import instance_types
from rackwright.drivers.aws import account_checks
from rackwright.drivers.aws.account import Account, AwsAccessDeniedError
from rackwright.model import Cluster, Finding, Severity
from rackwright.model.targets.aws import Image
from rackwright.stackfile.load import load_cluster

NOW = datetime(2026, 12, 1, tzinfo=UTC)
_AMI, _RESERVATION = "ami-0123456789abcdef0", "cr-0123456789abcdef0"
_STANDARD, _G = "L-1216C47A", "L-DB2E81BA"


def cluster(**worker: Any) -> Cluster:
    """Return a login node and three workers with a GPU each."""
    described = {
        "target": {
            "kind": "aws",
            "region": "us-east-1",
            "zone": "us-east-1a",
            "image": {"id": _AMI},
            "instances": {"login": {"type": "t3.medium"}, "worker": {"type": "g5.xlarge", **worker}},
        },
        "network": {"cidr": "10.90.0.0/22"},
        "groups": {"login": {"count": 1, "roles": ["login", "controller", "accounting"]}, "worker": {"count": 3}},
        "storage": {"fsx": {"kind": "fsx-lustre", "mount": "/fsx", "size": "2400GiB"}},
    }
    loaded = load_cluster(described)
    assert loaded.cluster is not None, loaded.findings
    return loaded.cluster


def at(account: Account, described: Cluster) -> account_checks.AccountCheckContext:
    """Return the context of the checks on a cluster."""
    assert described.target.kind == "aws"
    return account_checks.AccountCheckContext(account, described, described.target, "mine", NOW)


@pytest.fixture(scope="module")
def clients() -> Account:
    """Return one account for all tests with stubbed responses: creating clients takes long."""
    made = Account("us-east-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        for service in ("ec2", "service-quotas", "sts"):
            made.client(service)
    return made


@pytest.fixture
def told(clients: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """Return an account with the responses of `answers` only: a call without a response fails."""
    return clients


@pytest.fixture
def answers(told: Account) -> Iterator[Callable[..., Stubber]]:
    """Yield a function that adds responses of one service, in order; all must be used."""
    stubs: list[Stubber] = []

    def add(service: str, call: str, answer: Any, **expected: Any) -> Stubber:
        stub = next((each for each in stubs if each.client is told.client(service)), None)
        if stub is None:
            stub = Stubber(told.client(service))
            stub.activate()
            stubs.append(stub)
        if isinstance(answer, str):
            stub.add_client_error(call, answer, "no", expected_params=expected or None)
        else:
            stub.add_response(call, answer, expected or None)
        return stub

    yield add
    for stub in stubs:
        stub.assert_no_pending_responses()
        stub.deactivate()


def summaries(findings: Iterator[Finding]) -> list[tuple[str, str, str]]:
    """Return level, path and cause of each finding; every one has a hint."""
    found = list(findings)
    assert all(each.hint for each in found)
    return [(each.level.value, each.path, each.cause) for each in found]


# Offers


def test_offered_type_gives_no_finding(account: Account) -> None:
    assert summaries(account_checks.offers(at(account, cluster()))) == []


def test_type_of_other_zone_is_error_with_zone(told: Account, answers: Callable[..., Stubber]) -> None:
    offered = [
        {"InstanceType": "t3.medium", "LocationType": "availability-zone", "Location": "us-east-1a"},
        {"InstanceType": "g5.xlarge", "LocationType": "availability-zone", "Location": "us-east-1c"},
    ]
    answers("ec2", "describe_instance_type_offerings", {"InstanceTypeOfferings": offered})
    (found,) = account_checks.offers(at(told, cluster()))
    assert (found.level, found.path, found.hint) == (Severity.ERROR, "target.instances.worker.type", "offered in us-east-1c")


def test_type_without_zone_is_error(told: Account, answers: Callable[..., Stubber]) -> None:
    answers("ec2", "describe_instance_type_offerings", {"InstanceTypeOfferings": []})
    assert [found.hint for found in account_checks.offers(at(told, cluster()))] == [
        "no zone of us-east-1 offers it: choose another region or type"
    ] * 2


# Quotas


def create_instances(answers: Callable[..., Stubber], *instances: dict[str, Any]) -> None:
    """Create running instances in the account."""
    answers("ec2", "describe_instances", {"Reservations": [{"Instances": list(instances)}]})


def set_quota(answers: Callable[..., Stubber], code: str, vcpus: int) -> None:
    """Set a quota's value."""
    answers("service-quotas", "get_service_quota", {"Quota": {"Value": float(vcpus)}}, ServiceCode="ec2", QuotaCode=code)


def test_sufficient_quota_gives_no_finding(told: Account, answers: Callable[..., Stubber]) -> None:
    """Two vCPUs of a t3.medium and four of each of three g5.xlarge exhaust the quota exactly."""
    create_instances(answers)
    set_quota(answers, _STANDARD, 2)
    set_quota(answers, _G, 12)
    assert summaries(account_checks.vcpus(at(told, cluster()))) == []


def test_exceeded_quota_is_error_with_code(told: Account, answers: Callable[..., Stubber]) -> None:
    create_instances(answers)
    set_quota(answers, _STANDARD, 2)
    set_quota(answers, _G, 11)
    (found,) = account_checks.vcpus(at(told, cluster()))
    assert (found.level, found.path) == (Severity.ERROR, "target.instances.worker")
    assert f"12 vCPUs are needed and 0 are in use, of 11 that quota {_G} allows" in found.cause
    assert f"--quota-code {_G} --desired-value 12`" in found.hint


def test_quota_counts_other_running_instances(told: Account, answers: Callable[..., Stubber]) -> None:
    """A second `validate --online` of a stack that is up has the same result; spot and capacity blocks count elsewhere."""
    mine = {"InstanceType": "g5.xlarge", "Tags": [{"Key": "rackwright.stack", "Value": "mine"}]}
    other, spot = {"InstanceType": "g5.2xlarge"}, {"InstanceType": "g5.2xlarge", "InstanceLifecycle": "spot"}
    create_instances(answers, mine, mine, mine, other, spot, {"InstanceType": "p5.48xlarge", "InstanceLifecycle": "capacity-block"})
    set_quota(answers, _STANDARD, 2)
    set_quota(answers, _G, 19)
    assert instance_types()["g5.2xlarge"].cpus == 8
    (found,) = account_checks.vcpus(at(told, cluster()))
    assert "12 vCPUs are needed and 8 are in use, of 19" in found.cause


def test_spot_uses_its_own_quota(told: Account, answers: Callable[..., Stubber]) -> None:
    create_instances(answers)
    set_quota(answers, _STANDARD, 2)
    set_quota(answers, "L-3819A6DF", 0)
    (found,) = account_checks.vcpus(at(told, cluster(capacity_type={"kind": "spot"})))
    assert "L-3819A6DF" in found.cause


def test_capacity_block_uses_no_quota(told: Account, answers: Callable[..., Stubber]) -> None:
    create_instances(answers)
    set_quota(answers, _STANDARD, 2)
    block = {"kind": "capacity-block", "reservation": _RESERVATION}
    assert summaries(account_checks.vcpus(at(told, cluster(type="p5.48xlarge", capacity_type=block)))) == []


def test_unknown_quota_is_reported(told: Account, answers: Callable[..., Stubber]) -> None:
    create_instances(answers)
    set_quota(answers, _STANDARD, 2)
    (found,) = account_checks.vcpus(at(told, cluster(type="p6-b200.48xlarge", capacity_type={"kind": "spot"})))
    assert found.level is Severity.WARNING and found.cause.startswith("not checked: no spot quota")


# Images


def image(answers: Callable[..., Stubber], **more: Any) -> None:
    """Set the response for the one image."""
    described = {"ImageId": _AMI, "State": "available", "Architecture": "x86_64", **more}
    answers("ec2", "describe_images", {"Images": [described]}, ImageIds=[_AMI], IncludeDeprecated=True)


def test_matching_image_gives_no_finding(told: Account, answers: Callable[..., Stubber]) -> None:
    image(answers, DeprecationTime="2027-01-01T00:00:00.000Z")
    assert summaries(account_checks.images(at(told, cluster()))) == []


@pytest.mark.parametrize(
    ("described", "level", "cause"),
    [
        ({"State": "pending"}, "error", f"{_AMI} is pending, not available"),
        ({"Architecture": "arm64"}, "error", f"{_AMI} is of arm64, but its instances run x86_64"),
        ({"DeprecationTime": "2026-11-30T00:00:00.000Z"}, "warning", f"{_AMI} is deprecated since 2026-11-30"),
    ],
)
def test_mismatched_image_is_error(
    told: Account, answers: Callable[..., Stubber], described: dict[str, str], level: str, cause: str
) -> None:
    image(answers, **described)
    assert summaries(account_checks.images(at(told, cluster()))) == [(level, "target.image", cause)]


def test_missing_image_is_error(account: Account) -> None:
    """moto refuses an unknown id as AWS does."""
    (found,) = account_checks.images(at(account, cluster()))
    assert (found.level, found.cause) == (Severity.ERROR, f"{_AMI} does not exist in us-east-1, or this account may not use it")


def test_unpinned_image_is_undetermined(account: Account) -> None:
    bare = cluster()
    unpinned = bare.model_copy(update={"target": bare.target.model_copy(update={"image": Image(ssm_parameter="/a")})})
    (found,) = account_checks.images(at(account, unpinned))
    assert found.level is Severity.WARNING and "rackwright pin-images mine" in found.hint


# Reservations


def reserve(answers: Callable[..., Stubber], **more: Any) -> None:
    """Set the response for the one reservation."""
    described = {
        "CapacityReservationId": _RESERVATION,
        "InstanceType": "g5.xlarge",
        "AvailabilityZone": "us-east-1a",
        "TotalInstanceCount": 3,
        "State": "active",
        **more,
    }
    answers("ec2", "describe_capacity_reservations", {"CapacityReservations": [described]}, CapacityReservationIds=[_RESERVATION])


RESERVED = {"capacity_type": {"kind": "on-demand", "reservation": _RESERVATION}}


def test_matching_reservation_gives_no_finding(told: Account, answers: Callable[..., Stubber]) -> None:
    reserve(answers)
    assert summaries(account_checks.reservations(at(told, cluster(**RESERVED)))) == []


@pytest.mark.parametrize(
    ("described", "level", "words"),
    [
        ({"InstanceType": "g5.2xlarge"}, "error", "it is for g5.2xlarge"),
        ({"AvailabilityZone": "us-east-1b"}, "error", "it is in us-east-1b"),
        ({"TotalInstanceCount": 2}, "error", "it has 2 instances"),
        ({"State": "expired"}, "error", "its state is expired"),
        ({"State": "scheduled", "StartDate": NOW}, "warning", "begins at 2026-12-01"),
        ({"EndDate": datetime(2026, 11, 30, tzinfo=UTC)}, "error", "it ended at 2026-11-30"),
    ],
)
def test_mismatched_reservation_is_finding(
    told: Account, answers: Callable[..., Stubber], described: dict[str, Any], level: str, words: str
) -> None:
    reserve(answers, **described)
    ((found_level, path, cause),) = summaries(account_checks.reservations(at(told, cluster(**RESERVED))))
    assert (found_level, path) == (level, "target.instances.worker.capacity_type.reservation")
    assert words in cause


def test_missing_reservation_is_error(told: Account, answers: Callable[..., Stubber]) -> None:
    answers("ec2", "describe_capacity_reservations", "InvalidCapacityReservationId.NotFound")
    (found,) = account_checks.reservations(at(told, cluster(**RESERVED)))
    assert found.level is Severity.ERROR and "does not exist" in found.cause


# Spot


@pytest.mark.parametrize(
    ("purchase", "level", "words"),
    [
        ({}, "info", "g5.xlarge costs 0.4000 USD per hour on spot now"),
        ({"expected_usd_per_hour": 0.40}, "info", "costs 0.4000"),
        ({"expected_usd_per_hour": 0.39}, "warning", "more than expected_usd_per_hour"),
        ({"max_usd_per_hour": 0.39}, "error", "over max_usd_per_hour 0.39"),
    ],
)
def test_current_spot_price_is_compared(
    told: Account, answers: Callable[..., Stubber], purchase: dict[str, float], level: str, words: str
) -> None:
    """The latest price counts."""
    history = [
        {"SpotPrice": price, "Timestamp": datetime(2026, 11, day, tzinfo=UTC)} for price, day in (("0.9", 1), ("0.4", 30), ("0.8", 2))
    ]
    answers("ec2", "describe_spot_price_history", {"SpotPriceHistory": history})
    ((found_level, path, cause),) = summaries(account_checks.spot_prices(at(told, cluster(capacity_type={"kind": "spot", **purchase}))))
    assert (found_level, path) == (level, "target.instances.worker.capacity_type")
    assert words in cause


def test_missing_spot_price_is_reported(told: Account, answers: Callable[..., Stubber]) -> None:
    answers("ec2", "describe_spot_price_history", {"SpotPriceHistory": []})
    (found,) = account_checks.spot_prices(at(told, cluster(capacity_type={"kind": "spot"})))
    assert found.level is Severity.WARNING and found.cause.startswith("not checked: AWS has no spot price")


# Lustre


@pytest.mark.parametrize(("value", "level"), [(2399, "error"), (2400, None)])
def test_file_system_over_quota_is_error(told: Account, answers: Callable[..., Stubber], value: int, level: str | None) -> None:
    """Quotas of other deployment types do not count."""
    quotas = [("Lustre Scratch storage capacity", value), ("Lustre Persistent_2 storage capacity", 1), ("Lustre Scratch file systems", 1)]
    answers("service-quotas", "list_service_quotas", {"Quotas": [{"QuotaName": name, "Value": float(most)} for name, most in quotas]})
    assert [each[0] for each in summaries(account_checks.lustre(at(told, cluster())))] == ([level] if level else [])


def test_renamed_quota_is_reported(told: Account, answers: Callable[..., Stubber]) -> None:
    answers("service-quotas", "list_service_quotas", {"Quotas": [{"QuotaName": "Windows storage capacity", "Value": 1.0}]})
    (found,) = account_checks.lustre(at(told, cluster()))
    assert found.level is Severity.WARNING and found.cause.startswith("not checked: no FSx quota")


# All together


def known(answers: Callable[..., Stubber]) -> None:
    """Set the caller identity."""
    answers("sts", "get_caller_identity", {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/ada"})


def test_denied_query_is_warning_and_others_run(told: Account, answers: Callable[..., Stubber]) -> None:
    """Each refusal is reported, and every other check runs."""
    known(answers)
    answers("ec2", "describe_instance_type_offerings", "UnauthorizedOperation")
    answers("ec2", "describe_instances", "UnauthorizedOperation")
    answers("ec2", "describe_images", "UnauthorizedOperation")
    answers("ec2", "describe_spot_price_history", "UnauthorizedOperation")
    answers("service-quotas", "list_service_quotas", "AccessDeniedException")
    found = list(account_checks.run_checks(at(told, cluster(capacity_type={"kind": "spot"}))))
    assert found[0].rule == "online-account" and "account 123456789012 in us-east-1, as arn:aws" in found[0].cause
    assert [(each.rule, each.level) for each in found[1:]] == [
        (rule, Severity.WARNING)
        for rule in ("online-type-offered", "online-quota", "online-image", "online-spot-price", "online-fsx-quota")
    ]
    assert all(each.cause.startswith("not checked: ") and "do not allow the call" in each.cause and each.hint for each in found[1:])


@pytest.mark.parametrize(
    ("service", "call", "action"),
    [
        ("ec2", "describe_capacity_reservations", "ec2:DescribeCapacityReservations"),
        ("service-quotas", "list_service_quotas", "servicequotas:ListServiceQuotas"),
    ],
)
def test_denied_query_names_iam_action(told: Account, answers: Callable[..., Stubber], service: str, call: str, action: str) -> None:
    answers(service, call, "AccessDenied")
    arguments = {"ServiceCode": "fsx"} if service == "service-quotas" else {}
    with pytest.raises(AwsAccessDeniedError) as refused:
        told.ask(service, call, **arguments)
    assert f"allow the action `{action}`" in refused.value.hint


def test_unexpected_response_is_warning_with_aws_message(told: Account, answers: Callable[..., Stubber]) -> None:
    known(answers)
    for call in ("describe_instance_type_offerings", "describe_instances", "describe_images", "describe_capacity_reservations"):
        answers("ec2", call, "Odd")
    answers("service-quotas", "list_service_quotas", "Odd")
    found = [each for each in account_checks.run_checks(at(told, cluster(**RESERVED))) if each.rule == "online-reservation"]
    assert [each.cause for each in found] == ["not checked: ec2:describe_capacity_reservations: AWS returned Odd: no"]
