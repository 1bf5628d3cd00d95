"""Power of a machine through the Redfish service of its BMC, by OpenStack's sushy (docs/adr/0042-power-through-sushy-and-ipmitool.md)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import sushy
from sushy import exceptions

from rackwright.drivers.bmc.access import BmcError, BmcLogin, BmcStartingError, BmcUnavailableError, PowerState
from rackwright.drivers.bmc.redfish_connection import connect

_ON: Final = (sushy.ResetType.ON, sushy.ResetType.FORCE_ON, sushy.ResetType.PUSH_POWER_BUTTON)
_SHUT_DOWN: Final = (sushy.ResetType.GRACEFUL_SHUTDOWN, sushy.ResetType.PUSH_POWER_BUTTON)
_OFF: Final = (sushy.ResetType.FORCE_OFF,)
"""Reset types in the order of preference: no BMC has all. A power button is a request to the operating system, as on the front panel."""
_STATES: Final = {
    sushy.PowerState.ON: PowerState.ON,
    sushy.PowerState.OFF: PowerState.OFF,
    sushy.PowerState.POWERING_ON: PowerState.POWERING_ON,
    sushy.PowerState.POWERING_OFF: PowerState.POWERING_OFF,
    sushy.PowerState.PAUSED: PowerState.PAUSED,
}
_ON_ITS_WAY: Final = {PowerState.ON: {PowerState.ON, PowerState.POWERING_ON}, PowerState.OFF: {PowerState.OFF, PowerState.POWERING_OFF}}
_GPU_BASEBOARD: Final = "HGX_"
"""Systems of NVIDIA's GPU baseboards (HGX_Baseboard_0), beside the machine's own (docs.nvidia.com, DPS: Redfish API)."""
_NOT_READY: Final = ("SWC0700", "SYS518")
"""Messages of an iDRAC that has just started: "iDRAC is not ready" with HTTP 400 (quadsproject/badfish#129)."""
_HUNG_UP: Final = ("RemoteDisconnected", "Connection reset by peer")
"""Parts of errors of a BMC that ended a connection. Requests are not repeated below the operation: a button would be pressed twice."""
_BAD_REQUEST, _FORBIDDEN, _CONFLICT = 400, 403, 409
_Result = TypeVar("_Result")


class RedfishPower:
    """One machine's power through Redfish. Calls wait in threads and come one after the other; the session lasts until `close`."""

    def __init__(self, login: BmcLogin) -> None:
        self._login = login
        self._root: Any = None
        self._system: Any = None

    async def state(self) -> PowerState:
        """Return the power state. Raises BmcError, BmcUnavailableError."""
        return await self._call(self._state)

    async def power_on(self) -> None:
        """Power the machine on; a BMC that reports it as on already has done so."""
        await self._call(lambda: self._reset(_ON, PowerState.ON))

    async def shut_down(self) -> None:
        """Ask the operating system to shut down."""
        await self._call(lambda: self._reset(_SHUT_DOWN, PowerState.OFF))

    async def force_off(self) -> None:
        """Cut the power."""
        await self._call(lambda: self._reset(_OFF, PowerState.OFF))

    async def close(self) -> None:
        """End the session, so that it does not count against the BMC's limit (theforeman/smart-proxy#895)."""
        await asyncio.to_thread(self._close)

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.to_thread(self._explained, work)

    def _explained(self, work: Callable[[], _Result]) -> _Result:
        with _explain(self._login):
            return work()

    def _close(self) -> None:
        root, self._root, self._system = self._root, None, None
        if root is not None:
            with contextlib.suppress(exceptions.SushyError):
                root._auth.close()

    def _state(self) -> PowerState:
        system = self._current()
        return _STATES.get(system.power_state, PowerState.UNKNOWN)

    def _current(self) -> Any:
        """Return the machine's system, as it is now."""
        if self._system is None:
            if self._root is None:
                self._root = connect(self._login)
            self._system = _own_system(self._root.get_system_collection(), self._login)
        else:
            self._system.refresh(force=True)
        return self._system

    def _reset(self, wanted: tuple[sushy.ResetType, ...], goal: PowerState) -> None:
        """Request the first reset type that the BMC accepts, unless the machine is on its way to the state already."""
        system = self._current()
        if _STATES.get(system.power_state, PowerState.UNKNOWN) is goal:
            return
        offered = system.get_allowed_reset_system_values()
        usable = [kind for kind in wanted if kind in offered]
        for kind in usable:
            try:
                system.reset_system(kind)
                return
            except exceptions.HTTPError as refused:
                if refused.status_code not in (_BAD_REQUEST, _CONFLICT):
                    raise
                if self._state() in _ON_ITS_WAY[goal]:
                    return  # "already powered on": HTTP 409 of an iDRAC, HTTP 400 of an iLO.
                if kind is usable[-1] or any(word in str(refused) for word in _NOT_READY):
                    raise
        names = ", ".join(sorted(kind.value for kind in offered)) or "none"
        cause = f"the BMC offers no {wanted[0].value} (it offers: {names})"
        raise BmcError(cause, path=self._login.node, hint="use the web page of the BMC, or update its firmware")


def _own_system(collection: Any, login: BmcLogin) -> Any:
    """Return the system that is the machine. Raises BmcError if the BMC has none, or several and none is declared."""
    paths = {path.rstrip("/").rpartition("/")[2]: path for path in collection.members_identities}
    if login.system is not None:
        if login.system not in paths:
            cause = f"the BMC has no system `{login.system}` (found {', '.join(paths) or 'none'})"
            raise BmcError(cause, path=f"{login.node}: power.system", hint="correct `system`, or remove it if the BMC has a single one")
        return collection.get_member(paths[login.system])
    mine = [name for name in paths if not name.startswith(_GPU_BASEBOARD)] or list(paths)
    systems = [collection.get_member(paths[name]) for name in mine]
    able = [system for system in systems if system._actions and system._actions.reset] if len(systems) > 1 else systems
    if len(able) == 1:
        return able[0]
    cause = f"the BMC has {len(paths)} systems ({', '.join(paths) or 'none'})"
    raise BmcError(cause, path=login.node, hint="declare the machine's as `power.system`")


@contextlib.contextmanager
def _explain(login: BmcLogin) -> Iterator[None]:
    """Raise sushy's errors as errors that users can act on, without secrets."""
    where = f"the BMC at {login.address}:{login.port}"
    try:
        yield
    except exceptions.AccessError as error:
        raise _refused(login, where, error.status_code) from None
    except exceptions.ResourceNotFoundError:
        hint = "enable Redfish on the BMC, or use `kind: ipmi`; a BMC that has just started needs some minutes"
        raise BmcStartingError(f"{where} has no such Redfish resource (HTTP 404)", path=login.node, hint=hint) from None
    except exceptions.ConnectionError as error:
        raise _unreachable(login, where, str(error)) from None
    except exceptions.HTTPError as error:
        text = login.without_secrets(f"{where} answers HTTP {error.status_code}: {error.detail or error.code}")
        busy = error.status_code >= 500 or any(word in str(error) for word in _NOT_READY)
        hint = "the BMC may be starting: try again in some minutes" if busy else "see the log of the BMC"
        raise (BmcStartingError if busy else BmcError)(text, path=login.node, hint=hint) from None
    except (exceptions.SushyError, ValueError, TypeError, KeyError, AttributeError) as error:
        # BMCs answer with empty bodies while power changes (device-management-toolkit/console#1051).
        text = login.without_secrets(f"{where} answers what Redfish does not allow: {str(error).splitlines()[0][:200]}")
        raise BmcStartingError(text, path=login.node, hint="try again; if it remains, update the BMC's firmware") from None


def _refused(login: BmcLogin, where: str, status: int) -> BmcError:
    if status == _FORBIDDEN:
        hint = "give the user the role Operator or Administrator; a BMC also refuses while the initial password must be changed"
        return BmcError(f"{where} does not permit this to user {login.username} (HTTP 403)", path=login.node, hint=hint)
    hint = "correct `username` or the password file; further attempts may lock the user out"
    return BmcError(f"{where} refuses the login of user {login.username} (HTTP {status})", path=login.node, hint=hint)


def _unreachable(login: BmcLogin, where: str, text: str) -> BmcError | BmcUnavailableError:
    if "Fingerprints did not match" in text:
        cause = f"{where} presents another certificate than `power.certificate`: it was renewed, or the connection is intercepted"
        return BmcError(cause, path=login.node, hint="compare `rackwright power STACK certificates` with the web page of the BMC")
    if "CERTIFICATE_VERIFY_FAILED" in text:
        cause = f"{where} presents a certificate that `power.ca_file` does not vouch for"
        return BmcError(cause, path=login.node, hint="declare the fingerprint as `power.certificate`, or correct `ca_file`")
    if "not encrypted" in text:
        return BmcError(login.without_secrets(f"{where} redirects to an unencrypted address"), path=login.node, hint="enable HTTPS only")
    if any(word in text for word in _HUNG_UP):
        return BmcStartingError(f"{where} closes the connection without an answer", path=login.node, hint="try again in some minutes")
    late = "does not answer in time" if "timed out" in text else f"cannot be reached: {_reason(text)}"
    return BmcUnavailableError(f"{where} {late}", path=login.node, hint="check address, port and the route to the management network")


def _reason(text: str) -> str:
    """Return the system's words in an error of requests.

    >>> _reason("HTTPSConnectionPool(host='a', port=1): (Caused by NewConnectionError('a: [Errno 111] Connection refused'))")
    'Connection refused'
    """
    found = re.findall(r"\[Errno -?[0-9]+\] ([^'\")]+)|(\w+Error|RemoteDisconnected)\(", text)
    return next((words for words, _ in found if words), found[-1][1] if found else "no connection")
