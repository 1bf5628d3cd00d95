"""Packages that only the tests need: `make setup-dev` installs them, `make up` does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap import packages

LAB = "config:\n  rackwright:cluster:\n    target: {kind: lab}\n"
HOSTS = "config:\n  rackwright:cluster:\n    target: {kind: hosts}\n"


@pytest.mark.parametrize("text", [LAB, HOSTS])
def test_file_systems_are_installed_for_tests_only(make_machine, tmp_path: Path, text: str) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.own.yaml").write_text(text)
    bare, machine = make_machine(), make_machine(commands={"mkfs.ext4": "exit 0"})
    for stack, dev, expected in (("own", True, True), ("own", False, False), (None, True, False)):
        needs = packages.wanted(tmp_path, stack, bare, dev=dev)
        assert ("e2fsprogs" in [need.apt for need in needs]) == expected, (stack, dev)
    assert "e2fsprogs" not in [need.apt for need in packages.missing(machine, packages.wanted(tmp_path, "own", machine, dev=True))]
