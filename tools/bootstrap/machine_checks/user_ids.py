"""Subordinate user and group ids, to which rootless containers map their ids, and the two programs that set the mapping."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown
from bootstrap.machine_checks.observation import read_file, run_command

NEEDED = 65536
"""Ids of one container: Debian's `nobody` is 65534."""
_FIRST = 100000
"""SUB_UID_MIN of shadow's login.defs."""


class Kind(NamedTuple):
    """One of the two mappings."""

    subject: str
    file: str
    option: str
    program: str
    listing: tuple[str, ...]


KINDS = (
    Kind("subordinate user ids", "/etc/subuid", "--add-subuids", "newuidmap", ()),
    Kind("subordinate group ids", "/etc/subgid", "--add-subgids", "newgidmap", ("-g",)),
)


class Row(NamedTuple):
    """One range."""

    owner: str
    start: int
    size: int


def check_user_ids(machine: Machine) -> list[Finding]:
    """Check ranges and programs of an ordinary user."""
    nss = reads_elsewhere(read_file(machine, "/etc/nsswitch.conf") or "")
    texts = [read_file(machine, kind.file) for kind in KINDS]
    start = free_start([row for text in texts for row in parse_rows(text or "")])
    passwd = read_file(machine, "/etc/passwd")
    is_local = passwd is None or any(line.startswith(f"{machine.user}:") for line in passwd.splitlines())
    findings = []
    for kind, text in zip(KINDS, texts):
        if nss:
            findings.append(_query_getsubids(machine, kind))
        elif text is None and machine.has_file(kind.file):
            findings.append(unknown(kind.subject, f"{kind.file} cannot be read"))
        else:
            findings.append(judge_ranges(kind, parse_rows(text or ""), machine.user, machine.user_id, start, is_local))
    programs = [_check_program(machine, kind.program) for kind in KINDS]
    return [*findings, *(each for each in programs if each)]


def reads_elsewhere(nsswitch: str) -> bool:
    """Return whether nsswitch.conf reads ranges from another source than the files (`subid: sss`)."""
    for line in nsswitch.splitlines():
        key, _, sources = line.partition("#")[0].partition(":")
        if key.strip() == "subid":
            return sources.split()[:1] not in ([], ["files"])
    return False


def parse_rows(text: str) -> list[Row]:
    """Parse /etc/subuid or /etc/subgid; lines without a range are ignored, as in shadow."""
    rows = []
    for line in text.splitlines():
        owner, *numbers = line.strip().split(":")
        if owner and len(numbers) == 2 and all(number.isdigit() for number in numbers):
            rows.append(Row(owner, int(numbers[0]), int(numbers[1])))
    return rows


def parse_getsubids(text: str) -> list[Row]:
    """Parse the output of `getsubids USER`: `0: alice 100000 65536`."""
    fields = (line.split() for line in text.splitlines())
    return [Row(row[1], int(row[2]), int(row[3])) for row in fields if len(row) == 4 and row[2].isdigit() and row[3].isdigit()]


def free_start(rows: list[Row]) -> int:
    """Return the first id, in steps of 65536 from 100000, above every assigned range."""
    end = max((row.start + row.size for row in rows), default=_FIRST)
    return _FIRST + max(0, -(-(end - _FIRST) // NEEDED)) * NEEDED


def judge_ranges(kind: Kind, rows: list[Row], user: str, user_id: int, start: int, is_local: bool = True) -> Finding:
    """Judge the ranges of one user, given by name or by number; usermod knows users of /etc/passwd only."""
    add = f"sudo usermod {kind.option} {start}-{start + NEEDED - 1} {user}"
    append = f"echo {user}:{start}:{NEEDED} | sudo tee -a {kind.file}"
    found = sum(row.size for row in rows if row.owner in (user, str(user_id)))
    if found >= NEEDED:
        return ok(kind.subject, f"{found} in {kind.file}")
    return Finding(
        Level.ERROR,
        kind.subject,
        f"too few for {user} in {kind.file} (expected {NEEDED}, found {found})",
        "files in a container belong to users that have no id on this machine otherwise",
        (add if is_local else append,),
        "Then run `podman system migrate` if containers of this user exist; it stops them.",
    )


def _query_getsubids(machine: Machine, kind: Kind) -> Finding:
    ended = run_command(machine, "getsubids", *kind.listing, machine.user)
    if ended is None:
        return unknown(kind.subject, "/etc/nsswitch.conf names another source than files, and getsubids is not installed")
    if ended.code:
        return unknown(kind.subject, f"`getsubids {' '.join((*kind.listing, machine.user))}` failed: {ended.last_line}")
    found = sum(row.size for row in parse_getsubids(ended.stdout))
    if found >= NEEDED:
        return ok(kind.subject, f"{found} by getsubids")
    return Finding(
        Level.ERROR,
        kind.subject,
        f"too few for {machine.user} by getsubids (expected {NEEDED}, found {found})",
        "files in a container belong to users that have no id on this machine otherwise",
        then="The source is the `subid` line of /etc/nsswitch.conf: ask the administrator of that directory for a range.",
    )


def _check_program(machine: Machine, name: str) -> Finding | None:
    """Check a program that exists; a missing one is a finding of the packages."""
    path = machine.which(name)
    if path is None:
        return None
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return unknown(name, str(error.strerror))
    return judge_program(name, path, bool(mode & stat.S_ISUID), _has_capabilities(Path(path)))


def _has_capabilities(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def judge_program(name: str, path: str, is_setuid: bool, has_capabilities: bool) -> Finding:
    """Judge whether newuidmap or newgidmap may write a mapping: Debian sets the setuid bit, Fedora and Rocky file capabilities."""
    if is_setuid or has_capabilities:
        return ok(name, "setuid" if is_setuid else "file capabilities")
    reason = "Podman maps subordinate ids with it, which takes rights of its own"
    return Finding(
        Level.ERROR,
        name,
        f"{path} has no rights (expected setuid or file capabilities, found neither)",
        reason,
        (f"sudo chmod u+s {path}",),
    )
