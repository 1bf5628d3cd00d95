"""Reading of an audit log that may be rotated at any moment."""

from __future__ import annotations

import pytest

from rackwright.remote.programs import control_plane


@pytest.fixture
def log(tmp_path):
    return tmp_path / "audit.log"


def test_new_log_is_read_with_previous_one(log):
    (log.parent / "audit-2026-11-22T01-00-00.000.log").write_text("oldest\n")
    (log.parent / "audit-2026-11-23T01-00-00.000.log").write_text("asked\n")
    log.write_text("later\n")
    assert control_plane.log_end(str(log)) == (6, [b"asked", b"later"])


def test_single_log_is_read_alone(log):
    log.write_text("asked\n")
    assert control_plane.log_end(str(log)) == (6, [b"asked"])


def test_long_log_is_read_from_its_end(log, monkeypatch):
    monkeypatch.setattr(control_plane, "TAIL", 12)
    (log.parent / "audit-2026-11-23T01-00-00.000.log").write_text("before\n")
    log.write_text("one\ntwo\nthree\nfour\n")
    assert control_plane.log_end(str(log)) == (19, [b"three", b"four"])
