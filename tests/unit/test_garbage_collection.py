"""Garbage collection leaves out what the collection of tests has created."""

from __future__ import annotations

import gc


def test_collected_tests_are_not_walked_again():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
