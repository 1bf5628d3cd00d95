"""Outside probes distinguish open ports from ports that do not respond."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from support.programs import edit_program

from rackwright.checks.cluster.harness import external_probes
from rackwright.errors import UndeterminedError
from rackwright.remote.command import python_arguments
from rackwright.remote.programs import tcp_banners

ON_LINK = '[{"dst":"10.0.0.1","dev":"podman1","prefsrc":"10.0.0.254","flags":[],"uid":0,"cache":[]}]'
BY_GATEWAY = '[{"dst":"10.0.0.1","gateway":"10.0.2.2","dev":"eth0","prefsrc":"10.0.2.15","flags":[],"uid":1000,"cache":[]}]'
BY_GATEWAY6 = '[{"dst":"10.0.0.1","via":{"family":"inet6","host":"fe80::1"},"dev":"eth0","flags":[]}]'


def test_refused_connection_counts_as_reached():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert external_probes.connect_result("127.0.0.1", port) == "accepts"
    assert external_probes.connect_result("127.0.0.1", port) == "refuses"


def test_each_reachable_kubernetes_port_is_named(monkeypatch):
    said = {("10.0.0.1", 6443): "accepts", ("10.0.0.1", 30080): "refuses"}
    monkeypatch.setattr(external_probes, "connect_result", lambda address, port: said.get((address, port), ""))
    declared = SimpleNamespace(nodes={"login0": {"address": "10.0.0.1"}, "worker0": {"address": "10.0.0.2"}})
    found = external_probes.probe_kubernetes_ports(declared, ["login0", "worker0"])
    assert found == {"login0": "API (6443) accepts, node port (30080) refuses", "worker0": ""}


def test_open_port_without_banner_is_no_silence(monkeypatch):
    monkeypatch.setattr(tcp_banners, "WORDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert tcp_banners.banner("127.0.0.1", port) == tcp_banners.ACCEPTS
    assert tcp_banners.banner("127.0.0.1", port) == ""


def test_late_banner_after_connection_is_read(monkeypatch):
    monkeypatch.setattr(tcp_banners, "WORDS", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def send_late():
            caller, _ = listening.accept()
            with caller:
                caller.settimeout(0.3)  # Longer than the patience of the client, which sends nothing.
                with contextlib.suppress(TimeoutError):
                    caller.recv(1)
                caller.send(b"SSH-2.0-x\r\nmore")

        server = threading.Thread(target=send_late)
        server.start()
        assert tcp_banners.banner(*listening.getsockname(), patience=0.1) == "SSH-2.0-x"
        server.join()


def test_outside_probe_prints_one_line_per_address(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as open_:
        edit_program(monkeypatch, "tcp_banners", lambda text: text.replace("WORDS = 3.0", "WORDS = 0.05"))
        request = {"port": open_.getsockname()[1], "patience": 0.2, "addresses": ["127.0.0.1", "127.0.0.2"]}
        result = subprocess.run([sys.executable, *python_arguments("tcp_banners", request)[1:]], capture_output=True, text=True)
    assert result.stdout.splitlines() == [f"127.0.0.1 {tcp_banners.ACCEPTS}", "127.0.0.2 "]


@pytest.fixture
def outside(monkeypatch):
    """Return the view of this machine: the user, the routes, the responding services; and the attempted connections."""
    connected = []
    declared = SimpleNamespace(nodes={"worker0": {"address": "10.0.0.1"}})
    monkeypatch.setattr(external_probes, "banner", lambda address, *_: connected.append(address) or "SSH-2.0-x")

    def look(user, route):
        monkeypatch.setattr(external_probes.os, "geteuid", lambda: user)
        monkeypatch.setattr(external_probes, "_route", lambda _: route)
        return external_probes.probe_from_this_machine(declared, ["worker0"]), connected

    return look


def test_rootless_nodes_skip_gateway_connection(outside):
    """Another machine may use the address there."""
    assert outside(1000, BY_GATEWAY) == ({"worker0": ""}, [])


def test_root_connects_to_nodes_on_its_bridge(outside):
    assert outside(0, ON_LINK) == ({"worker0": "SSH-2.0-x"}, ["10.0.0.1"])


@pytest.mark.parametrize(("user", "route"), [(0, BY_GATEWAY), (0, BY_GATEWAY6), (0, ""), (1000, ON_LINK)])
def test_silence_on_other_network_proves_nothing(outside, user, route):
    with pytest.raises(UndeterminedError, match=r"10\.0\.0\.1"):
        outside(user, route)


def test_missing_route_is_no_error(monkeypatch):
    unreachable = subprocess.CompletedProcess([], 2, "", "RTNETLINK answers: Network is unreachable\n")
    monkeypatch.setattr(external_probes.subprocess, "run", lambda *_, **__: unreachable)
    assert external_probes._route("10.0.0.1") == ""


def test_failing_ip_command_is_unknown(monkeypatch):
    refused = subprocess.CompletedProcess([], 1, "", 'Object "route" is unknown\n')
    monkeypatch.setattr(external_probes.subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(UndeterminedError, match="is unknown"):
        external_probes._route("10.0.0.1")


def test_hanging_ip_command_is_unknown(monkeypatch):
    def hang(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(external_probes.subprocess, "run", hang)
    with pytest.raises(UndeterminedError, match=r"10\.0\.0\.1: no answer in 30 s"):
        external_probes._route("10.0.0.1")
