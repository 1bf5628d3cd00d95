"""What both protocols share: the login at a BMC, power states, errors, and text without secrets."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from rackwright.errors import RackwrightError, UndeterminedError
from rackwright.masking import mask
from rackwright.printable import printable


class PowerState(StrEnum):
    """Power states of a machine, as Redfish names them (ComputerSystem, PowerState); `unknown` if the BMC states none."""

    ON = "on"
    OFF = "off"
    POWERING_ON = "powering-on"
    POWERING_OFF = "powering-off"
    PAUSED = "paused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BmcLogin:
    """Where a BMC is, and with what it is entered."""

    node: str
    address: str
    port: int
    username: str
    password: str = field(repr=False)
    system: str | None = None
    certificate: str | None = None
    """Expected SHA-256 fingerprint, as `rackwright.model.targets.bmc.parse_fingerprint` returns it."""
    ca_file: str | None = None

    def without_secrets(self, text: object) -> str:
        """Return a text for people in which the password is masked, in its own form and in that of HTTP Basic."""
        basic = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return printable(mask(str(text), [secret for secret in (basic, self.password) if secret]))


class PowerControl(Protocol):
    """One machine's power. Each call takes seconds; none waits until the machine has changed its state."""

    async def state(self) -> PowerState:
        """Return the power state."""

    async def power_on(self) -> None:
        """Ask the BMC to power the machine on; do nothing more if it is on."""

    async def shut_down(self) -> None:
        """Ask the operating system, through the BMC, to shut down."""

    async def force_off(self) -> None:
        """Cut the power of the machine."""

    async def close(self) -> None:
        """End the session at the BMC."""


class BmcError(RackwrightError):
    """The BMC refuses: a login, a certificate or an operation that it does not have. Repetition does not help."""


class BmcUnavailableError(UndeterminedError):
    """The BMC does not answer, or not yet: a later attempt may succeed."""


class BmcStartingError(BmcUnavailableError):
    """The BMC answers that it cannot answer yet, as in the minutes after its start."""
