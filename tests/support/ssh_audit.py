"""Findings of ssh-audit about algorithms, and the one warning that role sshd accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SETTINGS: Final = {"KexAlgorithms": "kex", "Ciphers": "enc", "MACs": "mac", "HostKeyAlgorithms": "key"}
"""Keywords of sshd_config(5) -> the names of the same lists in ssh-audit."""
LEVELS: Final = ("fail", "warn")

Findings = dict[str, dict[str, list[str]]]
"""Level -> algorithm -> what ssh-audit says about it."""

_NOT_POST_QUANTUM: Final = "does not provide protection against post-quantum attacks"
ACCEPTED: Final[Findings] = {
    "fail": {},
    "warn": {"curve25519-sha256": [_NOT_POST_QUANTUM], "curve25519-sha256@libssh.org": [_NOT_POST_QUANTUM]},
}
"""One method under its two names: clients before OpenSSH 8.5 know none without this warning (roles/sshd/README.md, Algorithms)."""


def findings(report: Mapping[str, Any]) -> Findings:
    """Return the failures and warnings of a report of `ssh-audit -j`. A list that the report lacks is an error: nothing was audited."""
    found: Findings = {level: {} for level in LEVELS}
    for kind in SETTINGS.values():
        assert report[kind], f"ssh-audit reports no {kind}"
        for entry in report[kind]:
            for level in LEVELS:
                if entry["notes"].get(level):
                    found[level][entry["algorithm"]] = entry["notes"][level]
    return found
