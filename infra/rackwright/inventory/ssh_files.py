"""One SSH configuration and one set of pinned keys per stack, for Ansible, testinfra and users. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rackwright.inventory import paths
from rackwright.inventory.host import Host, ssh_endpoint
from rackwright.plan import Plan

_EVERYWHERE: Final = (
    ("StrictHostKeyChecking", "yes"),
    ("GlobalKnownHostsFile", "/dev/null"),
    ("UpdateHostKeys", "no"),
    ("IdentitiesOnly", "yes"),
    ("PreferredAuthentications", "publickey"),
    ("ServerAliveInterval", "2"),
    ("LogLevel", "ERROR"),
)
"""ssh refuses a changed key, and never adds one."""
_CONNECT: Final = 3
"""Seconds to connect."""
_EMULATED: Final = 5
"""Factor for machines of target `vm`, whose processor may be emulated: sshd of one of four on two busy cores took more than 6 s to send its
banner (tests/e2e/vm/test_faults.py at a load of 14)."""
_SILENCES: Final = 2
"""Unanswered keep-alives after which a connection is closed: a node that is down is detected within about 5 s."""


def ssh_config(plan: Plan, hosts: Mapping[str, Host], *, slowness: int = 1) -> str:
    """Return the configuration: every node by its name, login nodes directly, the others through them. Time limits grow with `slowness`."""
    known = [hosts[node.name] for node in plan.nodes if node.name in hosts]
    factor = slowness * _EMULATED if plan.target.kind == "vm" else slowness
    blocks = [*(_host(plan, host) for host in known), _common(plan.stack, factor), *_masters(plan.stack, known)]
    return "\n".join([f"# Stack {plan.stack}; written by rackwright, overwritten by the next run.", *blocks])


def known_hosts(plan: Plan, hosts: Mapping[str, Host], *, rotated: Collection[str] = ()) -> str:
    """Return the expected host keys, under names that no other stack uses: one per node, before its first converge the boot key.

    `rotated`: instances that have their own key. A node that was out from the start has presented none yet.
    """
    known = [hosts[node.name] for node in plan.nodes if node.name in hosts]
    lines = [f"{alias(plan, host.name)} {_key(key)}" for host in known for key in _keys(host, rotated) if key]
    return "".join(f"{line}\n" for line in lines)


def alias(plan: Plan, node: str) -> str:
    """Return the name of a node's pinned key.

    Addresses do not work: two stacks may publish their login nodes on the same address and port, one after the other.
    """
    return f"{plan.stack}-{node}"


def _host(plan: Plan, host: Host) -> str:
    way = ssh_endpoint(plan, host)
    lines = [
        f"Host {host.name}",
        f"  HostName {way.address}",
        f"  Port {way.port}",
        f"  User {host.user}",
        f"  HostKeyAlias {alias(plan, host.name)}",
    ]
    if way.jump and way.jump != host.name:
        lines.append(f"  ProxyJump {way.jump}")
    return "\n".join([*lines, ""])


def _common(stack: str, slowness: int) -> str:
    own = (
        ("ConnectTimeout", str(_CONNECT * slowness)),
        ("ServerAliveCountMax", str(_SILENCES * slowness)),
        ("UserKnownHostsFile", _quoted(paths.known_hosts(stack))),
        ("IdentityFile", _quoted(paths.ssh_private_key_file(stack))),
    )
    return "\n".join(["Host *", *(f"  {name} {value}" for name, value in (*own, *_EVERYWHERE)), ""])


def _masters(stack: str, hosts: Sequence[Host]) -> Iterator[str]:
    """Yield options of persistent connections, for the nodes' own user only: `ssh alice@node` over root's connection would be root."""
    socket = _quoted(paths.socket_folder(stack) / "%n")
    for user in sorted({host.user for host in hosts}):
        names = ",".join(host.name for host in hosts if host.user == user)
        yield f"Match originalhost {names} user {user}\n  ControlMaster auto\n  ControlPersist 300\n  ControlPath {socket}\n"


def _keys(host: Host, rotated: Collection[str]) -> tuple[str, ...]:
    return (host.public_key,) if host.instance_uid in rotated else (host.public_key, host.boot_public_key)


def _key(public_key: str) -> str:
    """Return type and base64 of a key, without its comment."""
    return " ".join(public_key.split()[:2])


def _quoted(path: Path) -> str:
    """Return a value quoted for ssh, which splits its configuration at spaces and expands `%`."""
    text = str(path)
    head, tail = (text[:-2].replace("%", "%%"), "%n") if text.endswith("%n") else (text.replace("%", "%%"), "")
    return f'"{head}{tail}"' if " " in text else f"{head}{tail}"
