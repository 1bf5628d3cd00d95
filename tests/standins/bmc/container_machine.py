"""A machine that is a container: on while it runs. Its operating system acts on a request to shut down."""

from __future__ import annotations

import json
import subprocess
from typing import Final

from support.machines import podman

_SHUTDOWN: Final = 120
"""Seconds that systemd in the container has to stop its services, before podman kills it."""


class MachineInContainer:
    """A container of podman, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._shutdown: subprocess.Popen[bytes] | None = None
        self.resets: list[str] = []

    def is_on(self) -> bool:
        """Return whether the container runs."""
        return bool(json.loads(podman("container", "inspect", self._name))[0]["State"]["Running"])

    def reset(self, kind: str) -> None:
        """Carry out a reset type on the container; a shutdown goes on after the call, as a BMC answers at once."""
        self.resets.append(kind)
        if kind in ("On", "ForceOn"):
            podman("start", self._name)
        elif kind == "GracefulShutdown":
            self._shutdown = subprocess.Popen(["podman", "stop", "--time", str(_SHUTDOWN), self._name], stdout=subprocess.DEVNULL)
        elif kind == "ForceOff":
            podman("stop", "--time", "0", self._name)

    def end(self) -> None:
        """Wait for a shutdown that still goes on."""
        if self._shutdown is not None:
            self._shutdown.wait(_SHUTDOWN)
