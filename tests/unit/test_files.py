"""Files are replaced whole, with the mode that was asked for."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rackwright.files import write_atomic


def mode_of(file):
    return stat.S_IMODE(file.stat().st_mode)


@pytest.fixture
def umask():
    """Set a umask for the test; return the function that does it."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666])
def test_mode_does_not_depend_on_umask(tmp_path, umask, mode):
    umask(0o077)
    write_atomic(tmp_path / "report.json", "{}", mode)
    assert mode_of(tmp_path / "report.json") == mode


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_umask_decides_without_a_mode(tmp_path, umask, mask, expected):
    umask(mask)
    write_atomic(tmp_path / "report.html", b"<p>")
    assert mode_of(tmp_path / "report.html") == expected


def test_text_is_utf_8(tmp_path):
    write_atomic(tmp_path / "a", "✓ é")
    assert (tmp_path / "a").read_bytes() == "✓ é".encode()


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "state.json"
    file.write_text("old")

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomic(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_link_is_replaced_and_its_target_kept(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "target").read_text() == "old"
    assert not (tmp_path / "link").is_symlink()


def test_readers_never_see_a_part(tmp_path):
    """Two threads replace the file while the test reads it; each content is complete, and no temporary file remains."""
    file, texts = tmp_path / "f", ["a" * 200_000, "b" * 300_000]
    file.write_text(texts[0])
    with ThreadPoolExecutor(len(texts)) as pool:
        writers = [pool.submit(lambda text=text: [write_atomic(file, text) for _ in range(30)]) for text in texts]
        seen = set()
        while not all(writer.done() for writer in writers):
            seen.add(file.read_text())
    assert [writer.exception() for writer in writers] == [None, None]
    assert seen <= set(texts)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
