"""Probes of huge pages, limits of services, kernel settings, and the active profile of tuned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue, lines_of, quoted, read_each_line


@dataclass(frozen=True)
class Pages:
    """Reserved huge pages by size, and the mode of transparent huge pages."""

    reserved: Mapping[str, int | UnreadableValue]
    transparent: str


def parse_pages(text: str) -> Pages:
    """Return huge pages from lines `hugepages-<KiB>kB <number>`, then the modes of transparent huge pages, the active one in brackets.

    >>> parse_pages("hugepages-2048kB 12\\nalways [madvise] never")
    Pages(reserved={'2MiB': 12}, transparent='madvise')
    """
    rows = [found for line in lines_of(text) if (found := re.fullmatch(r"\s*hugepages-(\d+)kB(?:\s+(\d+))?\s*", line))]
    chosen = re.findall(r"\[(\w+)\]", text)
    if len(chosen) != 1:
        raise ValueError(f'no mode of transparent huge pages: "{quoted(text)}"')
    sizes = {_size(int(found[1])): int(found[2]) if found[2] else UnreadableValue(_size(int(found[1])), None, found[0]) for found in rows}
    return Pages(sizes, chosen[0])


def _size(kib: int) -> str:
    """Return the size of a huge page as plans write it: 2MiB, 1GiB; 512MiB and 16GiB on kernels with pages of 64 KiB."""
    return f"{kib // 2**20}GiB" if kib >= 2**20 else f"{kib // 2**10}MiB" if kib >= 2**10 else f"{kib}KiB"


PAGES = Probe(
    "huge-pages",
    on="with_tuning",
    command="cd /sys/kernel/mm && for d in hugepages/hugepages-*; do echo ${d##*/} $(cat $d/nr_hugepages); done; "
    "cat transparent_hugepage/enabled",
    parse=parse_pages,
)


def parse_profile(text: str) -> str:
    """Return the profile that `tuned-adm active` names.

    >>> parse_profile("Current active profile: rackwright")
    'rackwright'
    """
    if active := re.search(r"^Current active profile: *(.+?)\s*$", text, re.MULTILINE):
        return active[1]
    if preset := re.search(r"^Preset profile: *(.+?)\s*$", text, re.MULTILINE):
        return f"none ({preset[1]} is selected, and tuned does not run)"
    if re.search(r"^No current active profile", text, re.MULTILINE):
        return "none"
    raise ValueError("no profile in the output")


PROFILE = Probe("tuned-profile", on="with_tuning", command="tuned-adm active", parse=parse_profile, statuses=frozenset({0, 1}))
"""Without an active profile, tuned-adm(8) ends with status 1."""


_NONE: Final = "none"
"""Output where the plan sets nothing."""


def parse_settings(text: str) -> Lines[str]:
    """Return settings from lines `name = value` of sysctl. Several values are separated by one blank.

    >>> parse_settings("net.ipv4.tcp_rmem = 4096\\t131072\\t6291456\\n")
    {'net.ipv4.tcp_rmem': '4096 131072 6291456'}
    """
    if text.strip() == _NONE:
        return Lines()
    found = read_each_line(text, _setting)
    if not found:
        raise ValueError("no setting is listed")
    return found


def _setting(line: str) -> tuple[str, str]:
    found = re.fullmatch(r"\s*([\w./:@*-]+) ?= ?(.*)", line)
    if found is None:
        raise ValueError("no setting")
    return found[1].replace("/", "."), " ".join(found[2].split())


def _settings(context: ProbeContext) -> str:
    names = " ".join(context.declared.node_stack["tuning"]["sysctl"])
    return f"sysctl --ignore {names}" if names else f"echo {_NONE}"  # a setting that the kernel lacks is missing from the output


SETTINGS = Probe("kernel-settings", on="with_tuning", command=_settings, parse=parse_settings)


def parse_limits(text: str) -> Lines[str]:
    """Return hard limits from lines `DefaultLimit<NAME>=<value>` of systemd, those of memory in bytes.

    >>> parse_limits("DefaultLimitMEMLOCK=infinity\\nDefaultLimitNOFILE=1048576\\n")
    {'memlock': 'unlimited', 'nofile': '1048576'}
    """
    found = read_each_line(text, _limit)
    if not found:
        raise ValueError("no limits")
    return found


def _limit(line: str) -> tuple[str, str]:
    found = re.fullmatch(r"\s*DefaultLimit([A-Z]+)=(infinity|\d+)\s*", line)
    if found is None:
        raise ValueError("no limit")
    return found[1].lower(), "unlimited" if found[2] in ("infinity", _INFINITY) else found[2]


_INFINITY: Final = str(2**64 - 1)
"""RLIM_INFINITY as systemd before 229 prints it."""


LIMITS = Probe(
    "service-limits",
    on="with_tuning",
    command="systemctl show --property=DefaultLimitMEMLOCK,DefaultLimitNOFILE,DefaultLimitNPROC,DefaultLimitSTACK",
    parse=parse_limits,
)
