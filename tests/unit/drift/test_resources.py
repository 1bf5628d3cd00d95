"""Differences from the events of a previewed refresh."""

from __future__ import annotations

import pytest

from rackwright.drift import resources
from rackwright.drift.difference import Category, Layer

END = {"summaryEvent": {"resourceChanges": {}}}


def event(op, token="rackwright:lab:Node", name="worker0", old=None, new=None):
    """Return an event of a resource after it was read."""
    metadata = {"op": op, "type": token, "urn": f"urn:pulumi:lab::rackwright::{token}::{name}"}
    return {
        "resOutputsEvent": {"metadata": {**metadata, "old": {"inputs": old or {}}, "new": {"inputs": new} if new is not None else None}}
    }


def found(*events):
    return resources.scan("lab", 2.0, [*events, END]).differences


def test_equal_resources_have_no_difference():
    assert found(event("same", old={"status": "running"}, new={"status": "running"})) == ()


def test_paused_node_differs_in_status():
    (only,) = found(event("update", old={"hostname": "worker0", "status": "running"}, new={"hostname": "worker0", "status": "paused"}))
    assert (only.layer, only.node, only.subject, only.declared, only.live) == (
        Layer.RESOURCES,
        "worker0",
        "node.status",
        "running",
        "paused",
    )


def test_deleted_node_is_missing():
    (only,) = found(event("delete", old={"hostname": "worker0"}))
    assert (only.node, only.subject, only.live, only.category) == ("worker0", "node.exists", "missing", Category.BREAKING)


def test_network_belongs_to_no_node():
    (only,) = found(event("delete", "rackwright:lab:Network", "network", old={"cidr": "10.77.0.0/24"}))
    assert (only.node, only.subject) == ("", "network network.exists")


def test_changed_host_key_is_security_without_secrets():
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "aGVsbG8="}
    (only,) = found(
        event(
            "update",
            old={"hostname": "worker0", "host_key": secret},
            new={"hostname": "worker0", "host_key": {**secret, "ciphertext": "b"}},
        )
    )
    assert (only.category, only.declared, only.live) == (Category.SECURITY, "(secret)", "(secret)")


@pytest.mark.parametrize("token", ["rackwright:ansible:Converge", "rackwright:test:Verification", "pulumi:pulumi:Stack"])
def test_resources_of_other_layers_are_skipped(token):
    assert found(event("update", token, old={"a": 1}, new={"a": 2})) == ()


def test_engine_error_or_missing_summary_is_unknown():
    error = {"diagnosticEvent": {"severity": "error", "message": "no podman\n"}}
    assert resources.scan("lab", 2.0, [error, END]).unknown == (("", "no podman"),)
    assert "did not finish" in resources.scan("lab", 2.0, []).unknown[0][1]


def test_unrecorded_labelled_resource_is_reported():
    known = resources.recorded(
        [{"resOutputsEvent": {"metadata": {"old": {"id": "lab-worker0"}}}}, {"resOutputsEvent": {"metadata": {}}}, END]
    )
    (only,) = resources.unmanaged_resources(
        [("container", "lab-worker0"), ("container", "lab-miner"), ("secret", "rackwright.lab.key")], known
    )
    assert (only.subject, only.category) == ("container lab-miner.unmanaged", Category.SECURITY)


def test_truncated_log_is_unknown():
    (only,) = resources.events('{"preludeEvent": {}}\n{"resOutp')
    assert only == {"preludeEvent": {}}
    assert resources.scan("lab", 1.0, [only]).unknown == (("", "the engine did not finish"),)
