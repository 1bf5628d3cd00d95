"""The network process with machines that are UNIX datagram sockets, as QEMU's are. No result depends on how fast it forwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.ethernet import BROADCAST, ethernet, udp
from support.hang import HANG_SECONDS, wait_until

from rackwright.drivers.vm.network import client, service
from rackwright.drivers.vm.network import topology as topologies
from rackwright.drivers.vm.network.topology import Cable, Port, Switch, Topology
from rackwright.errors import InputError, RackwrightError, UndeterminedError

NAMES = ("w0", "w1", "w2", "w3")
MACS = {name: f"52:54:00:00:00:{number:02x}" for number, name in enumerate(NAMES)}
TOPOLOGY = Topology(
    switches={name: Switch(mtu=4400) for name in ("l1", "l2", "s1", "s2")},
    ports=tuple(
        Port(name=f"{name}.r0", switch=f"l{1 + number // 2}", mac=MACS[name], peer=f"../nodes/{name}/r0.sock")
        for number, name in enumerate(NAMES)
    ),
    cables=tuple(Cable(name=f"{leaf}-{spine}", a=leaf, b=spine) for leaf in ("l1", "l2") for spine in ("s1", "s2")),
)
MAX_FRAME = 4400 + 14
TOO_MANY = 700
"""Frames that no socket holds: net.unix.max_dgram_qlen is 10, or 512 where systemd has raised it."""


class Machine:
    """A machine's vNIC: a datagram socket in the machine's folder, which sends to the port's socket."""

    def __init__(self, base: Path, name: str) -> None:
        self.name, self._folder = name, base / "nodes" / name
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "r0.sock").unlink(missing_ok=True)  # as QEMU does
        # Paths of sockets are limited to 107 bytes, those of tests are longer.
        self._at = {place: os.open(folder, os.O_PATH) for place, folder in (("own", self._folder), ("network", base / "network"))}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"/proc/self/fd/{self._at['own']}/r0.sock")
        self.socket.settimeout(HANG_SECONDS)

    def send(self, frame: bytes) -> None:
        """Send a frame to the switch."""
        self.socket.sendto(frame, f"/proc/self/fd/{self._at['network']}/{self.name}.r0.sock")

    def receive(self) -> bytes:
        """Return the next frame."""
        return self.socket.recv(1 << 17)

    def close(self) -> None:
        """End as QEMU does: its socket file stays."""
        self.socket.close()
        for descriptor in self._at.values():
            os.close(descriptor)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A machines folder whose path is longer than that of a socket may be."""
    base = tmp_path / ("m" * 120)
    yield base
    client.stop(base / "network")


@pytest.fixture
def folder(base: Path) -> Path:
    """The folder of a network that runs."""
    client.start(base / "network", TOPOLOGY)
    return base / "network"


@pytest.fixture
def machines(base: Path, folder: Path) -> Iterator[dict[str, Machine]]:
    """Four machines by name."""
    with contextlib.ExitStack() as stack:
        found = {name: Machine(base, name) for name in NAMES}
        for machine in found.values():
            stack.callback(machine.close)
        yield found


def frame(source: str, destination: str, text: str = "", size: int = 60) -> bytes:
    return ethernet(MACS[source], MACS.get(destination, destination), text.encode().ljust(size - 14, b"."))


def port_counters(folder: Path, name: str, way: str) -> dict[str, Any]:
    row: dict[str, Any] = client.counters(folder)["ports"][f"{name}.r0"][way]
    return row


def wait_for_drops(folder: Path, name: str, way: str, drops: dict[str, int]) -> None:
    wait_until(lambda: port_counters(folder, name, way)["drops"] == drops, lambda: str(port_counters(folder, name, way)))


def test_frames_go_to_and_fro(machines: dict[str, Machine], folder: Path) -> None:
    for number in range(20):
        machines["w0"].send(ping := frame("w0", "w2", f"ping {number}"))
        assert machines["w2"].receive() == ping
        machines["w2"].send(pong := frame("w2", "w0", f"pong {number}"))
        assert machines["w0"].receive() == pong
    assert [port_counters(folder, name, way)["frames"] for name in ("w0", "w2") for way in ("in", "out")] == [20] * 4
    assert port_counters(folder, "w1", "out")["frames"] == 0


def test_broadcast_reaches_each_machine_once(machines: dict[str, Machine], folder: Path) -> None:
    machines["w0"].send(arp := frame("w0", BROADCAST, "who has"))
    machines["w0"].send(frame("w0", BROADCAST, "second"))
    for name in ("w1", "w2", "w3"):
        assert machines[name].receive() == arp and b"second" in machines[name].receive()
    assert port_counters(folder, "w0", "out")["frames"] == 0


def test_flows_spread_and_survive_pulled_spine(machines: dict[str, Machine], folder: Path) -> None:
    flows = [ethernet(MACS["w0"], MACS["w2"], udp("10.0.0.1", "10.0.0.2", (port, 4791)), kind=0x0800) for port in range(49152, 49192)]

    def carried(spine: str) -> int:
        return int(client.counters(folder)["cables"][f"l1-{spine}"]["a-b"]["frames"])

    def send_all() -> None:
        for flow in flows:
            machines["w0"].send(flow)
            assert machines["w2"].receive() == flow

    send_all()
    first = [carried("s1"), carried("s2")]
    assert sum(first) == len(flows) and min(first) >= 8
    assert client.set_link(folder, "l2-s1", up=False) == [{"name": "l2-s1", "property": "up", "declared": True, "live": False}]
    send_all()
    assert [carried("s1"), carried("s2")] == [first[0], first[1] + len(flows)]


def test_rate_holds_frames_until_it_is_cleared(machines: dict[str, Machine], folder: Path) -> None:
    """At 1 bit/s a frame takes ten hours: that the others wait does not depend on time."""
    client.set_link(folder, "w2.r0", rate_mbps=1e-6)
    for number in range(3):
        machines["w0"].send(frame("w0", "w2", f"frame {number}", MAX_FRAME))
    assert b"frame 0" in machines["w2"].receive()
    wait_until(lambda: port_counters(folder, "w0", "in")["frames"] == 3)
    assert port_counters(folder, "w2", "out") == {"frames": 1, "bytes": MAX_FRAME, "drops": {}}
    client.set_link(folder, "w2.r0", rate_mbps=None)
    assert [machines["w2"].receive()[14:21] for _ in range(2)] == [b"frame 1", b"frame 2"]
    assert client.status(folder)["differences"] == []


def test_delay_holds_frames_on_the_timer(machines: dict[str, Machine], folder: Path) -> None:
    client.set_link(folder, "w0.r0", delay_ms=50)
    started = time.monotonic()
    machines["w0"].send(frame("w0", "w1"))
    machines["w1"].receive()
    assert time.monotonic() - started >= 0.05


def test_frame_above_mtu_is_dropped_and_counted(machines: dict[str, Machine], folder: Path) -> None:
    machines["w0"].send(frame("w0", "w1", size=MAX_FRAME + 1))
    machines["w0"].send(longest := frame("w0", "w1", size=MAX_FRAME))
    assert machines["w1"].receive() == longest
    assert port_counters(folder, "w0", "in")["drops"] == {"mtu": 1}


def test_restarted_machine_is_reached_again(machines: dict[str, Machine], base: Path, folder: Path) -> None:
    machines["w0"].send(frame("w0", "w1"))
    machines["w1"].receive()
    machines["w1"].close()
    machines["w0"].send(frame("w0", "w1", "lost"))
    wait_for_drops(folder, "w1", "out", {"peer-absent": 1})
    assert client.status(folder)["ports"]["w1.r0"]["machine_present"] is False
    machines["w1"] = Machine(base, "w1")
    with contextlib.closing(machines["w1"]) as restarted:
        restarted.send(frame("w1", "w0", "back"))
        assert b"back" in machines["w0"].receive()
        machines["w0"].send(frame("w0", "w1", "welcome"))
        assert b"welcome" in restarted.receive()
        assert client.status(folder)["ports"]["w1.r0"]["machine_present"] is True
    machines["w1"] = Machine(base, "w1")


def test_machine_that_was_replaced_between_frames_loses_none(machines: dict[str, Machine], base: Path, folder: Path) -> None:
    machines["w0"].send(frame("w0", "w1"))
    machines["w1"].receive()
    machines["w1"].close()
    machines["w1"] = Machine(base, "w1")
    machines["w0"].send(frame("w0", "w1", "new"))
    assert b"new" in machines["w1"].receive() and port_counters(folder, "w1", "out")["drops"] == {}


def test_machine_that_does_not_read_gets_its_frames_later(machines: dict[str, Machine], folder: Path) -> None:
    for number in range(TOO_MANY):
        machines["w0"].send(frame("w0", "w1", f"{number:04}"))
    wait_until(lambda: port_counters(folder, "w1", "out")["frames"] == TOO_MANY)
    machines["w0"].send(frame("w0", "w2", "beside"))
    assert b"beside" in machines["w2"].receive()
    assert [int(machines["w1"].receive()[14:18]) for _ in range(TOO_MANY)] == list(range(TOO_MANY))


def test_queue_for_machine_that_does_not_read_is_bounded(machines: dict[str, Machine], folder: Path) -> None:
    sent = (1 << 20) // MAX_FRAME + TOO_MANY
    for number in range(sent):
        machines["w0"].send(frame("w0", "w1", f"{number:04}", MAX_FRAME))
    wait_until(lambda: port_counters(folder, "w1", "out")["frames"] == sent)
    dropped = port_counters(folder, "w1", "out")["drops"]["peer-full"]
    assert 0 < dropped <= TOO_MANY
    assert [int(machines["w1"].receive()[14:18]) for _ in range(sent - dropped)] == list(range(sent - dropped))


def test_queue_for_machine_that_ended_is_dropped(machines: dict[str, Machine], base: Path, folder: Path) -> None:
    for _ in range(TOO_MANY):
        machines["w0"].send(frame("w0", "w1"))
    wait_until(lambda: port_counters(folder, "w1", "out")["frames"] == TOO_MANY)
    assert port_counters(folder, "w1", "out")["drops"] == {}
    machines["w1"].close()
    wait_until(lambda: port_counters(folder, "w1", "out")["drops"].get("peer-absent", 0) > 100)
    machines["w1"] = Machine(base, "w1")
    machines["w0"].send(frame("w0", "w1", "new"))
    assert b"new" in machines["w1"].receive()


def test_idle_process_sleeps(machines: dict[str, Machine], folder: Path) -> None:
    for _ in range(TOO_MANY):  # w1 does not read: waiting for it costs nothing either
        machines["w0"].send(frame("w0", "w1"))
    machines["w0"].send(frame("w0", "w2"))
    machines["w2"].receive()
    pid = client.status(folder)["pid"]

    def switches() -> int:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)

    def sleeps() -> bool:
        before = switches()
        time.sleep(0.3)
        return switches() == before

    wait_until(sleeps)  # the connection of the status may still be closing


def test_apply_changes_network_in_place(machines: dict[str, Machine], base: Path, folder: Path) -> None:
    before = client.running(folder)
    client.set_link(folder, "l1-s1", up=False)
    machines["w0"].send(frame("w0", "w1"))
    machines["w1"].receive()
    added = Port(name="w4.r0", switch="l2", mac="52:54:00:00:00:44", peer="../nodes/w4/r0.sock", rate_mbps=50)
    changed = replace(TOPOLOGY, ports=(*TOPOLOGY.ports[:3], added), cables=TOPOLOGY.cables[1:])
    assert client.apply(folder, changed) == before
    found = client.status(folder)
    assert found["topology"] == changed.digest() and found["differences"] == [] and sorted(found["cables"]) == ["l1-s2", "l2-s1", "l2-s2"]
    assert found["ports"]["w4.r0"]["live"]["rate_mbps"] == 50
    assert sorted(path.name for path in folder.glob("*.sock")) == ["control.sock", *(f"w{number}.r0.sock" for number in (0, 1, 2, 4))]
    assert port_counters(folder, "w0", "in")["frames"] == 1
    with contextlib.closing(Machine(base, "w4")) as new:
        machines["w0"].send(ethernet(MACS["w0"], "52:54:00:00:00:44", b"hello".ljust(46)))
        assert b"hello" in new.receive()


def test_apply_starts_network_that_does_not_run(base: Path) -> None:
    started = client.apply(base / "network", TOPOLOGY)
    assert client.running(base / "network") == started


def test_reload_keeps_faults_unless_cleared(folder: Path) -> None:
    client.set_link(folder, "w0.r0", loss=0.5)
    client._request(folder, {"command": "reload"})
    assert [row["property"] for row in client.status(folder)["differences"]] == ["loss"]
    client.apply(folder, TOPOLOGY)
    assert client.status(folder)["differences"] == []


def test_invalid_topology_leaves_network_as_it_was(folder: Path) -> None:
    (folder / "topology.json").write_text('{"schema": "rackwright.vm-network/1", "switches": {"l1": {"mtu": 1}}}')
    with pytest.raises(InputError, match="mtu: invalid value 1"):
        client._request(folder, {"command": "reload"})
    assert client.status(folder)["topology"] == TOPOLOGY.digest()


@pytest.mark.parametrize(
    ("name", "changes", "cause"),
    [
        ("w9", {"up": False}, "no switch, port or cable 'w9'"),
        ("l1-s1", {"loss": 2}, "loss: invalid value 2"),
        ("l1-s1", {"mtu": 1500}, "mtu: unknown key"),
        ("l1", {"up": False}, "up: unknown key"),
        ("l1", {}, "nothing to change"),
    ],
)
def test_invalid_fault_is_refused(folder: Path, name: str, changes: dict[str, Any], cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        client.set_link(folder, name, **changes)
    assert client.status(folder)["differences"] == []


@pytest.mark.parametrize(("line", "cause"), [(b"{", "is not JSON"), (b"[]", "unknown command"), (b'{"command": "x"}', "unknown command")])
def test_invalid_request_is_answered(folder: Path, line: bytes, cause: str) -> None:
    with client._connected(folder) as connection:
        connection.sendall(line + b"\n")
        assert cause in connection.makefile().readline()
        connection.sendall(b'{"command": "counters"}\n')
        assert '"ok": true' in connection.makefile().readline()


def test_stop_leaves_no_socket(folder: Path) -> None:
    client.stop(folder)
    assert client.running(folder) is None
    assert sorted(path.name for path in folder.iterdir()) == ["network.log", "topology.json"]
    client.stop(folder)
    with pytest.raises(RackwrightError, match="the network does not run"):
        client.status(folder)


@pytest.mark.parametrize("how", ["SIGTERM", "command"])
def test_process_removes_its_sockets_itself(folder: Path, how: str) -> None:
    process = client.running(folder)
    assert process
    with client._connected(folder):  # a client that keeps its connection open
        if how == "command":
            client._request(folder, {"command": "stop"})
        else:
            os.kill(process.pid, signal.SIGTERM)
        wait_until(lambda: client.running(folder) is None)
    wait_until(lambda: sorted(path.name for path in folder.iterdir()) == ["network.log", "topology.json"])


def test_killed_process_is_replaced(base: Path, folder: Path) -> None:
    process = client.running(folder)
    assert process
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: client.running(folder) is None)
    assert (folder / "w3.r0.sock").exists()
    fewer = replace(TOPOLOGY, ports=TOPOLOGY.ports[:2])
    assert client.start(folder, fewer).pid != process.pid
    assert sorted(path.name for path in folder.glob("*.sock")) == ["control.sock", "w0.r0.sock", "w1.r0.sock"]


def test_second_process_is_refused(folder: Path) -> None:
    before = client.running(folder)
    with pytest.raises(RackwrightError, match="runs this network already"):
        client.start(folder, TOPOLOGY)
    second = subprocess.run([sys.executable, "-m", "rackwright.drivers.vm.network", folder], capture_output=True, text=True, check=False)
    assert second.returncode == 1 and "another process runs this network" in second.stderr
    assert client.running(folder) == before and client.status(folder)["topology"] == TOPOLOGY.digest()


@pytest.mark.parametrize(("arguments", "status", "cause"), [([], 2, "expected one folder"), (["/nonexistent"], 1, "cannot be opened")])
def test_invalid_argument_is_reported(arguments: list[str], status: int, cause: str) -> None:
    ended = subprocess.run([sys.executable, "-m", "rackwright.drivers.vm.network", *arguments], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (status, "") and cause in ended.stderr


def test_start_reports_why_process_ended(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "write", lambda *_: None)
    with pytest.raises(RackwrightError, match=r"does not start: .*topology.json: cannot be read: No such file"):
        client.start(base / "network", TOPOLOGY)


def test_suspended_process_is_undetermined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = client.running(folder)
    assert process
    monkeypatch.setattr(client, "_ANSWER", 0.1)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(UndeterminedError, match="does not respond"):
            client.status(folder)
    finally:
        os.kill(process.pid, signal.SIGCONT)


def test_process_ends_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topologies.write(tmp_path, TOPOLOGY)
    folder = tmp_path.rename(tmp_path.with_name("removed"))
    monkeypatch.setattr(service, "_FOLDER_POLL", 0.01)
    monkeypatch.chdir(folder)

    async def run() -> None:
        descriptor = service.lock_folder(folder)
        await asyncio.wait_for(service.Service(tmp_path, descriptor).run(), HANG_SECONDS)
        os.close(descriptor)

    asyncio.run(run())
    assert not list(folder.glob("*.sock"))
