"""The cache is used only if intact, and a node receives the chosen tests and what they share."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from slurm_suite.source import Source, is_intact

FILES = (
    "README",
    "testsuite/expect/globals",
    "testsuite/expect/inc1.2.1",
    "testsuite/expect/test1.1",
    "testsuite/expect/test1.10",
    "testsuite/expect/test1.1.prog.c",
    "testsuite/expect/test1.10_configs/one.conf",
    "testsuite/python/test_1.py",
)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    with tarfile.open(tmp_path / "slurm-wlm_1.2.3.orig.tar.gz", "w:gz") as tar:
        for name in FILES:
            member = tarfile.TarInfo(f"slurm-1.2.3/{name}")
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    (tmp_path / "expect_9_all.deb").write_bytes(b"package")
    return Source(tmp_path)


def test_tests_of_the_suite_are_scripts_only(source: Source) -> None:
    assert source.tests() == ["1.1", "1.10"]


def test_archive_has_chosen_tests_and_shared_files(source: Source) -> None:
    with tarfile.open(fileobj=io.BytesIO(source.archive(["1.10"], "set x 1\n"))) as tar:
        names = set(tar.getnames())
        content = tar.extractfile("expect/globals.local")
        assert content and content.read() == b"set x 1\n"
    assert names == {
        "expect/globals",
        "expect/inc1.2.1",
        "expect/test1.10",
        "expect/test1.10_configs/one.conf",
        "expect/globals.local",
        "packages/expect_9_all.deb",
        "run_tests.py",
        "testsuite.conf",
    }


def test_folder_is_intact_with_its_recorded_sums_only(tmp_path: Path) -> None:
    assert not is_intact(tmp_path)
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "sha256.json").write_text(json.dumps({"a": hashlib.sha256(b"one").hexdigest()}), encoding="utf-8")
    assert is_intact(tmp_path)
    (tmp_path / "a").write_bytes(b"two")
    assert not is_intact(tmp_path)
    (tmp_path / "a").unlink()
    assert not is_intact(tmp_path)
    (tmp_path / "sha256.json").write_text("{}", encoding="utf-8")
    assert not is_intact(tmp_path)
