"""Probes of huge pages, limits of services, kernel settings, and the active profile of tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, ProbeContext

_SIZES = {"2048": "2MiB", "1048576": "1GiB"}


@dataclass(frozen=True)
class Pages:
    """Reserved huge pages by size, and the mode of transparent huge pages."""

    reserved: Mapping[str, int]
    transparent: str


def parse_pages(text: str) -> Pages:
    """Return huge pages from lines `hugepages-<KiB>kB <number>`, then the modes of transparent huge pages, the active one in brackets.

    >>> parse_pages("hugepages-2048kB 12\\nalways [madvise] never")
    Pages(reserved={'2MiB': 12}, transparent='madvise')
    """
    *lines, choices = text.strip().splitlines()
    rows = [line.split() for line in lines]
    sizes = {row[0].removeprefix("hugepages-").removesuffix("kB"): int(row[1]) for row in rows}
    (chosen,) = [word.strip("[]") for word in choices.split() if word.startswith("[")]
    return Pages({_SIZES[kib]: number for kib, number in sizes.items() if kib in _SIZES}, chosen)


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
    words, _, name = text.strip().rpartition(": ")
    if not words.endswith("profile"):
        raise ValueError("no profile in the output")
    return name


PROFILE = Probe("tuned-profile", on="with_tuning", command="tuned-adm active", parse=parse_profile)


_NONE: Final = "none"
"""Output where the plan sets nothing."""


def parse_settings(text: str) -> dict[str, str]:
    """Return settings from lines `name = value` of sysctl. Several values are separated by one blank.

    >>> parse_settings("net.ipv4.tcp_rmem = 4096\\t131072\\t6291456")
    {'net.ipv4.tcp_rmem': '4096 131072 6291456'}
    """
    rows = [line.partition(" = ") for line in text.splitlines() if line.strip()]
    if text.strip() == _NONE:
        return {}
    if not rows or not all(sign for _, sign, _ in rows):
        raise ValueError("a line contains no setting")
    return {name: " ".join(value.split()) for name, _, value in rows}


def _settings(context: ProbeContext) -> str:
    names = " ".join(context.declared.node_stack["tuning"]["sysctl"])
    return f"sysctl {names}" if names else f"echo {_NONE}"


SETTINGS = Probe("kernel-settings", on="with_tuning", command=_settings, parse=parse_settings)


def parse_limits(text: str) -> dict[str, str]:
    """Return hard limits from lines `DefaultLimit<NAME>=<value>` of systemd, those of memory in bytes.

    >>> parse_limits("DefaultLimitMEMLOCK=infinity\\nDefaultLimitNOFILE=1048576")
    {'memlock': 'unlimited', 'nofile': '1048576'}
    """
    rows = [line.partition("=") for line in text.split()]
    if not rows or not all(name.startswith("DefaultLimit") and value for name, _, value in rows):
        raise ValueError("no limits")
    limits = {name.removeprefix("DefaultLimit").lower(): value for name, _, value in rows}
    return {name: "unlimited" if value == "infinity" else value for name, value in limits.items()}


LIMITS = Probe(
    "service-limits",
    on="with_tuning",
    command="systemctl show --property=DefaultLimitMEMLOCK,DefaultLimitNOFILE,DefaultLimitNPROC,DefaultLimitSTACK",
    parse=parse_limits,
)
