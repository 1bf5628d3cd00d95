"""The user manager, its D-Bus and linger."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from bootstrap.machine_checks import session
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.session import Session

GOOD = Session(True, "/run/user/1000", 1000, "/run/user/1000/bus", "", True)
UNIT = "/usr/lib/systemd/user/dbus.socket"


@pytest.mark.parametrize(
    ("seen", "level", "words"),
    [
        (GOOD, Level.OK, "D-Bus at /run/user/1000/bus"),
        (GOOD._replace(runtime_folder=None), Level.OK, "D-Bus at"),  # su - alice, with linger: Podman finds the folder
        (GOOD._replace(runtime_folder="/run/user/0", owner=0), Level.ERROR, "found a folder of user id 0"),  # su alice
        (GOOD._replace(owner=None), Level.ERROR, "found a missing folder"),
        (GOOD._replace(runtime_folder=None, owner=None, bus_error="No such file or directory"), Level.ERROR, "D-Bus does not answer"),
        (GOOD._replace(bus_error="Connection refused"), Level.ERROR, "Connection refused"),
        (GOOD._replace(bus="", bus_error="its address is no path"), Level.UNKNOWN, "names no socket file"),
        (GOOD._replace(boots_systemd=False), Level.ERROR, "expected systemd"),
    ],
)
def test_session_is_judged(make_machine, seen: Session, level: Level, words: str) -> None:
    finding = session.judge_session(seen, make_machine())
    assert finding.level is level
    assert words in finding.found


def test_silent_bus_is_started_when_manager_runs(make_machine) -> None:
    finding = session.judge_session(GOOD._replace(bus_error="No such file or directory"), make_machine())
    assert finding.commands == ("systemctl --user daemon-reload", "systemctl --user start dbus.socket")


def test_silent_bus_names_folder_when_unset(make_machine) -> None:
    finding = session.judge_session(GOOD._replace(runtime_folder=None, bus_error="No such file or directory"), make_machine())
    assert finding.commands[0] == "export XDG_RUNTIME_DIR=/run/user/1000"
    assert finding.commands[-1] == "systemctl --user start dbus.socket"


def test_silent_bus_gets_linger_when_manager_lacks(make_machine) -> None:
    seen = GOOD._replace(runtime_folder=None, owner=None, bus_error="No such file or directory", has_manager=False)
    finding = session.judge_session(seen, make_machine())
    assert finding.commands == ("sudo loginctl enable-linger alice",)
    assert "machinectl shell alice@" in finding.then


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("unix:path=/run/user/1000/bus", "/run/user/1000/bus"),
        ("unix:path=/tmp/dbus-x,guid=6f1", "/tmp/dbus-x"),
        ("unix:abstract=/tmp/dbus-y", ""),
    ],
)
def test_bus_path_is_read_from_address(address: str, path: str) -> None:
    assert session.bus_path(address) == path


def test_listening_bus_is_found(make_machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "r"
    (runtime / "systemd").mkdir(parents=True)
    (runtime / "systemd/private").touch()
    monkeypatch.chdir(runtime)  # a socket's path has 108 characters at most
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind("bus")
        bus.listen(1)
        machine = make_machine({"/run/systemd/system/x": ""}, environ={"XDG_RUNTIME_DIR": "."}, user_id=os.getuid())
        seen = session.observe_session(machine)
    assert seen == Session(True, ".", os.getuid(), "bus", "", True)


def test_missing_bus_package_has_no_follow_ups(make_machine) -> None:
    machine = make_machine({"/run/systemd/system/x": "", "/var/lib/systemd/linger/alice": ""})
    assert [each.level for each in session.check_session(machine)] == [Level.UNKNOWN, Level.OK]


def test_silent_bus_is_error_when_package_is_there(make_machine) -> None:
    machine = make_machine({"/run/systemd/system/x": "", UNIT: "", "/var/lib/systemd/linger/bob": ""})
    findings = session.check_session(machine)
    assert [each.level for each in findings] == [Level.ERROR, Level.WARNING]
    assert findings[1].commands == ("sudo loginctl enable-linger alice",)


def test_linger_is_unknown_when_systemd_is_absent(make_machine) -> None:
    assert session.judge_linger(make_machine()).level is Level.UNKNOWN
