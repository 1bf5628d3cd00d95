"""Looks from outside tell what lets a packet in from what is silent."""

from __future__ import annotations

import socket
from types import SimpleNamespace

from cluster.harness import machine


def test_a_refusal_is_reached_as_an_answer_is():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert machine.reached("127.0.0.1", port) == "accepts"
    assert machine.reached("127.0.0.1", port) == "refuses"


def test_each_port_of_kubernetes_that_is_reached_is_named(monkeypatch):
    said = {("10.0.0.1", 6443): "accepts", ("10.0.0.1", 30080): "refuses"}
    monkeypatch.setattr(machine, "reached", lambda address, port: said.get((address, port), ""))
    declared = SimpleNamespace(nodes={"login0": {"address": "10.0.0.1"}, "worker0": {"address": "10.0.0.2"}})
    found = machine.ports_of_kubernetes(declared, ["login0", "worker0"])
    assert found == {"login0": "API (6443) accepts, node port (30080) refuses", "worker0": ""}
