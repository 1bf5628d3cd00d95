"""Power of a machine through IPMI 2.0 over LAN, by the program ipmitool. The password is in its environment, never among its arguments."""

from __future__ import annotations

import os
import re
import shutil
from typing import Final

from rackwright.drivers.bmc.access import BmcError, BmcLogin, BmcUnavailableError, PowerState
from rackwright.drivers.process import ProcessTimeoutError, run
from rackwright.time_limits import BMC_ANSWER, slowness

_PROGRAM: Final = "ipmitool"
_INSTALL: Final = "run `sudo apt-get install ipmitool` (Debian, Ubuntu) or `sudo dnf install ipmitool` (Rocky Linux)"
_LONGEST_PASSWORD: Final = 20
"""Bytes of a password of IPMI 2.0 (section 22.30, Set User Password)."""
_STATE: Final = re.compile(r"Chassis Power is (on|off)", re.IGNORECASE)
_REFUSED: Final = re.compile(
    r"RAKP 2 HMAC is invalid|RAKP 2 message indicates an error : unauthorized name|invalid user name", re.IGNORECASE
)
_PRIVILEGE: Final = re.compile(r"insufficient privilege|requested privilege level exceeds", re.IGNORECASE)
_REMARK: Final = "IANA PEN registry"
"""Start of a line that ipmitool 1.8.19 of Debian 12 prints before every message: it names no cause."""
_INHERITED: Final = ("PATH", "HOME")


class IpmiPower:
    """One machine's power through IPMI. Each call is a process and a session of its own."""

    def __init__(self, login: BmcLogin) -> None:
        self._login = login

    async def state(self) -> PowerState:
        """Return the power state, which is on or off. Raises BmcError, BmcUnavailableError."""
        text = await self._run("status")
        found = _STATE.search(text)
        return PowerState(found[1].lower()) if found else PowerState.UNKNOWN

    async def power_on(self) -> None:
        """Power the machine on; a machine that is on stays on."""
        await self._run("on")

    async def shut_down(self) -> None:
        """Ask the operating system to shut down, through ACPI."""
        if await self.state() is not PowerState.OFF:
            await self._run("soft")

    async def force_off(self) -> None:
        """Cut the power."""
        if await self.state() is not PowerState.OFF:
            await self._run("off")

    async def close(self) -> None:
        """Do nothing: no session is open between two calls."""

    async def _run(self, action: str) -> str:
        """Return what ipmitool prints."""
        login = self._login
        if shutil.which(_PROGRAM) is None:
            raise BmcError("ipmitool is not installed", path=login.node, hint=_INSTALL)
        if len(login.password.encode()) > _LONGEST_PASSWORD:
            hint = "set a shorter password on the BMC, or use `kind: redfish`"
            raise BmcError(f"the password is longer than IPMI's {_LONGEST_PASSWORD} bytes", path=login.node, hint=hint)
        words = [
            _PROGRAM,
            "-I",
            "lanplus",
            "-H",
            login.address,
            "-p",
            str(login.port),
            "-U",
            login.username,
            "-E",
            "chassis",
            "power",
            action,
        ]
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            ended = await run(words, timeout=BMC_ANSWER * slowness(), env={**environment, "LC_ALL": "C", "IPMI_PASSWORD": login.password})
        except ProcessTimeoutError:
            raise self._unavailable("does not answer in time") from None
        if ended.ok:
            return ended.stdout
        raise self._failed(f"{ended.stderr}\n{ended.stdout}".strip())

    def _failed(self, text: str) -> BmcError | BmcUnavailableError:
        login, where = self._login, f"the BMC at {self._login.address}:{self._login.port}"
        if _REFUSED.search(text):
            hint = "correct `username` or the password file; further attempts may lock the user out"
            return BmcError(f"{where} refuses the login of user {login.username}", path=login.node, hint=hint)
        if _PRIVILEGE.search(text):
            hint = "give the user the privilege level Operator or Administrator"
            return BmcError(f"{where} does not permit this to user {login.username}", path=login.node, hint=hint)
        # Also a wrong password: ipmi_sim does not answer it. A BMC that has just started fails as well (openbmc/openbmc#1810).
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_REMARK)] or ["no message"]
        errors = [line for line in lines if line.startswith("Error")]
        return self._unavailable(login.without_secrets(f"does not answer: {(errors or lines)[0][:200]}"))

    def _unavailable(self, what: str) -> BmcUnavailableError:
        login = self._login
        hint = "check address, port, user and password, and that IPMI over LAN is enabled on the BMC"
        return BmcUnavailableError(f"the BMC at {login.address}:{login.port} {what}", path=login.node, hint=hint)
