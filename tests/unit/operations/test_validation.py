"""Validation as a function: a missing file and a silent account are findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers.aws import account_checks
from rackwright.drivers.aws.account import AwsCredentialsError
from rackwright.inventory import paths
from rackwright.model.finding import Finding, Severity
from rackwright.operations.validation import validate
from rackwright.stackfile.load import load_stack


def rules(found: Any) -> list[str]:
    return [finding.rule for finding in found.stack.findings]


def test_missing_file_is_finding() -> None:
    found = validate("labb", online=True)
    assert rules(found) == ["stack-file"] and not found.stack.ok
    assert (found.stack.loaded.stack, found.account_unknown) == ("labb", False)


def test_online_validation_of_lab_has_note() -> None:
    assert rules(validate("lab", online=False)) == []
    found = validate("lab", online=True)
    assert rules(found) == ["online-account"] and found.stack.ok and not found.account_unknown


def test_online_validation_adds_findings_of_account(monkeypatch: pytest.MonkeyPatch) -> None:
    quota = Finding(Severity.ERROR, "online-quota", "groups.worker", "the quota is 0", "request a quota")
    monkeypatch.setattr(account_checks, "run_checks", lambda context: iter([quota]))
    offline = validate("aws-budget", online=False)
    found = validate("aws-budget", online=True)
    assert found.stack.findings == (*offline.stack.findings, quota)
    assert not found.stack.ok and not found.account_unknown


def test_edited_neighbour_is_read_again(tmp_path: Path) -> None:
    """Each state of the other stack's file: its port is taken, it has another one, it is broken, it is removed."""
    text = paths.stack_file("lab").read_text(encoding="utf-8")
    file, other = tmp_path / "Pulumi.mine.yaml", tmp_path / "Pulumi.other.yaml"
    file.write_text(text)

    def found() -> set[str]:
        return {rule for rule in rules(validate(str(file), online=False)) if rule.startswith("stacks-")}

    other.write_text(text)
    assert found() == {"stacks-overlap", "stacks-port"}
    port = load_stack(file).cluster.access.port  # type: ignore[union-attr]
    assert str(port) in text
    other.write_text(text.replace(str(port), "2999"))
    assert found() == {"stacks-overlap"}
    other.write_text("config: [")
    assert found() == set()
    other.write_text(text)
    assert found() == {"stacks-overlap", "stacks-port"}
    other.unlink()
    assert found() == set()


@pytest.mark.parametrize("valid", [True, False])
def test_account_is_unknown_only_for_valid_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, valid: bool) -> None:
    def refuse(context: object) -> Iterator[Finding]:
        raise AwsCredentialsError("Unable to locate credentials", path="sts:get_caller_identity")

    monkeypatch.setattr(account_checks, "run_checks", refuse)
    file = tmp_path / "Pulumi.mine.yaml"
    text = paths.stack_file("aws-budget").read_text(encoding="utf-8")
    file.write_text(text if valid else text.replace("zone: us-east-1a", "zone: us-west-2a"))
    assert validate(str(file), online=False).stack.ok is valid
    found = validate(str(file), online=True)
    assert not found.stack.ok and "Unable to locate credentials" in found.stack.findings[-1].cause
    assert found.account_unknown is valid
