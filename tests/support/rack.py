"""A rack of existing machines: its stack file, and a preflight that presents their host keys without reaching anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rackwright.drivers.host_facts import Facts
from rackwright.drivers.preflight import PreflightRequest, PreflightResult

FINGERPRINTS = {"login0": "SHA256:" + "L" * 43, "worker0": "SHA256:" + "W" * 43, "worker1": "SHA256:" + "X" * 43}
FACTS = Facts("debian-13", 8, 16_000, 90 * 2**20, "m", "none", "systemd", "/usr/bin/python3", 0, ())
NO_KEY = "has no host_key in the stack file"


def stack_text(*workers: str) -> str:
    """Return a stack file of target `hosts`: login0 with its key, and these lines below `machines` for the two workers."""
    lines = "".join(f"        {line}\n" for line in workers)
    return f"""\
# My rack.
config:
  rackwright:cluster:
    target:
      kind: hosts
      os: debian-13
      jump_host: login0
      machines:
        login0: {{address: 10.20.0.2, ssh_address: 203.0.113.9, host_key: "{FINGERPRINTS["login0"]}"}}
{lines}    verify_level: smoke
    network: {{cidr: 10.20.0.0/24}}
    groups:
      login: {{count: 1, roles: [login, controller, accounting], cpus: 2, memory: 2GiB}}
      worker: {{count: 2, cpus: 8, memory: 16GiB}}
    users: {{alice: {{uid: 2001}}}}
"""


def fitting(name: str, **more: Any) -> PreflightResult:
    """Return the result of a machine that fits its declaration, or with other values."""
    found = {"reached": True, "key_type": "ssh-ed25519", "fingerprint": FINGERPRINTS[name], "key_confirmed": True, "logged_in": True}
    return PreflightResult(name, **{**found, "root": True, "facts": FACTS, **more})


class Preflight:
    """In place of `run_preflight`: each machine fits, and presents a key that is confirmed where the stack file has one."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        """The arguments of the last call; empty before it."""
        self.shown: dict[str, PreflightResult] = {}
        """Other results, by machine."""

    def __call__(self, requests: Sequence[PreflightRequest], keys: Sequence[Path], **more: Any) -> list[PreflightResult]:
        self.asked = {"requests": requests, "keys": keys, **more}
        return [self.shown.get(request.route.name) or self._result(request) for request in requests]

    def _result(self, request: PreflightRequest) -> PreflightResult:
        keyless = {} if request.route.host_key else {"key_confirmed": None, "problems": (NO_KEY,)}
        return fitting(request.route.name, **keyless)
