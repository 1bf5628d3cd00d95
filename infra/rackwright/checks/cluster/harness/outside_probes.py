"""Looks from outside the cluster: from this machine, and from a container that is no node. A refusal counts only beside an answer."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.checks.cluster.harness.tool_output import NoAnswer, Unread
from rackwright.checks.cluster.harness.transport import local_slowness
from rackwright.errors import UndeterminedError
from rackwright.inventory.reader import Inventory
from rackwright.remote.command import python_arguments
from rackwright.remote.programs.tcp_banners import PATIENCE, WORDS, banner, keeps_out, words

EPHEMERAL: Final = "rackwright.ephemeral"
"""The label of a container that is gone when its question is answered; a look for drift beside it knows it by that (drivers/podman.py)."""
_ENGINE: Final = 30.0
"""Seconds podman may take for a short container: some on a machine that is busy with a look at 64 nodes."""
_AT_LEISURE: Final = 3.0
"""Seconds for what has to answer: where the machine has no time, its silence would be taken for the cluster's."""
SSH: Final = 22
"""TCP port of ssh: RFC 4253, section 4."""
KUBERNETES: Final = {6443: "API", 10250: "kubelet", 30080: "node port"}
"""What listens on nodes of Kubernetes for the cluster alone; of the range of node ports one that many take."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """One look from outside at all nodes of a group: what answered, by node."""

    name: str
    on: str
    look: Callable[[Inventory, Sequence[str]], Mapping[str, str | Unread]]
    serves: tuple[str, ...]
    """Checks that need it; it is not carried out for others."""

    def __post_init__(self) -> None:
        OUTLOOKS[self.name] = self


OUTLOOKS: dict[str, Outlook] = {}
"""Every outlook there is, by name."""


def published(declared: Inventory, names: Sequence[str]) -> dict[str, str | Unread]:
    """What answers on the published port of the entry nodes; empty where the connection is refused, Unread where nothing comes in time."""
    access = declared.cluster["access"]
    return {name: _answering(_own_address(access["listen"]), access["port"], _AT_LEISURE * local_slowness()) for name in names}


def _answering(address: str, port: int, patience: float) -> str | Unread:
    late = f"no word within {WORDS * patience / PATIENCE:.0f} s of the connection"
    try:
        said = words(address, port, patience, silent=late)
    except TimeoutError:
        return NoAnswer(f"{address}:{port}", f"no connection within {patience:.0f} s")
    except OSError as error:
        return "" if keeps_out(error) else NoAnswer(f"{address}:{port}", str(error))
    return NoAnswer(f"{address}:{port}", said) if said == late else said


def from_this_machine(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """What answers this machine on the nodes' own ssh ports.

    Rootless networks lie in a network namespace of their own: no packet is sent, since it would leave for the default route's gateway.
    That the kernel has no interface for the address proves that nothing answers.
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
            ["ip", "-json", "route", "get", address], capture_output=True, text=True, timeout=_ENGINE, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise UndeterminedError("ip is not installed on this machine (package iproute2)") from None
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
    """Raise where a packet to the address would reach another machine than the node, or nothing could be concluded from silence."""
    if rootless and local:
        raise UndeterminedError(f"a network of this machine also contains {address}: choose another network.cidr in the stack file")
    if not rootless and not local:
        raise UndeterminedError(f"this machine has no interface on the network of {address}: `podman network ls` lists the networks")


def ports_of_kubernetes(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """Ports of Kubernetes that this machine reaches on the nodes, with what is there; empty where none is reached."""
    asked = [(name, port) for name in names for port in KUBERNETES]
    found: dict[str, list[str]] = {name: [] for name in names}
    with ThreadPoolExecutor(max_workers=32) as pool:
        said = pool.map(lambda one: reached(declared.nodes[one[0]]["address"], one[1]), asked)
        for (name, port), what in zip(asked, said, strict=True):
            found[name] += [f"{KUBERNETES[port]} ({port}) {what}"] if what else []
    return {name: ", ".join(words) for name, words in found.items()}


def reached(address: str, port: int) -> str:
    """Whether a packet gets there. A refusal comes from behind the filter, which drops without a word; empty where nothing comes."""
    try:
        with socket.create_connection((address, port), timeout=PATIENCE * local_slowness()):
            return "accepts"
    except ConnectionRefusedError:
        return "refuses"
    except OSError as error:
        if not keeps_out(error):
            raise
        return ""


def from_a_stranger(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """What answers a container on the engine's default network, which is no network of the cluster."""
    found = _stranger_sees(declared, names, PATIENCE * local_slowness())
    answered = any(found.get(name) for name in declared.members("@entry"))
    return found if answered else _stranger_sees(declared, names, _AT_LEISURE * local_slowness())


def _stranger_sees(declared: Inventory, names: Sequence[str], patience: float) -> dict[str, str]:
    addresses = {declared.nodes[name]["address"]: name for name in names}
    image = _image_of_a_node(declared.stack)
    limits = [argument for name, kind in _LIMITS for argument in ("--ulimit", f"{name}={_hard(kind)}")]
    label = f"rackwright.stack={declared.stack}"  # so that the stack's sweep finds it if this is killed
    program = python_arguments("tcp_banners", {"port": SSH, "patience": patience, "addresses": [*addresses]})
    command = [
        "run",
        "--rm",
        "--network",
        "podman",
        "--label",
        label,
        "--label",
        f"{EPHEMERAL}=check",
        *limits,
        "--entrypoint",
        "/usr/bin/python3",
        image,
        *program[1:],
    ]
    answered = dict(line.split(" ", 1) for line in _podman(command).splitlines() if " " in line)
    return {addresses[address]: said.strip() for address, said in answered.items() if address in addresses}


_LIMITS: Final = (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))


def _hard(kind: int) -> str:
    """The engine's default limits may exceed what this machine's kernel grants."""
    hard = resource.getrlimit(kind)[1]
    granted = 32768 if hard == resource.RLIM_INFINITY else min(hard, 32768)
    return f"{granted}:{granted}"


def _own_address(listen: str) -> str:
    return "127.0.0.1" if listen in ("0.0.0.0", "::") else listen


def _image_of_a_node(stack: str) -> str:
    """Any node's image: the stranger must not need one of its own."""
    images = _podman(["ps", "--filter", f"label=rackwright.stack={stack}", "--format", "{{.ImageID}}"]).split()
    if not images:
        raise UndeterminedError(f"no container of stack {stack} runs on this machine")
    return images[0]


def _podman(arguments: list[str]) -> str:
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    command = ["podman", *([] if unified else ["--runtime", "runc"]), *arguments]
    limit = _ENGINE * local_slowness()
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise UndeterminedError("podman is not installed on this machine") from None
    except subprocess.TimeoutExpired:
        raise UndeterminedError(f"podman {arguments[0]}: timed out after {limit:.0f} s") from None
    if ended.returncode:
        said = (ended.stderr.strip() or "no reason given").splitlines()[-1]
        raise UndeterminedError(f"podman {arguments[0]}: {said}")
    return ended.stdout


@dataclass(frozen=True)
class Looked:
    """What an outlook came to."""

    answers: Mapping[str, Any]
    seconds: float
    trouble: str = ""


def look(outlook: Outlook, declared: Inventory) -> Looked:
    """Carry out an outlook; what goes wrong with it is its answer."""
    started = time.monotonic()
    try:
        answers = outlook.look(declared, declared.members(outlook.on))
    except Exception as error:  # a look that breaks must leave its checks unknown, not waiting
        return Looked({}, time.monotonic() - started, str(error) if isinstance(error, UndeterminedError) else repr(error))
    return Looked(answers, time.monotonic() - started)
