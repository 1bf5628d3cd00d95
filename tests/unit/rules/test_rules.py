"""Every rule against rows that break it and rows that do not. A row names all rules it breaks: nothing else may complain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

from rackwright import rules
from rackwright.model import Finding
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import load_cluster

_HERE = Path(__file__).parent
BAD: list[dict[str, Any]] = yaml_reader.read(_HERE / "bad.yml")[0]
GOOD: list[dict[str, Any]] = yaml_reader.read(_HERE / "good.yml")[0]
LIKE: dict[str, Any] = {row["name"]: row for row in GOOD}
TODAY = date(2026, 12, 1)


def merge(base: Any, change: Any) -> Any:
    """The base with a change: mappings merge, a null removes, anything else replaces."""
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    merged = {**base, **{key: merge(base.get(key), value) for key, value in change.items()}}
    return {key: value for key, value in merged.items() if value is not None}


def described(row: Mapping[str, Any]) -> Any:
    """A row's cluster: the one of the row it is like, or the first one, with its change.

    The first cluster has MooseFS, which only its own operating system packages. A row with another one shares a folder over NFS.
    """
    if "cluster" in row:
        return row["cluster"]
    merged, change = merge(described(LIKE[row["like"]] if "like" in row else GOOD[0]), row.get("change", {})), row.get("change", {})
    systems = {merged["target"].get("os", "ubuntu-24.04" if merged["target"]["kind"] == "aws" else "debian-13")}
    systems |= {machine.get("os", "debian-13") for machine in merged["target"].get("machines", {}).values()}
    shared = merged.get("storage", {}).get("sharedfs", {})
    if merged["target"]["kind"] != "lab" and systems != {"debian-13"} and shared.get("kind") == "moosefs" and "storage" not in change:
        return merge(merged, {"storage": {"sharedfs": {"kind": "nfs"}}})
    return merged


_found: dict[tuple[int, bool], tuple[Finding, ...]] = {}


def findings(row: Mapping[str, Any]) -> tuple[Finding, ...]:
    """What is said about a row while it is being written."""
    return found_once(row, at_up=False)


def findings_at_up(row: Mapping[str, Any]) -> tuple[Finding, ...]:
    """What `up` says about a row."""
    return found_once(row, at_up=True)


def found_once(row: Mapping[str, Any], *, at_up: bool) -> tuple[Finding, ...]:
    """The findings of a row, found once: rows live as long as this module."""
    key = id(row), at_up
    if key not in _found:
        _found[key] = find(row, at_up=at_up)
    return _found[key]


def find(row: Mapping[str, Any], *, at_up: bool) -> tuple[Finding, ...]:
    """Check a row's cluster; its fields are valid, so that rules alone speak."""
    loaded = load_cluster(described(row), row.get("stack", "lab"))
    assert loaded.cluster is not None, loaded.findings
    beside = {name: load_cluster(merge(GOOD[0]["cluster"], change)).cluster for name, change in row.get("beside", {}).items()}
    return rules.check(
        loaded,
        TODAY,
        {name: cluster for name, cluster in beside.items() if cluster is not None},
        at_up=at_up,
        missing_files=row.get("absent", ()),
        secret_problems=row.get("secrets", {}),
    )


@pytest.mark.parametrize("row", BAD, ids=[f"{index}-{row['rule']}" for index, row in enumerate(BAD)])
def test_a_bad_row_yields_its_finding_and_no_other(row: Mapping[str, Any]) -> None:
    """Where, what, what now; and nothing beside the point."""
    found = findings(row)
    assert {finding.rule for finding in found} == {row["rule"], *row.get("also", [])}, "\n".join(map(str, found))
    assert [str(finding) for finding in found if not finding.hint] == [], "a finding says what to do"
    mine = [finding for finding in found if finding.rule == row["rule"]]
    assert row["path"] in [finding.path for finding in mine]
    assert all(finding.cause for finding in found)
    assert any(row.get("says", "") in str(finding) for finding in mine), "\n".join(map(str, mine))


def test_what_may_be_left_open_while_writing_is_an_error_at_up() -> None:
    """Ids that a command writes, and places of an example that only the user can fill in."""
    open_ = {finding.rule for row in BAD for finding in findings_at_up(row) if finding.is_error and finding not in findings(row)}
    assert open_ == {
        "image-unpinned",
        "allow-placeholder",
        "reservation-placeholder",
        "machine-key-missing",
        "machine-key-placeholder",
        "pod-network-manifests",
    } | {"receiver-secret", "power-saving-password"}


@each_row("row", GOOD, ids=[row["name"] for row in GOOD])
def test_a_good_row_yields_nothing(row: Mapping[str, Any]) -> None:
    """Rules that complain about good clusters are switched off by their users."""
    assert findings(row) == ()


def test_every_rule_is_reached() -> None:
    """A rule that no row breaks may be dead code."""
    reached = {finding.rule for row in BAD for finding in findings(row)}
    assert reached == set(rules.RULES)


def test_every_rule_has_a_row_of_its_own() -> None:
    """A violation in another rule's row does not prove the path and the hint."""
    assert {row["rule"] for row in BAD} == set(rules.RULES)


def test_there_are_more_rules_than_a_person_would_think_of() -> None:
    """And their names are words, as reports and documents use them."""
    assert len(rules.RULES) > 100
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name) for name in rules.RULES)


def test_rule_names_are_registered_once() -> None:
    """The second one would silently replace the first."""
    with pytest.raises(ValueError, match="stack-name"):
        rules.registry.rule("stack-name")(lambda case: iter(()))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"access": {"allowed_cidrs": ["any"]}}, "access.allowed_cidrs[0]"),
        ({"users": {"alice": None, "Alice": {"uid": 2001}}}, "users.Alice"),
        ({"nodes": {"worker0": {"state": "off"}}}, "nodes.worker0.state"),
    ],
    ids=["list", "mapping", "node"],
)
def test_invalid_part_has_no_second_finding(change: Mapping[str, Any], path: str) -> None:
    """The list or the mapping without the part is not what the file says."""
    loaded = load_cluster(merge(GOOD[0]["cluster"], change), "lab")
    assert [finding.path for finding in rules.check(loaded, TODAY)] == [path]
