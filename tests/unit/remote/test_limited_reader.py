"""A reader that waits for a file system is not waited for."""

from __future__ import annotations

import os
import time

import pytest
from support.hang import HANG_SECONDS

from rackwright.remote.programs.limited_reader import read_within


def test_result_and_error_are_passed_on():
    assert read_within(HANG_SECONDS, lambda: {"root x": "é" * 100_000}) == {"root x": "é" * 100_000}
    with pytest.raises(RuntimeError, match="PermissionError: no"):
        read_within(HANG_SECONDS, lambda: (_ for _ in ()).throw(PermissionError("no")))


def test_child_without_answer_is_an_error():
    with pytest.raises(RuntimeError, match="ended without an answer"):
        read_within(HANG_SECONDS, lambda: os._exit(3))


def test_reader_that_waits_is_left(tmp_path):
    """A pipe without a writer blocks its reader, as a suspended file server does."""
    os.mkfifo(tmp_path / "home")
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        read_within(0.2, lambda: (tmp_path / "home").read_text())
    assert time.monotonic() - started < HANG_SECONDS
