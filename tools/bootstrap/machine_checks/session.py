"""The user's systemd session, in which rootless Podman creates the containers' control groups."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NamedTuple

from bootstrap import packages
from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown

_PATIENCE = 1.0
_LOGIN = "Then log in as {user} over ssh or with `sudo machinectl shell {user}@`; shells of `su` and `sudo -u` have no session."


class Session(NamedTuple):
    """The session of this process."""

    boots_systemd: bool
    runtime_folder: str | None
    """XDG_RUNTIME_DIR."""
    owner: int | None
    """User id of that folder's owner; None if the folder is missing."""
    bus: str
    """Path of the D-Bus socket that Podman would use; empty if the address has no path."""
    bus_error: str
    """Error of connecting to the socket; empty if it accepts a connection."""
    has_manager: bool
    """Whether the user manager has its socket in the runtime folder."""


def check_session(machine: Machine) -> list[Finding]:
    """Check the session of an ordinary user."""
    session = observe_session(machine)
    if session.bus_error and packages.missing(machine, (packages.USER_BUS,)):
        return [unknown("user session", "the user's D-Bus is not installed yet"), judge_linger(machine)]
    return [judge_session(session, machine), judge_linger(machine)]


def observe_session(machine: Machine) -> Session:
    """Find the bus as Podman does: DBUS_SESSION_BUS_ADDRESS, else `bus` in XDG_RUNTIME_DIR, else in /run/user/UID.

    Source: containers/common, pkg/config, CheckCgroupsAndAdjustConfig.
    """
    folder = machine.environ.get("XDG_RUNTIME_DIR")
    place = Path(folder) if folder else machine.root / f"run/user/{machine.user_id}"
    address = machine.environ.get("DBUS_SESSION_BUS_ADDRESS")
    bus = bus_path(address) if address else str(place / "bus")
    try:
        owner = place.stat().st_uid
    except OSError:
        owner = None
    has_manager = os.path.exists(place / "systemd/private")
    return Session(machine.has_file("/run/systemd/system"), folder, owner, bus, _connect(bus), has_manager)


def bus_path(address: str) -> str:
    """Return the path in a D-Bus address, `unix:path=/run/user/1000/bus,guid=…`; an empty string without one."""
    return next((part[len("unix:path=") :] for part in address.split(",") if part.startswith("unix:path=")), "")


def _connect(path: str) -> str:
    if not path:
        return "its address is no path"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_PATIENCE)
        try:
            client.connect(path)
        except OSError as error:
            return error.strerror or str(error)
    return ""


def judge_session(session: Session, machine: Machine) -> Finding:
    """Judge the session of this machine's user."""
    subject, user = "user session", machine.user
    then = _LOGIN.format(user=user)
    if not session.boots_systemd:
        return Finding(
            Level.ERROR,
            subject,
            "missing (expected systemd as the first process, found another)",
            "rootless Podman has systemd create the nodes' control groups",
            then="Use a machine that systemd boots (WSL 2: `systemd=true` under `[boot]` in /etc/wsl.conf), or run as root: sudo make up",
        )
    if session.runtime_folder and session.owner != machine.user_id:
        found = "a missing folder" if session.owner is None else f"a folder of user id {session.owner}"
        return Finding(
            Level.ERROR,
            subject,
            f"XDG_RUNTIME_DIR is {session.runtime_folder} (expected a folder of user {user}, found {found})",
            "Podman refuses a runtime folder of another user",
            ("unset XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS", f"sudo loginctl enable-linger {user}"),
            then,
        )
    if not session.bus:
        return unknown(subject, "DBUS_SESSION_BUS_ADDRESS names no socket file")
    if session.bus_error:
        return _bus_finding(session, machine)
    return ok(subject, f"D-Bus at {session.bus}")


def _bus_finding(session: Session, machine: Machine) -> Finding:
    """Return the finding for a bus that does not respond. A running user manager starts the bus; without one, linger starts a manager."""
    folder = () if session.runtime_folder else (f"export XDG_RUNTIME_DIR=/run/user/{machine.user_id}",)
    started = (*folder, "systemctl --user daemon-reload", "systemctl --user start dbus.socket")
    return Finding(
        Level.ERROR,
        "user session",
        f"the user's D-Bus does not answer (expected a socket at {session.bus}, found: {session.bus_error})",
        "Podman falls back to cgroupfs then, and systemd in the nodes may not create its groups",
        started if session.has_manager else (f"sudo loginctl enable-linger {machine.user}",),
        _LOGIN.format(user=machine.user),
    )


def judge_linger(machine: Machine) -> Finding:
    """Judge whether the user's processes outlive the session: logind records this as a file."""
    subject = "linger"
    if not machine.has_file("/var/lib/systemd"):
        return unknown(subject, "/var/lib/systemd is not there")
    if machine.has_file(f"/var/lib/systemd/linger/{machine.user}"):
        return ok(subject, "enabled: containers outlive the session")
    reason = "systemd ends the containers when the user's last session ends"
    found = f"disabled for {machine.user} (expected enabled)"
    return Finding(Level.WARNING, subject, found, reason, (f"sudo loginctl enable-linger {machine.user}",))
