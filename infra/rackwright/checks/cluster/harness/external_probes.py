"""Probes from outside the cluster. They run on this machine or in a container that is not a node. A refused connection counts as
evidence only beside a connection that succeeds.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe_container import run_in_container
from rackwright.checks.cluster.harness.tool_output import MissingAnswer, UnreadableValue
from rackwright.checks.cluster.harness.transport import local_slowness
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.remote.command import python_arguments
from rackwright.remote.programs.tcp_banners import PATIENCE, WORDS, banner, is_refusal, words

_QUERY: Final = 30.0
"""Time limit in seconds for a query of this machine's routes."""
_CONTROL_LIMIT: Final = 3.0
"""Time limit in seconds for a connection that must succeed. On a busy machine, a shorter limit would report a fault of the cluster."""
SSH: Final = 22
"""TCP port of ssh: RFC 4253, section 4."""
KUBERNETES: Final = {6443: "API", 10250: "kubelet", 30080: "node port"}
"""Ports on nodes of Kubernetes that only the cluster may reach, with one of the range of node ports that is in common use."""


@dataclass(frozen=True, eq=False)
class ExternalProbe:
    """One probe from outside of all nodes of a group. Its result is what responded, by node."""

    name: str
    on: str
    probe: Callable[[Inventory, Sequence[str]], Mapping[str, str | UnreadableValue]]
    needed_by: tuple[str, ...]
    """Keys of the checks that need it. It runs only if one of them runs."""

    def __post_init__(self) -> None:
        EXTERNAL_PROBES[self.name] = self


EXTERNAL_PROBES: dict[str, ExternalProbe] = {}
"""All external probes by name."""


def probe_published_port(declared: Inventory, names: Sequence[str]) -> dict[str, str | UnreadableValue]:
    """Return what responds on the published port of the entry nodes; empty if refused, UnreadableValue after a time-out."""
    access = declared.cluster["access"]
    return {name: _response_at(_own_address(access["listen"]), access["port"], _CONTROL_LIMIT * local_slowness()) for name in names}


def _response_at(address: str, port: int, patience: float) -> str | UnreadableValue:
    late = f"no banner within {WORDS * patience / PATIENCE:.0f} s of the connection"
    try:
        response = words(address, port, patience, silent=late)
    except TimeoutError:
        return MissingAnswer(f"{address}:{port}", f"no connection within {patience:.0f} s")
    except OSError as error:
        return "" if is_refusal(error) else MissingAnswer(f"{address}:{port}", str(error))
    return MissingAnswer(f"{address}:{port}", response) if response == late else response


def probe_from_this_machine(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """Return what responds to this machine on the ssh ports of the nodes.

    Rootless networks are in a network namespace of their own. No packet is sent, because it would leave through the gateway of the default
    route. The nodes are unreachable because the kernel has no interface for the address.
    """
    addresses = [declared.nodes[name]["address"] for name in names]
    for address in addresses:
        _refuse_foreign_route(address, on_link(_route(address)), rootless=os.geteuid() != 0)
    if os.geteuid() != 0:
        return dict.fromkeys(names, "")
    with ThreadPoolExecutor(max_workers=32) as pool:
        return dict(zip(names, pool.map(lambda address: banner(address, SSH, PATIENCE * local_slowness()), addresses), strict=True))


def _route(address: str) -> str:
    """Return the kernel's choice for an address, as JSON (ip-route(8)); empty where it has no route."""
    try:
        ended = subprocess.run(
            ["ip", "-json", "route", "get", address],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_QUERY,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise UndeterminedError("ip is not installed on this machine (package iproute2)") from None
    except subprocess.TimeoutExpired:
        raise UndeterminedError(f"ip route get {address}: no answer in {_QUERY:.0f} s") from None
    if ended.returncode and "unreachable" not in ended.stderr:
        raise UndeterminedError(f"ip route get {address}: {ended.stderr.strip() or 'no reason given'}")
    return "" if ended.returncode else ended.stdout


def on_link(route: str) -> bool:
    """Return whether packets reach the address on one of this machine's own networks, without a gateway.

    >>> on_link('[{"dst": "10.77.0.10", "dev": "podman1", "prefsrc": "10.77.0.1"}]')
    True
    >>> on_link('[{"dst": "10.77.0.10", "gateway": "192.0.2.1", "dev": "eth0"}]'), on_link("")
    (False, False)
    """
    return bool(route.strip()) and not any("gateway" in hop or "via" in hop for hop in json.loads(route))


def _refuse_foreign_route(address: str, local: bool, *, rootless: bool) -> None:
    """Raise UndeterminedError where a packet would reach a machine other than the node, or where a time-out would prove nothing."""
    if rootless and local:
        raise UndeterminedError(f"a network of this machine also contains {address}: choose another network.cidr in the stack file")
    if not rootless and not local:
        raise UndeterminedError(f"this machine has no interface on the network of {address}: `podman network ls` lists the networks")


def probe_kubernetes_ports(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """Return the ports of Kubernetes that this machine reaches on the nodes, with what responds; empty where none is reached."""
    targets = [(name, port) for name in names for port in KUBERNETES]
    found: dict[str, list[str]] = {name: [] for name in names}
    with ThreadPoolExecutor(max_workers=32) as pool:
        responses = pool.map(lambda one: connect_result(declared.nodes[one[0]]["address"], one[1]), targets)
        for (name, port), what in zip(targets, responses, strict=True):
            found[name] += [f"{KUBERNETES[port]} ({port}) {what}"] if what else []
    return {name: ", ".join(words) for name, words in found.items()}


def connect_result(address: str, port: int) -> str:
    """Return the result of a connection to a port; empty after a time-out. A refusal passed the firewall, which drops packets silently."""
    try:
        with socket.create_connection((address, port), timeout=PATIENCE * local_slowness()):
            return "accepts"
    except ConnectionRefusedError:
        return "refuses"
    except OSError as error:
        if not is_refusal(error):
            raise
        return ""


def probe_from_external_container(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """Return what responds to a container on the engine's default network, which is not a network of the cluster."""
    found = _responses_to_stranger(declared, names, PATIENCE * local_slowness())
    answered = any(found.get(name) for name in declared.members("@entry"))
    return found if answered else _responses_to_stranger(declared, names, _CONTROL_LIMIT * local_slowness())


def _responses_to_stranger(declared: Inventory, names: Sequence[str], patience: float) -> dict[str, str]:
    addresses = {declared.nodes[name]["address"]: name for name in names}
    program = python_arguments("tcp_banners", {"port": SSH, "patience": patience, "addresses": [*addresses]})
    answered = dict(line.split(" ", 1) for line in run_in_container(declared.stack, program[1:]).splitlines() if " " in line)
    return {addresses[address]: said.strip() for address, said in answered.items() if address in addresses}


def _own_address(listen: str) -> str:
    return "127.0.0.1" if listen in ("0.0.0.0", "::") else listen


@dataclass(frozen=True)
class ExternalProbeResult:
    """The result of an external probe."""

    answers: Mapping[str, Any]
    seconds: float
    error: str = ""


def run_external_probe(external_probe: ExternalProbe, declared: Inventory) -> ExternalProbeResult:
    """Run an external probe. An exception becomes its result."""
    started = time.monotonic()
    try:
        answers = external_probe.probe(declared, declared.members(external_probe.on))
    except Exception as error:  # any exception: its checks become unknown and do not wait
        return ExternalProbeResult({}, time.monotonic() - started, str(error) if isinstance(error, UndeterminedError) else repr(error))
    return ExternalProbeResult(answers, time.monotonic() - started)
