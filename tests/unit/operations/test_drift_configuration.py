"""Lines of files that differ, before they go into a document."""

from __future__ import annotations

from rackwright.masking import MASK
from rackwright.operations.drift.configuration import _masked
from rackwright.report.redact import Redactor


def test_a_secret_that_lies_where_a_line_is_cut_is_masked_whole():
    secret = "0123456789abcdef" * 6
    told = {
        "host": "worker0",
        "task": "Write it",
        "detail": "/etc/x",
        "live": f"/etc/x: {'a' * 120} {secret}",
        "declared": f"/etc/x: {secret}",
    }
    shown = _masked(told, Redactor([secret]))
    assert secret[:16] not in str(shown) and MASK in shown["live"] and shown["declared"] == f"/etc/x: {MASK}"
    assert (shown["host"], shown["detail"]) == ("worker0", "/etc/x")
