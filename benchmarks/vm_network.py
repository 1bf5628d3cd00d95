"""`make bench-vm-network`: CPU time and throughput of the network between virtual machines, beside a bare copy between two sockets.

usage: python benchmarks/vm_network.py [--frames N] [--rounds N] [--write]      --write puts the table into docs/performance.md

Machines are sockets of this process. It sends eight frames and receives them before it sends more, so that no queue overflows: the
elapsed time includes its own part and the change between processes, the CPU time is that of the forwarding process alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "infra"), str(HERE.parent / "tests")]

from support.ethernet import ethernet, udp  # noqa: E402

from rackwright.drivers.vm.network import client  # noqa: E402
from rackwright.drivers.vm.network.topology import Cable, Port, Switch, Topology  # noqa: E402

_PAGE: Final = HERE.parent / "docs" / "performance.md"
_MARKS: Final = ("<!-- vm-network -->", "<!-- /vm-network -->")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_MTU: Final = 4400
"""Bytes: a RoCE MTU of 4,096 with its headers."""
_BURST: Final = 8
"""Frames on their way at a time; a socket holds ten or more (net.unix.max_dgram_qlen)."""
_FLOWS: Final = 64
"""UDP source ports, as many queue pairs have."""
_GOAL: Final = 10
"""CPU time of a frame through two leaves and a spine, in copies."""
_MACS: Final = ("52:54:00:00:00:01", "52:54:00:00:00:02")
_COPY: Final = """
import os, select, socket, sys
os.chdir(sys.argv[1])
inward, outward = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
inward.bind("m0.sock")
inward.setblocking(False)
outward.connect("../m1.sock")
arrived = select.epoll()
arrived.register(inward, select.EPOLLIN)
print("ready", flush=True)
while arrived.poll():
    try:
        while True:
            outward.send(inward.recv(1 << 17))
    except BlockingIOError:
        pass
"""
Forwarder = Callable[[Path], Any]


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of the forwarding process's CPU, for one frame."""

    elapsed: float
    cpu: float


def main() -> int:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--frames", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    table = measure(asked.frames, asked.rounds)
    print(table)
    if asked.write:
        head, rest = _PAGE.read_text().split(_MARKS[0])
        _PAGE.write_text(f"{head}{_MARKS[0]}\n\n{machine(asked.frames)}\n\n{table}\n\n{_MARKS[1]}{rest.split(_MARKS[1])[1]}")
    return 0


def measure(frames: int, rounds: int) -> str:
    """Return all rows as a table; ratios are taken within each round, so that a busy machine weighs on both sides."""
    forwarders: dict[str, Forwarder] = {
        "copy from socket to socket": copying,
        "one switch": lambda folder: network(folder, switched()),
        "leaf, one of two spines, leaf": lambda folder: network(folder, routed(None)),
        "the same, each link with a rate of 10 Gbit/s": lambda folder: network(folder, routed(10_000)),
    }
    found: dict[str, list[Cost]] = {name: [] for name in forwarders}
    for _ in range(rounds):
        for name, forwarder in forwarders.items():
            found[name].append(cost(forwarder, frames))
    base = found["copy from socket to socket"]
    lines = ["| what | CPU of a frame | against a copy | frames per second | goal |", "|---|---|---|---|---|"]
    for name, costs in found.items():
        ratio = statistics.median(mine.cpu / copy.cpu for mine, copy in zip(costs, base, strict=True))
        cpu, elapsed = (statistics.median(getattr(one, kind) for one in costs) for kind in ("cpu", "elapsed"))
        goal = f"≤ {_GOAL} ×" if name.startswith("leaf") else ""
        lines.append(
            f"| {name} | {cpu * 1e6:.1f} µs | {ratio:.1f} × | {1 / elapsed:,.0f} ({8 * _MTU / elapsed / 1e6:,.0f} Mbit/s) | {goal} |"
        )
    return "\n".join(lines)


def cost(forwarder: Forwarder, frames: int) -> Cost:
    """Send frames from one machine to the other; every frame must arrive."""
    sent = [ethernet(*_MACS, roce(49152 + flow), kind=0x0800) for flow in range(_FLOWS)]
    with tempfile.TemporaryDirectory(prefix="rackwright-vm-") as place, ExitStack() as stack:
        folder = Path(place) / "network"
        folder.mkdir()
        sender, receiver = (stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) for _ in range(2))
        receiver.bind(f"{place}/m1.sock")
        receiver.settimeout(60)
        pid = stack.enter_context(forwarder(folder))
        sender.connect(f"{folder}/m0.sock")
        started, before = time.monotonic(), cpu_seconds(pid)
        for first in range(0, frames, _BURST):
            for number in range(first, first + _BURST):
                sender.send(sent[number % _FLOWS])
            for number in range(first, first + _BURST):
                assert receiver.recv(1 << 17) is not None, number
        return Cost((time.monotonic() - started) / frames, (cpu_seconds(pid) - before) / frames)


def roce(port: int) -> bytes:
    """Return a packet to the port of RoCEv2, as long as the MTU."""
    return udp("10.0.0.1", "10.0.0.2", (port, 4791)).ljust(_MTU, b"\0")


@contextmanager
def copying(folder: Path) -> Iterator[int]:
    """Yield the process that copies datagrams and does nothing else."""
    with subprocess.Popen([sys.executable, "-c", _COPY, folder], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        try:
            yield child.pid
        finally:
            child.kill()


@contextmanager
def network(folder: Path, topology: Topology) -> Iterator[int]:
    """Yield the process of a network."""
    try:
        yield client.start(folder, topology).pid
    finally:
        client.stop(folder)


def switched() -> Topology:
    """Return two machines on one switch."""
    return Topology(switches={"s": Switch(mtu=_MTU)}, ports=ports("s", "s", None))


def routed(rate: float | None) -> Topology:
    """Return two machines on two leaves, with two spines."""
    return Topology(
        switches={name: Switch(mtu=_MTU) for name in ("l0", "l1", "s0", "s1")},
        ports=ports("l0", "l1", rate),
        cables=tuple(Cable(name=f"{leaf}-{spine}", a=leaf, b=spine, rate_mbps=rate) for leaf in ("l0", "l1") for spine in ("s0", "s1")),
    )


def ports(first: str, second: str, rate: float | None) -> tuple[Port, ...]:
    """Return the ports of both machines."""
    ends = enumerate(zip((first, second), _MACS, strict=True))
    return tuple(Port(name=f"m{n}", switch=switch, mac=mac, peer=f"../m{n}.sock", rate_mbps=rate) for n, (switch, mac) in ends)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process (man 5 proc, stat fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def machine(frames: int) -> str:
    """Return what it was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Measured on {date.today()} with `make bench-vm-network`: {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"kernel {platform.release().split('-')[0]}, Python {platform.python_version()}, load {os.getloadavg()[0]:.0f}, "
        f"{frames:,} frames with {_MTU:,} bytes of payload a round."
    )


if __name__ == "__main__":
    sys.exit(main())
