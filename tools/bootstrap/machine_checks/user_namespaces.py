"""User namespaces: whether the kernel allows an ordinary user to create one."""

from __future__ import annotations

import os
from typing import NamedTuple

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown
from bootstrap.machine_checks.observation import Output, read_file, read_number, run_command

_SUBJECT = "user namespaces"
_REASON = "a rootless container is a user namespace"
_PROFILE = "/etc/apparmor.d/podman"


class Settings(NamedTuple):
    """Settings that control user namespaces; None if the kernel has no such setting."""

    most: int | None
    """user.max_user_namespaces."""
    clone: int | None
    """kernel.unprivileged_userns_clone, a patch of Debian's older kernels."""
    restricted: int | None
    """kernel.apparmor_restrict_unprivileged_userns, of Ubuntu since 23.10."""
    allows_podman: bool
    """Whether AppArmor has a profile that allows this podman to create them."""
    trial: Output | None
    """Result of `unshare --user --map-root-user true`; None if unshare is not installed."""


def check_user_namespaces(machine: Machine) -> list[Finding]:
    """Check the settings and create a namespace."""
    podman = os.path.realpath(machine.which("podman") or "/usr/bin/podman")
    profiles = [path.name for path in machine.root.glob("etc/apparmor.d/*podman*")]
    profiles = [name for name in profiles if not machine.has_file(f"/etc/apparmor.d/disable/{name}")]
    settings = Settings(
        most=read_number(machine, "/proc/sys/user/max_user_namespaces"),
        clone=read_number(machine, "/proc/sys/kernel/unprivileged_userns_clone"),
        restricted=read_number(machine, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        allows_podman=any(allows(read_file(machine, f"/etc/apparmor.d/{name}") or "", podman) for name in profiles),
        trial=run_command(machine, "unshare", "--user", "--map-root-user", "true"),
    )
    return [judge_user_namespaces(settings, podman)]


def allows(profile: str, podman: str) -> bool:
    """Return whether an AppArmor profile of podman applies to this file and allows user namespaces.

    Ubuntu 24.04 ships `profile podman /usr/bin/podman flags=(unconfined) { userns, }`.
    """
    lines = [line.partition("#")[0].strip() for line in profile.splitlines()]
    names = {podman}
    if podman in ("/usr/bin/podman", "/usr/local/bin/podman"):
        names |= {"/usr/{bin,local/bin}/podman", "/usr/{,local/}bin/podman"}
    if podman in ("/usr/bin/podman", "/bin/podman"):
        names |= {"@{bin}/podman", "/{,usr/}bin/podman"}  # tunables/global: @{bin} is /{,usr/}{,s}bin
    heads = [line.split("{ ")[0].split() for line in lines if line.startswith(("profile", "/", "@"))]
    attached = any(names & set(words) for words in heads)
    return attached and any(line.startswith("userns") or " userns," in line for line in lines)


def judge_user_namespaces(settings: Settings, podman: str) -> Finding:
    """Judge the settings; the trial decides, unless AppArmor allows podman what it denies unshare."""
    if settings.most == 0:
        return _switched_off("user.max_user_namespaces", "15000", 0)
    if settings.clone == 0:
        return _switched_off("kernel.unprivileged_userns_clone", "1", 0)
    trial = settings.trial
    if settings.restricted and settings.allows_podman:
        return ok(_SUBJECT, f"restricted by AppArmor, allowed for {podman}")
    if trial is not None and trial.code == 0:
        return ok(_SUBJECT, "allowed (tried with unshare)")
    if settings.restricted:
        return _restricted(podman)
    if trial is not None and trial.timed_out:
        return unknown(_SUBJECT, f"the settings allow them; `unshare --user --map-root-user true`: {trial.last_line}")
    if trial is not None:
        expected = "expected `unshare --user --map-root-user true` to succeed"
        then = "Ask the administrator what restricts them (a container, a security module, a sandbox), or run as root: sudo make up"
        return Finding(Level.ERROR, _SUBJECT, f"refused ({expected}, found: {trial.last_line})", _REASON, then=then)
    if settings.most is None:
        return unknown(_SUBJECT, "unshare is not installed and /proc/sys/user/max_user_namespaces cannot be read")
    return unknown(_SUBJECT, "the settings allow them; unshare, which would try it, is not installed")


def _switched_off(setting: str, value: str, found: int) -> Finding:
    return Finding(
        Level.ERROR,
        _SUBJECT,
        f"switched off by {setting} (expected {value}, found {found})",
        _REASON,
        (f"echo {setting}={value} | sudo tee /etc/sysctl.d/60-rackwright-namespaces.conf", "sudo sysctl --system"),
    )


def _restricted(podman: str) -> Finding:
    profile = rf"abi <abi/4.0>,\ninclude <tunables/global>\nprofile podman {podman} flags=(unconfined) {{\n  userns,\n}}\n"
    return Finding(
        Level.ERROR,
        _SUBJECT,
        f"restricted by AppArmor (expected a profile for {podman} in {_PROFILE}, found none)",
        _REASON,
        (f"printf '{profile}' | sudo tee {_PROFILE}", f"sudo apparmor_parser -r {_PROFILE}"),
    )
