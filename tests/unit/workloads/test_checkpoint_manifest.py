"""A checkpoint is intact only if every byte of every file is what rank 0 hashed."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackwright.errors import InputError, UndeterminedError
from rackwright.operations.checkpoints import verify_checkpoints
from rackwright.report.schemas import schema_errors
from rackwright.workloads.training import manifest

SHARDS = {"__0_0.distcp": b"weights of rank 0" * 40, "__1_0.distcp": b"weights of rank 1" * 41, ".metadata": b"\x80\x04pickle"}


def create(root: Path, step: int, shards: dict[str, bytes] = SHARDS) -> Path:
    """Write a checkpoint as rank 0 does."""
    folder = root / f".tmp-{step:08d}-0-0"
    folder.mkdir(parents=True)
    for name, content in shards.items():
        (folder / name).write_bytes(content)
    manifest.write_manifest(folder, step=step, world_size=2, version="2.6.0")
    return manifest.publish(folder, step)


@cache
def written() -> dict[str, bytes]:
    """Return the files of a checkpoint; written once, because each one is flushed to disk."""
    with tempfile.TemporaryDirectory() as folder:
        return {path.name: path.read_bytes() for path in create(Path(folder), 40).iterdir()}


@contextmanager
def checkpoint() -> Iterator[Path]:
    """Yield a checkpoint of its own for each example that Hypothesis draws."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / manifest.name_of(40)
        path.mkdir()
        for name, content in written().items():
            (path / name).write_bytes(content)
        yield path


def problems(path: Path) -> list[tuple[str, str]]:
    """Return (file, problem) of each damage."""
    return [(one.file, one.problem) for one in manifest.find_damage(path)]


@given(st.sampled_from(sorted(SHARDS)), st.data())
def test_flipped_bit_of_shard_is_found(name: str, data: st.DataObject) -> None:
    with checkpoint() as path:
        content = bytearray((path / name).read_bytes())
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        content[bit // 8] ^= 1 << bit % 8
        (path / name).write_bytes(content)
        assert problems(path) == [(name, "damaged")]


@given(st.data())
def test_flipped_bit_of_manifest_is_found(data: st.DataObject) -> None:
    with checkpoint() as path:
        content = bytearray((path / manifest.MANIFEST).read_bytes())
        bit = data.draw(st.integers(0, 8 * len(content) - 1))
        content[bit // 8] ^= 1 << bit % 8
        (path / manifest.MANIFEST).write_bytes(content)
        assert problems(path) == [(manifest.MANIFEST, "unreadable")]


@given(st.sampled_from([*sorted(SHARDS), manifest.MANIFEST]), st.data())
def test_truncated_file_is_found(name: str, data: st.DataObject) -> None:
    """For the manifest, that is what a kill in the middle of writing leaves."""
    with checkpoint() as path:
        content = (path / name).read_bytes()
        (path / name).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
        assert problems(path) == [(name, "unreadable" if name == manifest.MANIFEST else "damaged")]


@given(st.sets(st.sampled_from([*sorted(SHARDS), manifest.MANIFEST]), min_size=1))
def test_removed_files_are_named(names: set[str]) -> None:
    with checkpoint() as path:
        for name in names:
            (path / name).unlink()
        expected = [manifest.MANIFEST] if manifest.MANIFEST in names else sorted(names)
        assert problems(path) == [(name, "missing") for name in expected]


@given(st.sampled_from(sorted(SHARDS)), st.text("abcxyz_0123456789.", min_size=3, max_size=12).filter(lambda name: name.strip(".")))
def test_renamed_shard_is_missing_and_additional(old: str, new: str) -> None:
    with checkpoint() as path:
        if new in (*SHARDS, manifest.MANIFEST):
            return
        (path / old).rename(path / new)
        assert sorted(problems(path)) == sorted([(old, "missing"), (new, "additional")])


def test_exchanged_shards_are_both_damaged(tmp_path: Path) -> None:
    path = create(tmp_path, 40)
    (path / "__0_0.distcp").rename(path / "x")
    (path / "__1_0.distcp").rename(path / "__0_0.distcp")
    (path / "x").rename(path / "__1_0.distcp")
    assert problems(path) == [("__0_0.distcp", "damaged"), ("__1_0.distcp", "damaged")]


def test_checkpoint_of_another_step_is_damaged(tmp_path: Path) -> None:
    path = create(tmp_path, 40)
    assert problems(path.rename(tmp_path / manifest.name_of(80))) == [(manifest.MANIFEST, "damaged")]


def test_unfinished_folder_is_no_checkpoint(tmp_path: Path) -> None:
    create(tmp_path, 40)
    left = tmp_path / ".tmp-00000080-0-0"
    shutil.copytree(tmp_path / manifest.name_of(40), left)
    assert manifest.newest_intact(tmp_path) == (tmp_path / manifest.name_of(40), [])
    found = verify_checkpoints(tmp_path)
    assert [one.path.name for one in found.checkpoints] == ["step-00000040"] and found.unfinished == (left.name,)
    with pytest.raises(InputError, match="contains no checkpoint"):
        verify_checkpoints(left)


def test_resume_passes_over_damaged_checkpoints(tmp_path: Path) -> None:
    paths = [create(tmp_path, step) for step in (40, 80, 120)]
    (paths[2] / ".metadata").unlink()
    (paths[1] / manifest.MANIFEST).write_text('{"schema": "rackwright.ch')
    assert manifest.newest_intact(tmp_path) == (paths[0], [paths[2], paths[1]])


def test_prune_keeps_newest_and_removes_unfinished(tmp_path: Path) -> None:
    for step in (40, 80, 120, 160):
        create(tmp_path, step)
    (tmp_path / ".tmp-00000200-0-0").mkdir()
    assert sorted(manifest.prune(tmp_path, 3)) == [".tmp-00000200-0-0", "step-00000040"]
    assert [path.name for path in manifest.checkpoints(tmp_path)] == ["step-00000160", "step-00000120", "step-00000080"]


def test_step_is_published_once(tmp_path: Path) -> None:
    """A rank of an attempt that was given up cannot replace a checkpoint."""
    create(tmp_path, 40)
    with pytest.raises(OSError, match="not empty"):
        create(tmp_path, 40)


def damage_shard(path: Path) -> None:
    """Change one byte."""
    (path / "__1_0.distcp").write_bytes(b"X" + SHARDS["__1_0.distcp"][1:])


@pytest.mark.parametrize(
    ("change", "code", "verdict", "intact"),
    [(lambda _path: None, 0, "passed", "step-00000080"), (damage_shard, 1, "failed", "step-00000040")],
)
def test_verify_document_follows_schema(tmp_path: Path, change: Callable[[Path], None], code: int, verdict: str, intact: str) -> None:
    create(tmp_path / "checkpoints", 40)
    change(create(tmp_path / "checkpoints", 80))
    found = verify_checkpoints(tmp_path)
    document: dict[str, Any] = json.loads(json.dumps(found.as_dict()))
    assert schema_errors("checkpoints", document) == []
    assert (found.verdict.exit_code, document["verdict"], document["newest_intact"]) == (code, verdict, intact)
    assert [one["step"] for one in document["checkpoints"]] == [80, 40]


def test_verify_refuses_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        verify_checkpoints(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        verify_checkpoints(tmp_path / "file")
    with pytest.raises(InputError, match="contains no checkpoint"):
        verify_checkpoints(tmp_path)


def test_unreadable_file_is_undetermined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = create(tmp_path, 40)

    def refuse(file: Path) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(manifest, "digest", refuse)
    with pytest.raises(UndeterminedError, match=r"__0_0.distcp|.metadata"):
        verify_checkpoints(path)
