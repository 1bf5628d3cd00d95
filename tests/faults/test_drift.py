"""`rackwright drift` reports every fault of drift.yml and suspended.yml by layer, subject and node; after its removal nothing differs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from string import Template
from typing import Any, Final

import pytest

from rackwright.time_limits import slowness
from rackwright.yaml_loader import load_yaml

from .conftest import chosen, drift
from .lab import Lab
from .score import SECONDS

SAMPLE: Final = ("resources.undeclared_volume", "access.added_sudoers_file", "scheduler.slurm_conf_is_edited")
"""For the run that every change must pass; `make faults` runs all."""


CLEAN_SECONDS: Final = 12.7
"""Seconds of a scan that finds nothing and runs check mode, on the machine for which `limit_s` was chosen, at rest."""
TRIES: Final = 3
"""Scans of a fault with a limit: other work on the machine can slow any one of them, and a clean scan beside it not."""


@dataclass(frozen=True)
class Fault:
    """One row."""

    names: list[str]
    where: str = "role_worker"
    here: str = ""
    apply: str = ""
    undo: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    alerts: Sequence[str] = ()
    cluster: bool = False
    unknown: bool = False
    heal: bool = False
    stack: str = "lab"
    limit_s: float | None = None
    """Seconds for the scan where a clean one takes CLEAN_SECONDS; such a fault leaves nothing unknown on any node."""


FAULTS: Final = {
    key: Fault(**row)
    for name in ("drift.yml", "suspended.yml")
    for key, row in load_yaml(Path(__file__).with_name(name).read_text(encoding="utf-8")).items()
}


def here(lab: Lab, node: str, commands: str) -> None:
    """Run commands of a fault on this machine."""
    assert lab.project
    environment = {**os.environ, "STACK": lab.project.stack, "NODE": node}
    subprocess.run(["sh", "-ec", commands], env=environment, check=True, capture_output=True, timeout=120)


def take_back(lab: Lab, node: str, fault: Fault) -> None:
    """Remove the fault where it was injected."""
    if fault.heal:
        assert drift(lab, "--reconcile", "all")["state"] == "clean"
    if fault.here:
        here(lab, node, fault.undo)
    elif fault.undo:
        lab.do(node, fault.undo)
    lab.settle([] if fault.here else [node])


@dataclass(frozen=True)
class Scan:
    """What a scan found, its seconds, and the factor by which the product's time limits grew meanwhile."""

    found: dict[str, Any]
    seconds: float
    slowness: int


def timed_scan(lab: Lab) -> Scan:
    """Scan for drift."""
    before, began = slowness(), time.monotonic()
    found, seconds = drift(lab), time.monotonic() - began
    return Scan(found, seconds, max(before, slowness()))


def is_within(limit_s: float, scan: Scan, clean: Sequence[Scan]) -> bool:
    """Return whether a scan took no longer than the limit allows beside clean ones, with the machine as slow as it was then."""
    return scan.seconds <= limit_s * max(scan.slowness, max(one.seconds for one in clean) / CLEAN_SECONDS)


def told(differences: list[dict[str, Any]]) -> str:
    return "\n".join(f"{one['layer']} {one['subject']} on {one['node']}: {one['declared']} -> {one['live']}" for one in differences)


@pytest.mark.fault
@pytest.mark.podman
@pytest.mark.parametrize(
    ("lab", "key"),
    [pytest.param(FAULTS[key].stack, key, id=key) for key in (FAULTS if chosen() == "all" else SAMPLE)],
    indirect=["lab"],
    scope="session",
)
def test_drift_reports_only_the_fault(watched: Lab, key: str, record_property: Any) -> None:
    fault = FAULTS[key]
    members = watched.declared.members(fault.where)
    if not members:
        pytest.skip(f"this stack has no node in {fault.where}")
    node = members[-1]
    clean = [timed_scan(watched)] if fault.limit_s else []
    try:
        here(watched, node, fault.here) if fault.here else watched.do(node, fault.apply)
        scans = scans_of(watched, fault, clean)
        record_property(SECONDS, min(scan.seconds for scan in scans))
    finally:
        take_back(watched, node, fault)
    for scan in scans:
        assert_only_fault_is_named(watched, key, node, scan.found)
    clean.append(timed_scan(watched))
    if fault.limit_s is not None:
        assert any(is_within(fault.limit_s, scan, clean) for scan in scans), (
            f"{key}: limit {fault.limit_s} s; {times(scans)}; clean: {times(clean)}"
        )
    after = clean[-1].found
    assert after["state"] == "clean", f"{key} was taken back, and yet:\n{told(after['differences'])}\n{after['layers']}"


def times(scans: Sequence[Scan]) -> str:
    """Return the times of scans as text."""
    return ", ".join(f"{scan.seconds:.1f} s on a machine {scan.slowness} times slower" for scan in scans)


def scans_of(lab: Lab, fault: Fault, clean: Sequence[Scan]) -> list[Scan]:
    """Return the scans of a fault that is injected: one, or up to TRIES until one is within the fault's limit."""
    scans = [timed_scan(lab)]
    while fault.limit_s and len(scans) < TRIES and not is_within(fault.limit_s, scans[-1], clean):
        scans.append(timed_scan(lab))
    return scans


def assert_only_fault_is_named(lab: Lab, key: str, node: str, found: dict[str, Any]) -> None:
    """Assert that a scan names the fault on its node, and nothing that the row does not expect."""
    fault = FAULTS[key]
    assert lab.project
    names = [Template(name).safe_substitute(STACK=lab.project.stack) for name in fault.names]
    own = "" if fault.cluster else node
    missing = [name for name in names if not any(fnmatchcase(_name(one), name) and one["node"] == own for one in found["differences"])]
    assert not missing, f"drift does not name {missing} on {own}, but\n{told(found['differences'])}"
    others = [one for one in found["differences"] if not _expected(one, own, names, fault.also)]
    assert not others, f"{key}: drift also names\n{told(others)}"
    unknown = {each["node"] for layer in found["layers"] for each in layer["unknown"]}
    assert (node in unknown) is fault.unknown, found["layers"]
    if fault.limit_s is not None:
        assert not unknown, found["layers"]


def _name(one: Mapping[str, str]) -> str:
    return f"{one['layer']} {one['subject']}"


def _expected(one: Mapping[str, str], own: str, names: list[str], also: Mapping[str, str]) -> bool:
    """Return whether the row expects this difference."""
    named = one["node"] == own and any(fnmatchcase(_name(one), name) for name in names)
    return named or any(fnmatchcase(_name(one), pattern) for pattern in also)
