"""A machine behind a port forward: the port from outside is for connections of this machine, that of sshd for the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.inventory.host import Host, ssh_endpoint
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster
from rackwright.targets.hosts.network import ssh_route

_KEY = "SHA256:" + "A" * 43


def plan(login0: dict[str, Any], **target: Any) -> Plan:
    """Return the plan of a login node and a worker behind it."""
    machines = {"login0": {"address": "10.20.0.2", "host_key": _KEY, **login0}, "worker0": {"address": "10.20.0.3", "host_key": _KEY}}
    loaded = load_cluster(
        {
            "target": {"kind": "hosts", "os": "debian-13", "jump_host": "login0", "machines": machines, **target},
            "network": {"cidr": "10.20.0.0/24"},
            "groups": {
                "login": {"count": 1, "cpus": 2, "memory": "2GiB"},
                "worker": {"count": 1, "cpus": 2, "memory": "2GiB"},
            },
        }
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "rack")


@pytest.mark.parametrize(
    ("login0", "target", "outside", "on_login0", "on_worker0"),
    [
        pytest.param({}, {}, 22, 22, 22, id="no-forward"),
        pytest.param({"port": 2222}, {}, 2222, 2222, 22, id="sshd-on-another-port"),
        pytest.param({"ssh_address": "127.0.0.1", "port": 2601, "sshd_port": 22}, {}, 2601, 22, 22, id="forward-to-one-machine"),
        pytest.param({"port": 40022}, {"sshd_port": 22}, 40022, 22, 22, id="forwards-to-all-machines"),
        pytest.param({"port": 40022, "sshd_port": 2222}, {"sshd_port": 22}, 40022, 2222, 22, id="machine-overrides-target"),
        pytest.param({}, {"port": 2222}, 2222, 2222, 2222, id="all-on-another-port"),
    ],
)
def test_port_forward_has_two_ports(login0: dict[str, Any], target: dict[str, Any], outside: int, on_login0: int, on_worker0: int) -> None:
    found = plan(login0, **target)
    assert (found.node("login0").ssh_port, found.node("worker0").ssh_port) == (on_login0, on_worker0)
    assert found.target.kind == "hosts"
    way = ssh_route(found.target, found.node("login0"))
    assert way["port"] == outside
    host = Host("login0", way["address"], "ssh-ed25519 AAAA", "m1", port=way["port"])
    assert ssh_endpoint(found, host).port == outside
