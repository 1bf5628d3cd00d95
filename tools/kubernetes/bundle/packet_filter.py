"""kube-proxy's tools for the kernel's packet filter: taken out of Debian's packages, with the libraries they are linked to."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage
from bundle.layer import Entry

SUITE = "trixie"
_PACKAGES = ("iptables", "nftables")
_KEPT = re.compile(r"etc/(protocols|services)|usr/sbin/(nft|xtables-nft-multi|ip6?tables-nft.*)|usr/lib64/.+|usr/lib/.+")
_LEFT_OUT = re.compile(r"usr/lib/(systemd/.*|[^/]+/(gconv|audit)/.*|[^/]+/xtables/lib(arpt|ebt)_.*)")
_NEEDED = ("usr/sbin/nft", "usr/sbin/xtables-nft-multi")
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
"""As package base-files has them; the packages here expect, and do not bring, them."""


def fetch(machine: Machine, target: Path, mirror: str | None, stage: Stage) -> None:
    """Leaves the unpacked packages at `target`, as tar. None of their scripts runs, so it takes seconds."""
    builder = machine.which("mmdebstrap")
    if builder is None:
        raise Failure(
            "mmdebstrap is not installed; kube-proxy's image needs it to take nft and iptables out of Debian's packages.\n"
            "Install the package mmdebstrap with the system's package manager, then run this again: it goes on from here."
        )
    packages = f"--include={','.join(_PACKAGES)}"
    command = [builder, "--variant=extract", packages, "--format=tar", SUITE, str(target), *([mirror] if mirror else [])]
    try:
        stage.run(command, env={**machine.environ}, on_line=lambda line: stage.note(line.partition(": ")[2]))
    except Failure as failure:
        raise Failure(
            f"{failure}\nIt needs an archive of Debian {SUITE} that answers (--mirror ADDRESS names one). The next run goes on."
        ) from None


def entries(archive: Path) -> list[Entry]:
    """What of the packages goes into the image."""
    found = [Entry(path, link=target) for path, target in _LINKS.items()]
    with tarfile.open(archive) as tar:
        for member in tar:
            path = member.name[2:] if member.name.startswith("./") else member.name
            if not _KEPT.fullmatch(path) or _LEFT_OUT.fullmatch(path):
                continue
            file = tar.extractfile(member) if member.isfile() else None
            if file:
                found.append(Entry(path, file.read(), member.mode & 0o7777))
            elif member.issym():
                found.append(Entry(path, link=member.linkname))
    missing = sorted(set(_NEEDED) - {entry.path for entry in found})
    if missing:
        raise Failure(
            f"{archive}: Debian's packages bring no {' and no '.join(missing)}; tools/kubernetes/bundle/packet_filter.py expects them"
        )
    return found + _alternatives()


def _alternatives() -> list[Entry]:
    """The names under which kube-proxy calls the tools; Debian's packages would link them when they are installed."""
    names = [f"{family}tables{suffix}" for family in ("ip", "ip6") for suffix in ("", "-save", "-restore")]
    return [Entry(f"usr/sbin/{name}", link="xtables-nft-multi") for name in names]
