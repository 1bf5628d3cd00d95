"""Packages to install with the system's package manager: the lab's container engine, and missing parts of Python."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bootstrap import package_locks
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage, Stages


class Need(NamedTuple):
    """A requirement: how it is detected, and which package provides it."""

    what: str
    commands: tuple[str, ...]
    files: tuple[str, ...]
    apt: str
    dnf: str
    """Empty if another package of the table provides it."""


# The Fedora/RHEL column is untested: written from the distributions' package lists.
LAB = (
    Need("containers", ("podman",), (), "podman", "podman"),
    Need("container runtime", ("runc", "crun"), (), "runc", "crun"),
    Need("container network", (), ("/usr/lib/podman/netavark", "/usr/libexec/podman/netavark"), "netavark", "netavark"),
    Need("container names", (), ("/usr/lib/podman/aardvark-dns", "/usr/libexec/podman/aardvark-dns"), "aardvark-dns", "aardvark-dns"),
    Need("address translation", ("iptables",), (), "iptables", "iptables-nft"),
    Need("packet filter", ("nft",), (), "nftables", "nftables"),
    Need("base image builder", ("mmdebstrap",), (), "mmdebstrap", "mmdebstrap"),
    Need("ssh client", ("ssh",), (), "openssh-client", "openssh-clients"),
)
# Debian's podman only recommends it, and recommended packages are not installed.
USER_BUS = Need(
    "user's D-Bus", (), ("/usr/lib/systemd/user/dbus.socket", "/lib/systemd/user/dbus.socket"), "dbus-user-session", "dbus-common"
)
ROOTLESS = (
    Need("user name spaces", ("newuidmap",), (), "uidmap", "shadow-utils"),
    USER_BUS,
)
SLIRP = Need("rootless network", ("slirp4netns",), (), "slirp4netns", "slirp4netns")
PASTA = Need("rootless network", ("pasta",), (), "passt", "passt")
_FIRST_WITH_PASTA = {"debian": (13,), "ubuntu": (24, 10), "fedora": (40,), "rhel": (9, 5), "rocky": (9, 5), "almalinux": (9, 5)}
"""The first releases with Podman 5, which uses pasta for rootless networks unless containers.conf names another (podman-network(1))."""
PYTHON = Need("python environments", (), (), "python3-venv", "python3-pip")
UBUNTU_KEYRING = Need(
    "Debian's signing keys", (), ("/usr/share/keyrings/debian-archive-keyring.gpg",), "debian-archive-keyring", "debian-keyring"
)
TESTS = (Need("ext4 file systems, for tests", ("mkfs.ext4",), (), "e2fsprogs", "e2fsprogs"),)
"""Installers bring it; images of containers lack it."""


def wanted(checkout: Path, stack: str | None, machine: Machine, *, dev: bool = False) -> tuple[Need, ...]:
    """Return the requirements of `stack` and, with `dev`, of the tests; without a stack (`make venv`), only those of Python."""
    python = () if machine.which("uv") else (PYTHON,)
    if stack is None:
        return python
    tests = TESTS if dev else ()
    if not is_lab(checkout, stack):
        return (*python, *tests)
    rootless = () if machine.is_root else (*ROOTLESS, rootless_network(machine))
    return (*python, *LAB, UBUNTU_KEYRING, *rootless, *tests)


def rootless_network(machine: Machine) -> Need:
    """Return the program that Podman of this distribution uses for rootless networks; a derivative counts as its ID_LIKE."""
    families = [machine.release.get("ID", ""), *machine.release.get("ID_LIKE", "").split()]
    first = next((_FIRST_WITH_PASTA[name] for name in families if name in _FIRST_WITH_PASTA), None)
    release = tuple(int(part) for part in re.findall(r"\d+", machine.release.get("VERSION_ID", "")))
    return PASTA if first is not None and (release >= first or not release) else SLIRP  # Debian's testing has no release number.


def is_lab(checkout: Path, stack: str) -> bool:
    """Return whether the stack's nodes are containers on this machine. Other code reports a stack file that cannot be read."""
    try:
        text = (checkout / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    except OSError:
        return True
    match: re.Match[str] | None = re.search(r"^\s*target:\s*(?:\{\s*|\n\s+)kind:\s*(\w+)", text, re.MULTILINE)
    return match is None or match.group(1) == "lab"


def missing(machine: Machine, needs: tuple[Need, ...]) -> tuple[Need, ...]:
    """Return those of `needs` that are missing."""
    return tuple(need for need in needs if not _is_installed(machine, need))


def _is_installed(machine: Machine, need: Need) -> bool:
    if need is PYTHON:
        return machine.makes_environments()
    return any(machine.which(command) for command in need.commands) or (bool(need.files) and machine.has_file(*need.files))


def commands(machine: Machine, needs: tuple[Need, ...]) -> list[list[str]]:
    """Return the commands that install `needs`, with sudo if this user needs it."""
    if not needs:
        return []
    sudo = [] if machine.is_root else ["sudo"]
    if machine.manager == "apt":
        names = [need.apt for need in needs]
        quiet = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
        return [[*quiet, "update", "-q"], [*quiet, "install", "-y", "-q", "--no-install-recommends", *names]]
    if machine.manager == "dnf":
        return [[*sudo, "dnf", "install", "-y", "--setopt=install_weak_deps=False", *[need.dnf for need in needs]]]
    return []


def install(machine: Machine, stages: Stages, needs: tuple[Need, ...]) -> None:
    """Install what is missing; raise Failure with the command for the user if this process may not."""
    absent = missing(machine, needs)
    if not absent:
        return
    lines = commands(machine, absent)
    if not lines:
        things = ", ".join(f"{need.what} (Debian: {need.apt})" for need in absent)
        raise Failure(
            f"{machine.name}: no package manager that rackwright drives (apt, dnf).\nInstall these, then run make again: {things}"
        )
    if not machine.is_root and not may_sudo(machine):
        command_lines = "\n".join("  " + shlex.join(line) for line in lines)
        raise Failure(
            f"System packages are missing and sudo is not available without a password here. Run, then make again:\n{command_lines}"
        )
    with stages.stage("system packages: " + " ".join(need.apt if machine.manager == "apt" else need.dnf for need in absent)) as stage:
        for line in lines:
            if machine.manager == "apt":
                package_locks.wait_until_free(machine, stage.note)
            stage.note("reads the package lists")
            stage.run(line, on_line=lambda output: _note_package(stage, output), on_terminal=not machine.is_root)
    still = missing(machine, absent)
    if still:
        raise Failure("The packages were installed, yet these are not found: " + ", ".join(need.what for need in still))


def _note_package(stage: Stage, line: str) -> None:
    """Note what apt downloads, unpacks or configures: `Get:3 ADDRESS trixie/main amd64 podman amd64 5.4.2 [11 MB]`."""
    words = line.split()
    if line.startswith("Get:") and len(words) > 2:
        stage.note(f"downloads {words[4] if len(words) > 6 else words[2]}")
    elif line.startswith("Unpacking") and len(words) > 1:
        stage.note(f"unpacks {words[1]}")
    elif line.startswith("Setting up") and len(words) > 2:
        stage.note(f"configures {words[2]}")


def may_sudo(machine: Machine) -> bool:
    """Return whether sudo can be used: with a terminal it may prompt, without one it must not need to."""
    sudo = machine.which("sudo")
    if sudo is None:
        return False
    return sys.stdin.isatty() or subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0
