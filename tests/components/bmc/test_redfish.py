"""Redfish against emulated BMCs of six vendors (tests/standins/bmc). No case is evidence of a real BMC; sources are in the profiles."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from standins.bmc.machine import MachineInMemory
from standins.bmc.profiles import DGX, IDRAC, ILO, OPENBMC, PROFILES, SUPERMICRO, XCC, Profile
from standins.bmc.service import SESSIONS, EmulatedBmc

from rackwright.drivers.bmc import redfish_connection
from rackwright.drivers.bmc.access import BmcError, BmcLogin, BmcStartingError, BmcUnavailableError, PowerState
from rackwright.drivers.bmc.certificate import fetch_fingerprint
from rackwright.drivers.bmc.redfish import RedfishPower

from .conftest import CANARY, Start, login_at

Work = Callable[[RedfishPower], Awaitable[Any]]


def use(login: BmcLogin, *work: Work) -> list[Any]:
    """Do the work with one session."""

    async def run() -> list[Any]:
        control = RedfishPower(login)
        try:
            return [await one(control) for one in work]
        finally:
            await control.close()

    return asyncio.run(run())


def refused(login: BmcLogin, work: Work = RedfishPower.state) -> BmcError | BmcUnavailableError:
    """Return the error of the work."""
    with pytest.raises((BmcError, BmcUnavailableError)) as raised:
        use(login, work)
    assert isinstance(raised.value, BmcError | BmcUnavailableError)
    assert CANARY not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_each_vendor_goes_on_and_off(start: Start, profile: Profile) -> None:
    machine = MachineInMemory()
    bmc = start(profile, machine)
    settled = use(
        login_at(bmc),
        RedfishPower.state,
        RedfishPower.power_on,
        RedfishPower.state,
        RedfishPower.state,
        RedfishPower.shut_down,
        RedfishPower.state,
    )
    assert settled[0] is PowerState.OFF
    assert settled[3] is PowerState.ON
    assert machine.resets == ["On", "GracefulShutdown"]
    assert not machine.on
    assert use(login_at(bmc), RedfishPower.power_on, RedfishPower.force_off) == [None, None]
    assert machine.resets[2:] == ["On", "ForceOff"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_each_vendor_keeps_no_session(start: Start, profile: Profile) -> None:
    bmc = start(profile)
    use(login_at(bmc), RedfishPower.state)
    assert bmc.logins == 1
    assert bmc.sessions == {}
    assert bmc.requests[-1][0] == "DELETE"
    assert not {method for method, _ in bmc.requests} - {"GET", "POST", "DELETE"}, "a PATCH would need the ETag"


@pytest.mark.parametrize("profile", [ILO, XCC], ids=["weak", "strong"])
def test_etags_are_not_sent_back(start: Start, profile: Profile) -> None:
    bmc = start(profile)
    use(login_at(bmc), RedfishPower.power_on)
    assert bmc.machine.is_on()
    assert not any("If-Match" in headers for headers in bmc.headers)


def test_powering_on_is_a_state_of_its_own(start: Start) -> None:
    bmc = start(OPENBMC)
    assert use(login_at(bmc), RedfishPower.power_on, RedfishPower.state, RedfishPower.state)[1:] == [PowerState.POWERING_ON, PowerState.ON]


def test_reset_types_may_be_announced_nowhere(start: Start) -> None:
    """DSP0266 permits a service to announce nothing: the types are tried in order."""
    machine = MachineInMemory()
    bmc = start(dataclasses.replace(SUPERMICRO, announced="nowhere", reset_types=("ForceOn", "PushPowerButton", "ForceOff")), machine)
    use(login_at(bmc), RedfishPower.power_on, RedfishPower.shut_down)
    assert machine.resets == ["ForceOn", "PushPowerButton"]
    assert not machine.on


def test_bmc_without_graceful_shutdown_is_an_error(start: Start) -> None:
    bmc = start(dataclasses.replace(SUPERMICRO, reset_types=("On", "ForceOff")), MachineInMemory(on=True))
    error = refused(login_at(bmc), RedfishPower.shut_down)
    assert "offers no GracefulShutdown (it offers: ForceOff, On)" in str(error)
    assert bmc.machine.is_on()


def test_gpu_baseboard_is_not_the_machine(start: Start) -> None:
    """NVIDIA: HGX_Baseboard_0 beside DGX, in either order."""
    bmc = start(DGX)
    use(login_at(bmc), RedfishPower.power_on)
    assert bmc.machine.is_on()
    posted = [path for method, path in bmc.requests if method == "POST" and path != SESSIONS]
    assert posted == ["/redfish/v1/Systems/DGX/Actions/ComputerSystem.Reset"]


def test_several_systems_need_a_declared_one(start: Start) -> None:
    bmc = start(dataclasses.replace(OPENBMC, systems=("node1", "node2")))
    assert "the BMC has 2 systems (node1, node2)" in str(refused(login_at(bmc)))
    assert use(login_at(bmc, system="node1"), RedfishPower.state) == [PowerState.OFF]
    assert "has no system `node3`" in str(refused(login_at(bmc, system="node3")))


class Racing(MachineInMemory):
    """A machine that reports off, and is on when the request comes: a person pressed its button."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def is_on(self) -> bool:
        self.asked += 1
        return self.asked > 1


@pytest.mark.parametrize("profile", [IDRAC, ILO], ids=["409", "400"])
def test_already_on_is_success(start: Start, profile: Profile) -> None:
    """Dell answers HTTP 409, HPE HTTP 400."""
    machine = Racing()
    use(login_at(start(profile, machine)), RedfishPower.power_on)
    assert machine.resets == []


def test_wrong_password_is_tried_once(start: Start) -> None:
    """BMCs lock out users and addresses after a few attempts."""
    bmc = start(IDRAC)
    error = refused(login_at(bmc, password="wrong-password"))
    assert isinstance(error, BmcError)
    assert "refuses the login of user rackwright (HTTP 401)" in str(error)
    assert bmc.logins == 1
    assert [path for _, path in bmc.requests] == ["/redfish/v1/", SESSIONS]


def test_missing_privilege_is_403(start: Start) -> None:
    bmc = start(XCC, role="ReadOnly")
    assert use(login_at(bmc), RedfishPower.state) == [PowerState.OFF]
    assert "does not permit this to user rackwright (HTTP 403)" in str(refused(login_at(bmc), RedfishPower.power_on))


def test_missing_resource_is_404(start: Start) -> None:
    error = refused(login_at(start(OPENBMC, failures=[(404, "Base.1.8.ResourceMissingAtURI")])))
    assert isinstance(error, BmcStartingError)
    assert "HTTP 404" in str(error)


def test_no_session_left_uses_basic(start: Start) -> None:
    """bb-Ricardo/check_redfish#89: HTTP 503 RAC0218."""
    bmc = start(IDRAC, max_sessions=0)
    assert use(login_at(bmc), RedfishPower.state) == [PowerState.OFF]


def test_starting_bmc_is_503_and_passes(start: Start) -> None:
    """openbmc/openbmc#1924: the first request after a start."""
    bmc = start(OPENBMC, failures=[(503, "Base.1.8.ServiceTemporarilyUnavailable")])
    assert use(login_at(bmc), RedfishPower.state) == [PowerState.OFF]
    again = start(OPENBMC, failures=[(503, "Base.1.8.ServiceTemporarilyUnavailable")] * 9)
    error = refused(login_at(again))
    assert isinstance(error, BmcStartingError)
    assert "HTTP 503" in str(error)


def test_idrac_that_is_not_ready_is_starting(start: Start) -> None:
    """quadsproject/badfish#129: HTTP 400 SWC0700 to a query."""
    error = refused(login_at(start(IDRAC, failures=[(400, "IDRAC.1.6.SWC0700: iDRAC is not ready.")])))
    assert isinstance(error, BmcStartingError)


def test_empty_body_is_starting(start: Start) -> None:
    """device-management-toolkit/console#1051: while power changes."""
    assert isinstance(refused(login_at(start(OPENBMC, is_empty=9))), BmcStartingError)


def test_closed_connection_is_starting(start: Start) -> None:
    error = refused(login_at(start(OPENBMC, hang_ups=1)))
    assert isinstance(error, BmcStartingError)
    assert "closes the connection without an answer" in str(error)


def test_slow_bmc_is_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """xcat2/xcat-core#3310: 12 s for the first login."""
    monkeypatch.setattr(redfish_connection, "BMC_ANSWER", 30.0)
    assert use(login_at(start(ILO, delay=0.4)), RedfishPower.state) == [PowerState.OFF]
    monkeypatch.setattr(redfish_connection, "BMC_ANSWER", 0.2)
    error = refused(login_at(start(ILO, delay=1.5)))
    assert isinstance(error, BmcUnavailableError)
    assert "does not answer in time" in str(error)


def test_nothing_listens(start: Start) -> None:
    error = refused(BmcLogin("worker0", "127.0.0.1", 9, "rackwright", CANARY, certificate="AA:" * 31 + "AA"))
    assert isinstance(error, BmcUnavailableError)
    assert "cannot be reached" in str(error)


def test_other_certificate_gets_no_password(start: Start) -> None:
    bmc = start(IDRAC)
    error = refused(login_at(bmc, certificate="AA:" * 31 + "AA"))
    assert isinstance(error, BmcError)
    assert "presents another certificate" in str(error)
    assert bmc.requests == []


def test_certificate_without_pin_and_authority_is_refused(start: Start) -> None:
    bmc = start(IDRAC)
    assert "neither the certificate" in str(refused(login_at(bmc, certificate=None)))
    assert bmc.requests == []


def test_authority_is_verified(start: Start) -> None:
    bmc, other = start(IDRAC), start(IDRAC)
    assert use(login_at(bmc, certificate=None, ca_file=str(bmc.certificate)), RedfishPower.state) == [PowerState.OFF]
    error = refused(login_at(bmc, certificate=None, ca_file=str(other.certificate)))
    assert "`power.ca_file` does not vouch for" in str(error)


def test_redirect_to_plain_http_is_refused(start: Start) -> None:
    bmc = start(XCC, redirects_to="http://127.0.0.1:9/redfish/v1/Systems")
    assert "redirects to an unencrypted address" in str(refused(login_at(bmc)))


def test_absolute_location_is_ended_at_the_bmc(start: Start) -> None:
    """The token goes to the address that was declared, not to a name that the BMC gives."""
    bmc = start(DGX)
    use(login_at(bmc), RedfishPower.state)
    assert bmc.requests[-1][1].startswith(f"{SESSIONS}/")


def test_fingerprint_is_that_of_the_certificate(start: Start) -> None:
    bmc = start(OPENBMC)
    assert asyncio.run(fetch_fingerprint("worker0", "127.0.0.1", bmc.port)) == bmc.fingerprint
    assert bmc.requests == []
    with pytest.raises(BmcUnavailableError, match="presents no certificate"):
        asyncio.run(fetch_fingerprint("worker0", "127.0.0.1", 9))


def everything(bmc: EmulatedBmc) -> None:
    """Do what logs most: log in, change, fail, be refused."""
    use(login_at(bmc), RedfishPower.state, RedfishPower.power_on, RedfishPower.shut_down)
    bmc.failures = [(500, f"the value {CANARY} of Password is wrong")] * 4
    refused(login_at(bmc))
    bmc.failures = []
    bmc.username = "other"
    with pytest.raises(BmcError):
        use(login_at(bmc, username="rackwright"), RedfishPower.state)


def test_password_and_token_are_in_no_log(start: Start, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """Also not at level DEBUG of every logger, and where the BMC repeats the password."""
    caplog.set_level(logging.DEBUG)
    for name in ("sushy", "sushy.connector", "urllib3", "requests"):
        caplog.set_level(logging.DEBUG, logger=name)
    bmc = start(IDRAC, echoes_password=True)
    everything(bmc)
    captured = capfd.readouterr()
    text = caplog.text + captured.out + captured.err + repr(login_at(bmc))
    assert "urllib3" in caplog.text, "the logs were captured"
    assert CANARY not in text
    assert "token-" not in text
