"""Probe of a pending reboot: what the distribution's tools report, and whether the kernel that the next boot loads is another one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tool_output import lines_of

_VERSION: Final = re.compile(r"(\d+(?:\.\d+)+)(?:-(\d+(?:\.\d+)*))?")
"""Upstream version and build of a kernel release: 6.12.41 of 6.12.41+deb13-amd64, 5.14.0 and 427.13.1 of 5.14.0-427.13.1.el9_4.x86_64."""
_ELSEWHERE: Final = re.compile(
    r"\.(x86_64|aarch64|ppc64le|s390x)(?=\+|$)|[._+~](?:(?:el|fc|amzn|azl|ph|oe|lp)\d+|(?:deb|bpo)\d*)(?:[._]\d+)*(?:u\d+)?"
)
"""Parts of a kernel release that name the distribution or the processor."""


def flavour_of(release: str) -> str:
    """Return the kind of kernel in a release: an update of one kind does not replace another.

    >>> [flavour_of(one) for one in ("6.8.0-60-generic", "6.8.0-1029-aws", "6.12.41+deb13-rt-amd64", "5.14.0-570.el9_6.aarch64+64k")]
    ['generic', 'aws', 'rt-amd64', '64k']
    """
    rest = _ELSEWHERE.sub("", release[found.end() :] if (found := _VERSION.match(release)) else release)
    return re.sub(r"\brt\d+(\.\d+)*", "rt", rest).strip("-+.~_")


def build_of(release: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the version of a kernel release as numbers: upstream version, build, and all numbers of the release.

    >>> build_of("5.14.0-427.13.1.el9_4.x86_64") < build_of("5.14.0-427.20.1.el9_4.x86_64")
    True
    """
    found = _VERSION.match(release)
    if found is None:
        raise ValueError(f'"{release}" is not a release of a kernel')
    numbers = tuple(int(part) for part in re.findall(r"\d+", release))
    return tuple(map(int, found[1].split("."))), tuple(map(int, (found[2] or "0").split("."))), numbers


def newer_kernels(running: str, installed: Iterable[str]) -> list[str]:
    """Return the installed kernels of the running one's flavour that are newer. A release without a version is none."""
    same = [one for one in installed if _VERSION.match(one) and flavour_of(one) == flavour_of(running)]
    return sorted((one for one in same if build_of(one) > build_of(running)), key=build_of)


def parse_reboot(text: str) -> bool:
    """Return whether a reboot is pending, from the lines of the command.

    The first word is `pending` or `none`: what the distribution's tools report. Lines `running R`, `default R` (what the boot loader
    starts) and `kernel R` (installed) follow; a container has none of them.

    >>> parse_reboot("none\\nrunning 6.1.0-37-amd64\\nkernel 6.1.0-37-amd64\\nkernel 6.1.0-41-amd64\\n")
    True
    """
    lines = [line.split() for line in lines_of(text)]
    reports = [words[0] for words in lines if words[0] in ("pending", "none") and len(words) == 1]
    if not reports:
        raise ValueError("no report of a reboot")
    if "pending" in reports:
        return True
    named = {kind: [words[1] for words in lines if words[0] == kind and len(words) == 2] for kind in ("running", "default", "kernel")}
    running = named["running"][0] if named["running"] else None
    if running is None:
        return False
    if named["default"]:
        return running != named["default"][0]
    return bool(newer_kernels(running, named["kernel"]))


_COMMAND: Final = r"""
[ -e /run/reboot-required ] || [ -e /var/run/reboot-required ] && echo pending || echo none
[ ! -e /run/reboot-needed ] || echo pending
if command -v needs-restarting > /dev/null; then needs-restarting -r 2> /dev/null | grep -q '^Reboot is required' && echo pending; fi
systemd-detect-virt --quiet --container && exit 0
echo "running $(uname -r)"
if command -v grubby > /dev/null; then
  d=$(grubby --default-kernel 2> /dev/null); case $d in */vmlinuz-*) echo "default ${d##*/vmlinuz-}";; esac
fi
grep -qE '^ *GRUB_DEFAULT=["'"'"']?[^0"'"'"']' /etc/default/grub 2> /dev/null && exit 0
for k in /boot/vmlinuz-*; do [ -e "$k" ] && [ -d "/lib/modules/${k##*/vmlinuz-}" ] && echo "kernel ${k##*/vmlinuz-}"; done
true
"""
"""Ubuntu's update-notifier and Debian's unattended-upgrades create /run/reboot-required, zypper /run/reboot-needed; on Enterprise Linux
needs-restarting(1) of yum-utils reports it. Debian without these packages reports nothing, so that the kernels are compared. A boot entry
that an administrator selected (GRUB_DEFAULT) is no update that waits."""

REBOOT = Probe("reboot", on="nodes", command=_COMMAND, parse=parse_reboot)
