"""`make test`, the README's second command, passes on a plain machine, rootless and as root.

It skips what it says it skips there: paths that need the Kubernetes binaries, which a plain machine does not have.
"""

from __future__ import annotations

import pytest

from newcomer.journey import MAKE_TEST_SECONDS, Journey

pytestmark = pytest.mark.newcomer


def test_make_test_passes(prepared: Journey) -> None:
    result = prepared.run("make test", MAKE_TEST_SECONDS)
    prepared.log(result.end)
    assert result.ok, result.end
    status = prepared.run("git status --porcelain")
    assert status.output == "", "the tests change the checkout"
