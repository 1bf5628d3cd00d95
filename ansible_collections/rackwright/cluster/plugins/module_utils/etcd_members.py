"""Query etcd's members through the local one, and remove members that are gone. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks

HERE = "https://127.0.0.1:2379"
CLIENT = 2379
HEX_DIGITS = 16  # of a number of 64 bits
PASSING = ("unhealthy cluster", "context deadline exceeded", "request timed out")
SETTLES = 40  # seconds: etcd removes a member only after five seconds of contact with the others


class Member(NamedTuple):
    """A member of etcd; it has a name once it has started."""

    number: str
    name: str
    address: str


def trust(pki: str) -> list[str]:
    """Return the TLS options of etcdctl on this node."""
    return [f"--cacert={pki}/ca.crt", f"--cert={pki}/healthcheck-client.crt", f"--key={pki}/healthcheck-client.key"]


def number(identity: int | str) -> str:
    """Return the ID of a member as etcdctl takes it: hexadecimal. As text it is hexadecimal or, with more digits than that has, decimal.

    >>> number(255), number("8e9e05c52164694d"), number("10276657743932975437")
    ('ff', '8e9e05c52164694d', '8e9e05c52164694d')
    """
    if isinstance(identity, str) and len(identity) <= HEX_DIGITS:
        return identity
    return format(int(identity), "x")


def parse_members(text: str) -> list[Member]:
    """Parse `etcdctl member list --write-out=json`.

    >>> parse_members('{"members":[{"ID":255,"name":"c1","peerURLs":["https://10.1.0.17:2380"]}]}')
    [Member(number='ff', name='c1', address='10.1.0.17')]
    """
    return [
        Member(number(one["ID"]), one.get("name") or "", urlsplit(next(iter(one.get("peerURLs") or ()), "")).hostname or "")
        for one in json.loads(text)["members"]
    ]


def answers(address: str) -> bool:
    """Return whether etcd's client port is open on the address."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((address, CLIENT)) == 0


def without_majority(controllers: dict[str, str]) -> str:
    """Return a recovery hint if etcd has lost its majority; empty otherwise."""
    there = [name for name, address in controllers.items() if answers(address)]
    if len(controllers) < 2 or len(there) * 2 > len(controllers):
        return ""
    return (
        f"etcd has lost its majority: of {', '.join(controllers)} only {', '.join(there) or 'none'} answers, and the cluster cannot "
        "change - restore the failed controllers with their disks and run the command again; if the disks are lost, run "
        "`rackwright etcd backup` to save the remaining data, `rackwright etcd restore --force` to recreate etcd from it on the reachable "
        "controllers, and `rackwright up` to rejoin the others"
    )


class Members:
    """Manage etcd's members through etcdctl on a member. `run` runs a command and raises `refusal` if it fails."""

    def __init__(self, run: Callable[..., str], refusal: type[Exception], folder: str) -> None:
        self._run = run
        self._refusal = refusal
        self._trust = trust(os.path.join(folder, "pki", "etcd"))

    def found(self) -> list[Member]:
        """Return all members, as agreed by a majority."""
        return parse_members(self._etcdctl("member", "list", "--write-out=json"))

    def gone(self, leaving: dict[str, str]) -> list[Member]:
        """Return members of the removed nodes (name to address); unreachable ones come first, which keeps the majority longer."""
        found = [one for one in self.found() if one.name in leaving or one.address in leaving.values()]
        return sorted(found, key=lambda one: answers(one.address))

    def lead_here(self) -> None:
        """Make the member on this node the leader.

        A leader that is removed from a cluster of two stops before the other member learns that it is alone. The other member then finds no
        majority until the kubelet restarts it, a minute later (etcd 3.6.4, seen 2026-11-26). Do nothing if no leader is known.
        """
        (status,) = json.loads(self._etcdctl("endpoint", "status", "--write-out=json"))
        here, leader = map(number, (status["Status"]["header"]["member_id"], status["Status"].get("leader", 0)))
        found = next((one for one in self.found() if one.number == leader), None)
        if leader != here and found is not None:
            self._etcdctl("move-leader", here, endpoint=f"https://{found.address}:{CLIENT}")

    def remove(self, member: Member) -> None:
        """Remove a member; retry while etcd refuses because the other members have not settled."""
        until = time.monotonic() + SETTLES
        for now in ticks(until):
            try:
                self._etcdctl("member", "remove", member.number)
            except self._refusal as error:
                if "not found" in str(error).lower():  # An earlier attempt succeeded after its timeout.
                    return
                if not any(word in str(error) for word in PASSING) or now > until:
                    raise
                continue
            return

    def _etcdctl(self, *words: str, endpoint: str = HERE) -> str:
        return self._run("etcdctl", *words, "--command-timeout=30s", f"--endpoints={endpoint}", *self._trust)
