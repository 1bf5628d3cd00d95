"""The Service of type LoadBalancer of the smoke run of pods: what is created, who is asked, and what stays. The API is played."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from rackwright.remote.programs import pod_balancers
from rackwright.remote.programs.kubernetes_client import ApiRefusedError

NODES = [{"name": "w0"}, {"name": "w1"}]
BEHIND = {"answers-w0", "answers-w1"}
PATH = "/api/v1/namespaces/smoke/services"
MACS = {"10.77.0.12": ["aa"], "10.77.0.16": ["cc"], "10.77.0.24": ["aa"], "10.77.0.25": ["bb"]}


class PlayedApi:
    """An API that assigns this address, with these warnings."""

    def __init__(self, address="10.77.0.12", warnings=(), refusal=None):
        self.made, self.deleted, self.commands = [], [], []
        self.address, self.warnings, self.refusal = address, warnings, refusal
        running = {"status": {"phase": "Running", "podIP": "10.244.0.2"}}
        ports = {"control0": "10.77.0.16", "w0": "10.77.0.24", "w1": "10.77.0.25"}
        self.run = SimpleNamespace(
            api=self, path="/api/v1/namespaces/smoke", request={"ports": ports}, pods=dict.fromkeys(BEHIND, running),
            left=lambda _: 0.05, until=lambda test, _: test(self.run.pods), inside=self.inside,
        )  # fmt: skip

    def post(self, path, body):
        if self.refusal:
            raise ApiRefusedError(403, self.refusal)
        self.made.append((path, body["spec"]["type"]))

    def get(self, path):
        if "/events?" in path:
            return {"items": [{"message": one} for one in self.warnings]}
        return {"status": {"loadBalancer": {"ingress": [{"ip": self.address}]} if self.address else {}}}

    def delete(self, path):
        self.deleted.append(path)

    def inside(self, name, words):
        self.commands.append((name, words[-1]))
        return {"rc": 0, "out": "answers-w0", "said": ""}

    def balancer(self):
        return pod_balancers.balancer(self.run, NODES, BEHIND)


@pytest.fixture(autouse=True)
def network(monkeypatch):
    """A network in which these devices answer, and a node that gets an answer of a pod."""
    monkeypatch.setattr(pod_balancers.arp, "answers", lambda address, *_: MACS[address])
    monkeypatch.setattr(pod_balancers.checks.OPENER, "open", lambda url, timeout: io.BytesIO(b"answers-w1"))
    monkeypatch.setattr(pod_balancers.time, "sleep", lambda _: None)


def test_address_is_asked_from_node_and_pod_and_the_service_is_deleted():
    played = PlayedApi()
    found = played.balancer()
    assert played.made == [(PATH, "LoadBalancer")] and played.deleted == [PATH + "/balanced"]
    assert found["announced"] == {"by": ["w0"], "said": ""} and found["behind"] == sorted(BEHIND)
    assert found["node"]["out"] == "answers-w1" and played.commands == [("answers-w1", "http://10.77.0.12:8080/")]


def test_device_that_is_no_node_has_its_hardware_address(monkeypatch):
    monkeypatch.setitem(MACS, "10.77.0.12", ["bb", "ff"])
    assert PlayedApi().balancer()["announced"]["by"] == ["w1", "ff"]


def test_network_that_cannot_be_asked_is_told(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(pod_balancers.arp, "answers", refuse)
    found = PlayedApi().balancer()["announced"]
    assert found["by"] == [] and "Operation not permitted" in found["said"]


@pytest.mark.parametrize(("warnings", "why"), [((), "no event reports a reason"), (("old", "no available IPs"), "no available IPs")])
def test_service_without_address_has_the_warning(warnings, why):
    played = PlayedApi(address=None, warnings=warnings)
    assert played.balancer() == {"address": "", "why": why} and played.deleted == [PATH + "/balanced"]


def test_refused_service_has_the_reason():
    played = PlayedApi(refusal="exceeded quota")
    assert played.balancer() == {"address": "", "why": "exceeded quota"} and played.deleted == []


def test_without_a_pod_nobody_is_asked():
    played = PlayedApi()
    played.run.pods = {}
    assert played.balancer() == {"address": "10.77.0.12", "behind": []} and played.commands == []


def test_node_that_is_refused_has_the_error(monkeypatch):
    def refuse(url, timeout):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(pod_balancers.checks.OPENER, "open", refuse)
    found = PlayedApi().balancer()["node"]
    assert found["rc"] == 1 and "Connection refused" in found["said"]
