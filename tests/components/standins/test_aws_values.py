"""Validation, sending and reading of values in the stand-in for the aws provider."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from standins.aws import life, naming, schema
from standins.aws.account import configured
from standins.aws.kind import Unsupported, fill
from standins.aws.naming import Autoname
from standins.aws.registry import KINDS
from standins.aws.request import request
from standins.aws.state import outputs, overlay

from rackwright.errors import RackwrightError
from rackwright.provider.protocol.property_values import UNKNOWN

VPC, INSTANCE, TEMPLATE = "aws:ec2/vpc:Vpc", "aws:ec2/instance:Instance", "aws:ec2/launchTemplate:LaunchTemplate"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"


def reasons(token: str, **inputs: Any) -> dict[str, str]:
    """Return the schema's violations of the inputs."""
    return {failure.property: failure.reason for failure in schema.shape(token).failures(inputs)}


@pytest.mark.parametrize(
    ("token", "inputs", "path", "reason"),
    [
        (VPC, {"cidrBlock": 5}, "cidrBlock", "expected str, got int"),
        (VPC, {"enableDnsHostnames": "yes"}, "enableDnsHostnames", "expected bool, got str"),
        (VPC, {"cidr": "10.0.0.0/16"}, "cidr", "pulumi_aws knows no such property of Vpc"),
        (VPC, {"tags": ["a"]}, "tags", "expected Mapping, got list"),
        (VPC, {"tags": {"a": 1}}, "tags.a", "expected str, got int"),
        (TEMPLATE, {"placement": {"colour": "red"}}, "placement.colour", "pulumi_aws knows no such property of LaunchTemplatePlacement"),
        (TEMPLATE, {"networkInterfaces": [{"deviceIndex": "0"}]}, "networkInterfaces[0].deviceIndex", "expected int, got str"),
        ("aws:ec2/subnet:Subnet", {}, "vpcId", "is required"),
        (LUSTRE, {"subnetIds": ["subnet-1"]}, "subnetIds", "expected str, got list"),
    ],
)
def test_invalid_input_is_named(token: str, inputs: dict[str, Any], path: str, reason: str) -> None:
    assert reasons(token, **inputs)[path] == reason


def test_valid_and_unknown_inputs_pass() -> None:
    fine = {"cidrBlock": UNKNOWN, "enableDnsHostnames": True, "tags": {"a": UNKNOWN}, "__defaults": []}
    assert reasons(VPC, **fine) == {}
    assert reasons(INSTANCE, instanceType="p5.48xlarge", cpuOptions={"coreCount": 4}, vpcSecurityGroupIds=[UNKNOWN]) == {}


def test_single_item_list_is_flattened_like_package() -> None:
    kinds = schema.shape(LUSTRE).outputs
    assert outputs(kinds, {"SubnetIds": ["subnet-1"]}, {}) == {"subnetIds": "subnet-1"}
    assert outputs(kinds, {"SubnetIds": ["subnet-1", "subnet-2"]}, {}) == {}


def test_mistyped_value_is_converted_or_dropped() -> None:
    kinds = {"count": int, "open": bool, "text": str, "size": float}
    assert outputs(kinds, {"Count": "3", "Open": "true", "Text": 7, "Size": 1}, {}) == {"count": 3, "open": True, "text": "7", "size": 1.0}
    assert outputs(kinds, {"Count": "many", "Open": "perhaps", "Text": {"a": 1}}, {}) == {}


def test_request_converts_numbers_and_booleans() -> None:
    session = boto3.Session(region_name="us-east-1")
    model = session.client("ec2", aws_access_key_id="a", aws_secret_access_key="a").meta.service_model
    shape = model.operation_model("CreateLaunchTemplate").input_shape.members["LaunchTemplateData"]
    given = {"networkInterfaces": [{"deviceIndex": 1.0, "deleteOnTermination": "true"}], "tagSpecifications": [{"tags": {"a": "b"}}]}
    made, homeless = request(shape, given, {})
    assert made["NetworkInterfaces"] == [{"DeviceIndex": 1, "DeleteOnTermination": True}]
    assert made["TagSpecifications"] == [{"Tags": [{"Key": "a", "Value": "b"}]}]
    assert homeless == []


def test_unknown_value_never_reaches_api_call() -> None:
    account = configured({"region": "us-east-1", "endpoints": '[{"ec2": "http://127.0.0.1:1"}]'})
    with pytest.raises(ValueError, match="cidrBlock is not known"):
        fill(account, KINDS[VPC], "CreateVpc", {"cidrBlock": UNKNOWN})


def test_unsupported_input_is_refused() -> None:
    account = configured({"region": "us-east-1", "endpoints": '[{"ec2": "http://127.0.0.1:1"}]'})
    with pytest.raises(Unsupported, match="has no place for enableNetworkAddressUsageMetrics in CreateVpc"):
        fill(account, KINDS[VPC], "CreateVpc", {"cidrBlock": "10.0.0.0/16", "enableNetworkAddressUsageMetrics": True})


@pytest.mark.parametrize(
    ("endpoint", "complaint"),
    [
        (None, "has no endpoint for ec2: it never talks to AWS"),
        ("https://ec2.us-east-1.amazonaws.com", "will not talk to https://ec2.us-east-1"),
    ],
)
def test_client_requires_local_endpoint(endpoint: str | None, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_EC2", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    if endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(RackwrightError, match=complaint):
        configured({"region": "us-east-1"}).client("ec2")


def test_account_without_region_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(RackwrightError, match="aws:region is not set"):
        _ = configured({}).region


def test_generated_name_follows_logical_name() -> None:
    rule = Autoname(longest=64)
    first = naming.fill_in(rule, "node", b"one", {}, {})
    assert first["name"].startswith("node-")
    assert len(first["name"]) == len("node-") + 7
    assert naming.fill_in(rule, "node", b"two", first, {})["name"] == first["name"]
    assert naming.fill_in(rule, "host", b"two", first, {})["name"].startswith("host-")
    assert naming.fill_in(rule, "node", b"two", first, {"name": "mine"})["name"] == "mine"
    assert naming.was_given(rule, {"name": "mine", "__defaults": []})
    assert not naming.was_given(rule, first)


def test_generated_name_fits_service_limits() -> None:
    bucket = naming.fill_in(Autoname("bucket", longest=63, lower=True), "Data" * 20, b"s", {}, {})["bucket"]
    assert len(bucket) == 63
    assert bucket == bucket.lower()


def test_diff_compares_inputs_and_replaces_forced_ones() -> None:
    kind = KINDS[VPC]
    same = {"cidrBlock": "10.0.0.0/16", "__defaults": []}
    assert not life.difference(kind, same, {"cidrBlock": "10.0.0.0/16"}).changes
    assert life.difference(kind, same, {"cidrBlock": "10.1.0.0/16"}).replaces == ["cidrBlock"]
    assert life.difference(kind, same, {**same, "tags": {"a": "b"}}).replaces == []


def test_user_data_replaces_on_request() -> None:
    olds = {"userData": "a"}
    assert life.difference(KINDS[INSTANCE], olds, {"userData": "b"}).replaces == []
    assert life.difference(KINDS[INSTANCE], olds, {"userData": "b", "userDataReplaceOnChange": True}).replaces == ["userData"]


def test_equivalent_value_is_no_drift() -> None:
    assert overlay('{"a": 1, "b": [2]}', '{"b":[2],"a":1}') == '{"a": 1, "b": [2]}'
    assert overlay(["b", "a"], ["a", "b"]) == ["b", "a"]
    assert overlay(80, 80.0) == 80
    assert overlay({"mode": "OFF"}, {"mode": "OFF", "window": 1}) == {"mode": "OFF"}


def test_different_value_is_drift() -> None:
    assert overlay('{"a": 1}', '{"a":2}') == '{"a":2}'
    assert overlay(["a"], ["a", "b"]) == ["a", "b"]
    assert overlay({"mode": "OFF"}, {"mode": "ON"}) == {"mode": "ON"}
