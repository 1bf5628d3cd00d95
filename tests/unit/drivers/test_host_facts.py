"""All findings about a machine are reported at once; adopting and releasing it does not change the owner's keys."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support.hang import HANG_SECONDS

from rackwright.drivers import host_facts
from rackwright.drivers.host_facts import Declared, Facts, mismatches
from rackwright.drivers.ssh_login import CommandResult, LoginRefusedError, SshRoute

_GOOD = Facts(
    os="debian-13",
    cpus=8,
    memory_mib=15_900,
    free_kib=50 * 2**20,
    machine_id="a" * 32,
    container="none",
    init="systemd",
    python="/usr/bin/python3",
    gpus=2,
    conflicts=(),
    serial="CZ17",
    sshd_port=22,
)
_ADMITTED = ("10.20.0.0/24", "2001:db8:7::/64")
_DECLARED = Declared(os="debian-13", cpus=8, memory_mib=16_384, gpus=2, container=False, serial="CZ17", sshd_port=22)


class Console:
    """A session whose scripts run here, in a home of its own; as root it gives the answers of the test."""

    def __init__(self, home: Path, root: CommandResult | None = None) -> None:
        self.route, self.home, self.root = SshRoute("worker0", "192.0.2.10", 22, "admin", "SHA256:x"), home, root

    def run(self, script: str, *, root: bool = False, silence: float = HANG_SECONDS) -> CommandResult:
        """Run a script, or give the prepared answer."""
        if root and self.root is not None:
            return self.root
        ended = subprocess.run(
            ["sh", "-c", script], env={**os.environ, "HOME": str(self.home)}, capture_output=True, text=True, check=False, timeout=silence
        )
        return CommandResult(ended.returncode, ended.stdout, ended.stderr)


def test_a_machine_as_declared_has_no_fault() -> None:
    assert mismatches(_GOOD, _DECLARED, adopted=False) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"os": "debian-12"}, "runs debian-12, declared is debian-13"),
        ({"cpus": 4}, "has 4 CPUs, declared are 8"),
        ({"memory_mib": 15_000}, "has 15000 MiB of memory, declared are 16384"),
        ({"gpus": 1}, "has 1 GPUs of NVIDIA or AMD, declared are 2"),
        ({"gpus": 3}, "has 3 GPUs of NVIDIA or AMD, declared are 2"),
        ({"container": "lxc"}, "is a container (lxc), declared is target.machine_type: machine"),
        ({"init": "sh"}, "is not run by systemd but by sh"),
        ({"python": ""}, "has no python3"),
        ({"free_kib": 2**20}, "has 1024 MiB free on /, 4096 are needed"),
        ({"serial": "CZ42"}, "has serial number CZ42, declared is CZ17: this is another machine"),
        ({"sshd_port": 2222}, "its sshd listens on port 2222, declared is 22: a port forward is in between (`sshd_port: 2222`)"),
        ({"conflicts": ("ufw",)}, "ufw runs: its rules would conflict with the stack's rules"),
    ],
)
def test_what_differs_is_said_with_both_sides(change: dict[str, object], said: str) -> None:
    (told,) = mismatches(replace(_GOOD, **change), _DECLARED, adopted=False)  # type: ignore[arg-type]
    assert told.startswith(said)


def test_a_firmware_without_a_serial_number_is_no_fault() -> None:
    assert mismatches(replace(_GOOD, serial=""), _DECLARED, adopted=False) == []
    assert mismatches(replace(_GOOD, serial="cz17"), _DECLARED, adopted=False) == []


def test_everything_is_said_at_once() -> None:
    assert len(mismatches(replace(_GOOD, os="rocky-9", cpus=1, gpus=0), _DECLARED, adopted=False)) == 3


def test_free_space_counts_only_before_anything_is_installed() -> None:
    assert mismatches(replace(_GOOD, free_kib=1), _DECLARED, adopted=True) == []


def test_facts_are_read_from_a_real_machine(tmp_path: Path) -> None:
    """The script as it is, run here: this is a Linux machine, too."""
    session = Console(tmp_path)
    found = host_facts.facts(session)  # type: ignore[arg-type]
    assert found.cpus >= 1 and found.memory_mib > 100 and found.free_kib > 0 and found.python


_ANSWER = (
    'release.NAME="X"\nrelease.ID={}\nrelease.VERSION_ID="9.4"\ncpus=2\nmemory_kib=2048\nfree_kib=1\nmachine_id=x\ncontainer=none\n'
    "init=systemd\npython=p\ngpus=0\nserial={}\n"
)


@pytest.mark.parametrize(
    ("connection", "port"),
    [
        pytest.param("10.0.2.2 45122 10.0.2.15 22", 22, id="behind-a-forward"),
        pytest.param("fe80::1%eth0 45122 fe80::2%eth0 2222", 2222, id="ipv6"),
        pytest.param("", None, id="not-told"),
        pytest.param("UNKNOWN 65535 UNKNOWN", None, id="of-another-form"),
    ],
)
def test_port_of_sshd_is_read_from_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: str, port: int | None
) -> None:
    """The port to which this machine connects may be that of a port forward."""
    monkeypatch.setenv("SSH_CONNECTION", connection)
    found = _told(tmp_path, _ANSWER.format("debian", ""))
    assert found.sshd_port == port
    if port is None:
        assert not any("sshd" in one for one in mismatches(found, _DECLARED, adopted=False))


def _told(tmp_path: Path, answer: str) -> Facts:
    return host_facts.facts(Console(tmp_path, CommandResult(0, answer, "")))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "shown"), [('"rocky"', "rocky-9"), ("ol", "ol-9"), ("'debian'", "debian-9.4"), ("sles", "sles-9.4")])
def test_enterprise_linux_is_told_by_its_major_release(name: str, shown: str, tmp_path: Path) -> None:
    assert _told(tmp_path, _ANSWER.format(name, "")).os == shown


def test_rolling_release_has_no_number(tmp_path: Path) -> None:
    answer = _ANSWER.format("debian", "").replace('VERSION_ID="9.4"', "VERSION_CODENAME=sid")
    assert _told(tmp_path, answer).os == "debian-sid"


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("cpus=2", "cpus=", 'cpus is ""'),
        ("memory_kib=2048\n", "", "memory_kib"),
        ("free_kib=1", "free_kib=-", 'free_kib is "-"'),
        ("release.ID=debian\n", "", "no ID of a distribution"),
    ],
)
def test_unread_fact_is_named(was: str, becomes: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(LoginRefusedError, match=said):
        _told(tmp_path, _ANSWER.format("debian", "").replace(was, becomes))


@pytest.mark.parametrize("serial", ["", "To Be Filled By O.E.M.", "Default string", "System Serial Number", "Not Specified", "0", " None "])
def test_placeholder_is_no_serial_number(serial: str, tmp_path: Path) -> None:
    found = _told(tmp_path, _ANSWER.format("debian", serial))
    assert found.serial == "" and not any("serial" in one for one in mismatches(found, _DECLARED, adopted=False))


def _script(tmp_path: Path, active: str, files: dict[str, str]) -> tuple[str, ...]:
    """Return the conflicts that the script finds below a folder, where systemctl shows these units as active."""
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin/systemctl"
    tool.write_text(f'#!/bin/sh\ncase " {active} " in *" $2 "*) echo active ;; *) echo inactive ;; esac\n')
    tool.chmod(0o755)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ending = host_facts._FACTS[host_facts._FACTS.index("active()") :].replace("/etc/", f"{tmp_path}/etc/")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    ended = subprocess.run(["sh", "-c", ending], env={"PATH": path}, capture_output=True, text=True, check=True)
    return tuple(line.removeprefix("conflict=") for line in ended.stdout.splitlines())


_OURS = "# Written by rackwright; local changes are lost.\n"


@pytest.mark.parametrize(
    ("active", "files", "conflicts"),
    [
        ("ufw", {"etc/ufw/ufw.conf": "ENABLED=no\n"}, ()),
        ("ufw", {"etc/ufw/ufw.conf": "# on\nENABLED=yes\n"}, ("ufw",)),
        ("firewalld chrony", {}, ("firewalld",)),
        ("kubelet", {}, ("kubelet",)),
        ("kubelet", {"etc/systemd/system/kubelet.service.d/10-kubeadm.conf": "[Service]\n"}, ("kubelet",)),
        ("kubelet", {"etc/systemd/system/kubelet.service.d/50-rackwright.conf": _OURS}, ()),
        ("k3s-agent", {}, ("k3s-agent",)),
        ("slurmd munge", {"etc/default/slurmd": "SLURMD_OPTIONS=\n"}, ("slurmd",)),
        ("slurmd slurmctld", {"etc/default/slurmd": _OURS, "etc/slurm/slurm.conf": _OURS}, ()),
        ("slurmdbd", {"etc/slurm/slurmdbd.conf": "DbdHost=x\n"}, ("slurmdbd",)),
        ("docker", {}, ()),
    ],
)
def test_daemons_of_other_clusters_are_conflicts(active: str, files: dict[str, str], conflicts: tuple[str, ...], tmp_path: Path) -> None:
    assert _script(tmp_path, active, files) == conflicts
    assert len(mismatches(replace(_GOOD, conflicts=conflicts), _DECLARED, adopted=False)) == len(conflicts)


def test_linked_key_file_stays_a_link_and_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "keys"
    shared.write_text("ssh-ed25519 OWNER o@home\n")
    shared.chmod(0o640)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/authorized_keys").symlink_to(shared)
    host_facts.authorize_key(Console(tmp_path), "ssh-ed25519 AAAA rackwright lab")  # type: ignore[arg-type]
    assert (tmp_path / ".ssh/authorized_keys").is_symlink() and shared.stat().st_mode & 0o777 == 0o640
    assert shared.read_text().splitlines()[1].split()[1] == "AAAA"


def test_a_user_who_may_not_sudo_is_named_with_the_cure(tmp_path: Path) -> None:
    session = Console(tmp_path, CommandResult(1, "", "sudo: a password is required"))
    with pytest.raises(LoginRefusedError, match="admin has no passwordless sudo") as told:
        host_facts.require_root(session)  # type: ignore[arg-type]
    assert "sudo: a password is required" in told.value.cause and "/etc/sudoers.d/admin" in told.value.hint


def test_the_stack_s_key_comes_and_goes_beside_the_owner_s(tmp_path: Path) -> None:
    keys = tmp_path / ".ssh/authorized_keys"
    session, key = Console(tmp_path), "ssh-ed25519 AAAA rackwright lab"
    keys.parent.mkdir()
    keys.write_text("ssh-ed25519 OWNER o@home\n")
    for _ in range(2):
        host_facts.authorize_key(session, key)  # type: ignore[arg-type]
    assert keys.read_text() == f"ssh-ed25519 OWNER o@home\n{key}\n"
    for _ in range(2):
        host_facts.revoke_key(session, key)  # type: ignore[arg-type]
    assert keys.read_text() == "ssh-ed25519 OWNER o@home\n"


def test_a_key_of_the_same_stack_whose_state_was_lost_is_replaced_and_no_other(tmp_path: Path) -> None:
    keys = tmp_path / ".ssh/authorized_keys"
    keys.parent.mkdir()
    keys.write_text("ssh-ed25519 OLD rackwright lab\nssh-ed25519 BESIDE rackwright my-lab\nssh-ed25519 BEYOND rackwright lab2\n")
    host_facts.authorize_key(Console(tmp_path), "ssh-ed25519 NEW rackwright lab")  # type: ignore[arg-type]
    assert [line.split()[1] for line in keys.read_text().splitlines()] == ["BESIDE", "BEYOND", "NEW"]


def test_a_file_without_a_last_newline_keeps_its_last_key(tmp_path: Path) -> None:
    keys = tmp_path / ".ssh/authorized_keys"
    keys.parent.mkdir()
    keys.write_text("ssh-ed25519 OWNER o@home")
    host_facts.authorize_key(Console(tmp_path), "ssh-ed25519 AAAA rackwright lab")  # type: ignore[arg-type]
    assert keys.read_text().splitlines() == ["ssh-ed25519 OWNER o@home", "ssh-ed25519 AAAA rackwright lab"]


@pytest.mark.parametrize(
    ("seen", "admitted", "fits"),
    [
        ("10.20.0.9", _ADMITTED, True),
        ("2001:db8:7::9", _ADMITTED, True),
        ("2001:db8:8::9", _ADMITTED, False),
        ("192.0.2.9", _ADMITTED, False),
        ("2001:db8:8::9", ("0.0.0.0/0",), False),
        ("10.20.0.2", ("10.20.0.2",), True),
        ("10.99.0.2", ("10.20.0.2",), False),
        ("", _ADMITTED, True),
        ("2001:db8:8::9", (), True),
    ],
)
def test_machine_whose_filter_would_end_the_access_is_refused(seen: str, admitted: tuple[str, ...], fits: bool) -> None:
    """The first converge would be the last one. A machine that is adopted already has its filter, and answers through it."""
    found, declared = replace(_GOOD, seen_address=seen), replace(_DECLARED, admitted=admitted)
    assert (mismatches(found, declared, adopted=False) == []) is fits
    assert mismatches(found, declared, adopted=True) == []


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ("10.20.0.9 45122 10.20.0.2 22", "10.20.0.9"),
        ("2001:db8::9 45122 2001:db8::2 22", "2001:db8::9"),
        ("::ffff:10.20.0.9 45122 ::ffff:10.20.0.2 22", "10.20.0.9"),
        ("fe80::9%bond0 45122 fe80::2%bond0 22", "fe80::9"),
        pytest.param("10.20.0.2 45122 10.20.0.2 22", "", id="the-machine-itself"),
        ("::1 45122 ::1 22", ""),
        ("UNKNOWN 65535 UNKNOWN 65535", ""),
        ("UNKNOWN 65535 10.20.0.2 22", ""),
        ("", ""),
    ],
)
def test_address_that_sshd_sees_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: str, address: str) -> None:
    monkeypatch.setenv("SSH_CONNECTION", connection)
    assert _told(tmp_path, _ANSWER.format("debian", "")).seen_address == address
