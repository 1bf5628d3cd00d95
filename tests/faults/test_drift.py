"""Every fault of drift.yml is reported by `rackwright drift` with its layer, subject and node; after its removal nothing differs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from string import Template
from typing import Any, Final

import pytest
import yaml

from .conftest import chosen, drift
from .lab import Lab
from .score import SECONDS

SAMPLE: Final = ("resources.undeclared_volume", "access.added_sudoers_file", "scheduler.slurm_conf_is_edited")
"""For the run that every change must pass; `make faults` runs all."""


@dataclass(frozen=True)
class Fault:
    """One row."""

    names: list[str]
    where: str = "role_worker"
    here: str = ""
    apply: str = ""
    undo: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    cluster: bool = False
    unreachable: bool = False
    heal: bool = False


FAULTS: Final = {
    key: Fault(**row) for key, row in yaml.safe_load(Path(__file__).with_name("drift.yml").read_text(encoding="utf-8")).items()
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


def told(differences: list[dict[str, Any]]) -> str:
    return "\n".join(f"{one['layer']} {one['subject']} on {one['node']}: {one['declared']} -> {one['live']}" for one in differences)


@pytest.mark.fault
@pytest.mark.podman
@pytest.mark.parametrize("lab", ["lab"], indirect=True, scope="session")
@pytest.mark.parametrize("key", FAULTS if chosen() == "all" else SAMPLE)
def test_drift_reports_only_the_fault(watched: Lab, key: str, record_property: Any) -> None:
    fault = FAULTS[key]
    node = watched.declared.members(fault.where)[-1]
    try:
        here(watched, node, fault.here) if fault.here else watched.do(node, fault.apply)
        began = time.monotonic()
        found = drift(watched)
        record_property(SECONDS, time.monotonic() - began)
    finally:
        take_back(watched, node, fault)
    assert watched.project
    names = [Template(name).safe_substitute(STACK=watched.project.stack) for name in fault.names]
    own = "" if fault.cluster else node
    missing = [name for name in names if not any(fnmatchcase(_name(one), name) and one["node"] == own for one in found["differences"])]
    assert not missing, f"drift does not name {missing} on {own}, but\n{told(found['differences'])}"
    others = [one for one in found["differences"] if not _expected(one, own, names, fault.also)]
    assert not others, f"{key}: drift also names\n{told(others)}"
    silent = {silence["node"] for layer in found["layers"] for silence in layer["unknown"]}
    assert (node in silent) is fault.unreachable, found["layers"]
    after = drift(watched)
    assert after["state"] == "clean", f"{key} was taken back, and yet:\n{told(after['differences'])}\n{after['layers']}"


def _name(one: Mapping[str, str]) -> str:
    return f"{one['layer']} {one['subject']}"


def _expected(one: Mapping[str, str], own: str, names: list[str], also: Mapping[str, str]) -> bool:
    """Return whether the row expects this difference."""
    named = one["node"] == own and any(fnmatchcase(_name(one), name) for name in names)
    return named or any(fnmatchcase(_name(one), pattern) for pattern in also)
