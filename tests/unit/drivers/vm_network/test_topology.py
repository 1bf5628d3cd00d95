"""topology.json: written and read back, and each invalid value reported with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

from rackwright.drivers.vm.network import topology as topologies
from rackwright.drivers.vm.network.topology import Cable, LinkSettings, Port, Switch, Topology, parse
from rackwright.drivers.vm.network.topology_problems import find_problems
from rackwright.errors import InputError

TOPOLOGY = Topology(
    switches={"leaf1": Switch(mtu=4400), "spine1": Switch(mtu=4400), "cluster": Switch(mtu=1500)},
    ports=(
        Port(name="worker0.r0", switch="leaf1", mac="52:54:00:00:00:01", peer="../nodes/worker0/r0.sock", rate_mbps=100),
        Port(name="worker0.eth0", switch="cluster", mac="52:54:00:00:00:02", peer="../nodes/worker0/eth0.sock"),
    ),
    cables=(Cable(name="leaf1-spine1-1", a="leaf1", b="spine1", rate_mbps=200, delay_ms=0.5, loss=0.01, up=False),),
)


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the topology's data with one value changed, or removed if it is Ellipsis."""
    data = json.loads(json.dumps(TOPOLOGY.as_data()))
    *places, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    row: Any = data
    for place in places:
        row = row[place]
    if value is ...:
        del row[last]
    else:
        row[last] = value
    return data


def test_written_topology_is_read_back(tmp_path: Path) -> None:
    topologies.write(tmp_path, TOPOLOGY)
    assert topologies.read(tmp_path) == TOPOLOGY and (tmp_path / "topology.json").stat().st_mode & 0o777 == 0o600
    assert topologies.read(tmp_path).digest() == TOPOLOGY.digest()


def test_digest_ignores_order_and_notation() -> None:
    data = TOPOLOGY.as_data()
    data["ports"] = [{**port, "mac": port["mac"].upper(), "delay_ms": 0} for port in reversed(data["ports"])]
    assert parse(data).digest() == TOPOLOGY.digest() != parse(changed("cables/0/up", True)).digest()


def test_omitted_settings_are_those_of_an_ideal_link() -> None:
    row = {"name": "a", "switch": "leaf1", "mac": "52:54:00:00:00:03", "peer": "a.sock"}
    port = parse({"schema": "rackwright.vm-network/1", "switches": {"leaf1": {"mtu": 1500}}, "ports": [row]}).ports[0]
    assert topologies.settings_of(port) == LinkSettings(up=True, rate_mbps=None, delay_ms=0, loss=0)


@each_row(
    ("path", "value", "problem"),
    [
        ("schema", "rackwright.vm-network/2", "schema: unknown value 'rackwright.vm-network/2' (expected rackwright.vm-network/1)"),
        ("extra", 1, "extra: unknown key"),
        ("switches", [], "switches: expected an object of switches by name"),
        ("switches/leaf1", 9000, "switches.leaf1: expected an object"),
        ("switches/leaf1/mtu", 67, "switches.leaf1.mtu: invalid value 67 (expected whole bytes from 68 to 65535)"),
        ("switches/leaf1/mtu", 1500.5, "switches.leaf1.mtu: invalid value 1500.5 (expected whole bytes from 68 to 65535)"),
        ("switches/leaf1/mtu", True, "switches.leaf1.mtu: invalid value True (expected whole bytes from 68 to 65535)"),
        ("switches/leaf1/mtu", ..., "switches.leaf1.mtu: missing"),
        ("ports", {}, "ports: expected a list"),
        ("ports/0", "worker0", "ports[0]: expected an object"),
        ("ports/0/name", "../x", "ports.../x.name: invalid value '../x' (expected letters, digits"),
        ("ports/0/name", "control", "ports.control.name: invalid value 'control' (expected letters, digits"),
        ("ports/0/name", "n" * 103, f"ports.{'n' * 103}.name: invalid value"),
        ("ports/0/name", "worker0.eth0", "name worker0.eth0: used 2 times (expected once)"),
        ("ports/0/name", "leaf1", "name leaf1: used 2 times (expected once)"),
        ("ports/0/switch", "leaf9", "ports.worker0.r0.switch: no switch 'leaf9' (declared: cluster, leaf1, spine1)"),
        ("ports/0/mac", "52:54:00", "ports.worker0.r0.mac: invalid value '52:54:00' (expected a unicast MAC address"),
        ("ports/0/mac", "01:00:5e:00:00:01", "ports.worker0.r0.mac: invalid value '01:00:5e:00:00:01' (expected a unicast"),
        ("ports/0/mac", "52:54:00:00:00:02", "MAC address 52:54:00:00:00:02: used 2 times (expected once)"),
        ("ports/0/peer", "../nodes/worker0/eth0.sock", "peer ../nodes/worker0/eth0.sock: used 2 times (expected once)"),
        (
            "ports/0/peer",
            "p" * 108,
            f"ports.worker0.r0.peer: invalid value '{'p' * 108}' (expected the path of a socket, at most 107 bytes)",
        ),
        ("ports/0/peer", ..., "ports.worker0.r0.peer: missing"),
        ("ports/0/rate_mbps", 0, "ports.worker0.r0.rate_mbps: invalid value 0 (expected null or a number above 0, in Mbit/s)"),
        ("ports/0/rate_mbps", "100", "ports.worker0.r0.rate_mbps: invalid value '100' (expected null"),
        ("ports/0/rate_mbps", float("nan"), "ports.worker0.r0.rate_mbps: invalid value nan (expected null"),
        ("ports/0/up", 1, "ports.worker0.r0.up: invalid value 1 (expected true or false)"),
        ("ports/0/speed", 1, "ports.worker0.r0.speed: unknown key"),
        ("cables/0/delay_ms", -1, "cables.leaf1-spine1-1.delay_ms: invalid value -1 (expected milliseconds from 0 to 60000)"),
        ("cables/0/loss", 1.1, "cables.leaf1-spine1-1.loss: invalid value 1.1 (expected a share from 0 to 1)"),
        ("cables/0/b", "leaf1", "cables.leaf1-spine1-1: both ends are on leaf1"),
        ("cables/0/b", "spine9", "cables.leaf1-spine1-1.b: no switch 'spine9' (declared: cluster, leaf1, spine1)"),
        ("cables/0/a", None, "cables.leaf1-spine1-1.a: invalid value None (expected the name of a switch)"),
    ],
)
def test_invalid_value_is_reported(path: str, value: Any, problem: str) -> None:
    found = find_problems(changed(path, value))
    assert any(text.startswith(problem) for text in found), found


@pytest.mark.parametrize("data", [None, [], "text", {}], ids=["null", "list", "text", "empty"])
def test_other_data_is_refused(data: object) -> None:
    assert find_problems(data)


def test_valid_topology_has_no_problem() -> None:
    assert find_problems(TOPOLOGY.as_data()) == []


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    data = changed("cables/0/loss", 2)
    data["ports"][0] |= {"mac": "x", "peer": ""}
    (tmp_path / "topology.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match="3 problems") as raised:
        topologies.read(tmp_path)
    assert all(name in raised.value.cause for name in ("mac", "peer", "loss")) and raised.value.path.endswith("topology.json")


@pytest.mark.parametrize(("content", "cause"), [(None, "cannot be read"), ("{", "is not JSON")], ids=["missing", "cut"])
def test_unreadable_file_is_reported(tmp_path: Path, content: str | None, cause: str) -> None:
    if content:
        (tmp_path / "topology.json").write_text(content)
    with pytest.raises(InputError, match=cause):
        topologies.read(tmp_path)


def test_invalid_topology_leaves_file_as_it_was(tmp_path: Path) -> None:
    topologies.write(tmp_path, TOPOLOGY)
    with pytest.raises(InputError, match="mtu"):
        topologies.write(tmp_path, Topology(switches={"leaf1": Switch(mtu=1)}))
    assert topologies.read(tmp_path) == TOPOLOGY
