"""What speaks against a machine is told all at once; adopting it and letting it go leaves the owner's keys alone."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

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
)
_DECLARED = Declared(os="debian-13", cpus=8, memory_mib=16_384, gpus=2, container=False, serial="CZ17")


class Console:
    """A session whose scripts run here, in a home of its own; as root it answers what it was told to."""

    def __init__(self, home: Path, root: CommandResult | None = None) -> None:
        self.route, self.home, self.root = SshRoute("worker0", "192.0.2.10", 22, "admin", "SHA256:x"), home, root

    def run(self, script: str, *, root: bool = False) -> CommandResult:
        """Run a script, or give the prepared answer."""
        if root and self.root is not None:
            return self.root
        ended = subprocess.run(
            ["sh", "-c", script], env={**os.environ, "HOME": str(self.home)}, capture_output=True, text=True, check=False
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
        ({"gpus": 1}, "has 1 NVIDIA GPUs, declared are 2"),
        ({"gpus": 3}, "has 3 NVIDIA GPUs, declared are 2"),
        ({"container": "lxc"}, "is a container (lxc), declared is target.machine_type: machine"),
        ({"init": "sh"}, "is not run by systemd but by sh"),
        ({"python": ""}, "has no python3"),
        ({"free_kib": 2**20}, "has 1024 MiB free on /, 4096 are needed"),
        ({"serial": "CZ42"}, "has serial number CZ42, declared is CZ17: this is another machine"),
        ({"conflicts": ("ufw",)}, "ufw runs: its rules would conflict with the stack's rules"),
    ],
)
def test_what_differs_is_said_with_both_sides(change: dict[str, object], said: str) -> None:
    (told,) = mismatches(replace(_GOOD, **change), _DECLARED, adopted=False)  # type: ignore[arg-type]
    assert told.startswith(said)


def test_a_firmware_without_a_serial_number_is_no_fault() -> None:
    assert mismatches(replace(_GOOD, serial=""), _DECLARED, adopted=False) == []


def test_everything_is_said_at_once() -> None:
    assert len(mismatches(replace(_GOOD, os="rocky-9", cpus=1, gpus=0), _DECLARED, adopted=False)) == 3


def test_free_space_counts_only_before_anything_is_installed() -> None:
    assert mismatches(replace(_GOOD, free_kib=1), _DECLARED, adopted=True) == []


def test_facts_are_read_from_a_real_machine(tmp_path: Path) -> None:
    """The script as it is, run here: this is a Linux machine, too."""
    session = Console(tmp_path)
    found = host_facts.facts(session)  # type: ignore[arg-type]
    assert found.cpus >= 1 and found.memory_mib > 100 and found.free_kib > 0 and found.python


@pytest.mark.parametrize(("said", "shown"), [("ID=rocky", "rocky-9"), ("ID=debian", "debian-9.4")])
def test_enterprise_linux_is_told_by_its_major_release(said: str, shown: str, tmp_path: Path) -> None:
    name = said.removeprefix("ID=")
    output = f"os={name}-9.4\ncpus=2\nmemory_kib=2048\nfree_kib=1\nmachine_id=x\ncontainer=none\ninit=systemd\npython=p\ngpus=0\n"
    assert host_facts.facts(Console(tmp_path, CommandResult(0, output, ""))).os == shown  # type: ignore[arg-type]


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
