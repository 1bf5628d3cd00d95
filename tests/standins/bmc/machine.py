"""Machines behind an emulated BMC: one in memory. Others have the same methods (tests/e2e/vm/test_bmc.py has one in QEMU)."""

from __future__ import annotations

from typing import Final, Protocol

_OFF: Final = {"ForceOff"}
_POLITE: Final = {"GracefulShutdown"}
_ON: Final = {"On", "ForceOn"}


class Machine(Protocol):
    """What a BMC does to a machine."""

    resets: list[str]
    """Reset types that were carried out."""

    def is_on(self) -> bool:
        """Return whether the machine is on."""

    def reset(self, kind: str) -> None:
        """Carry out a reset type."""


class MachineInMemory:
    """A machine that is a flag."""

    def __init__(self, *, on: bool = False, shuts_down: bool = True, drops: int = 0) -> None:
        self.on = on
        self.shuts_down = shuts_down
        """Whether the operating system acts on a request to shut down."""
        self.drops = drops
        """Requests to power on that are accepted and have no effect."""
        self.resets: list[str] = []

    def is_on(self) -> bool:
        """Return the flag."""
        return self.on

    def reset(self, kind: str) -> None:
        """Set the flag."""
        self.resets.append(kind)
        if kind in _OFF or (kind in _POLITE and self.shuts_down):
            self.on = False
        elif kind in _ON:
            self.drops, self.on = max(self.drops - 1, 0), self.drops == 0
        elif kind == "PushPowerButton":
            self.on = not self.on or not self.shuts_down
