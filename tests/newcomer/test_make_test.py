"""`make test`, the README's second command, passes on a plain machine, rootless and as root.

It skips what it says it skips there: paths that need the Kubernetes binaries, which a plain machine does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from newcomer.journey import CASES, MAKE_TEST_SECONDS, Journey, Log
from newcomer.machine import Machine

pytestmark = pytest.mark.newcomer


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def prepared(
    request: pytest.FixtureRequest, boot: Callable[[str, str], Machine], log: Log, checkout: Path, with_caches: bool
) -> Iterator[Journey]:
    """A machine with a clone, and with what saves time."""
    os_name, mode = request.param
    machine = boot(os_name, f"{os_name}-{mode}")
    try:
        journey = Journey(machine, mode == "rootful", log)
        journey.prepare(checkout, with_caches=with_caches)
        yield journey
    finally:
        machine.destroy()


def test_make_test_passes(prepared: Journey) -> None:
    result = prepared.run("make test", MAKE_TEST_SECONDS)
    prepared.log(result.end)
    assert result.ok, result.end
    status = prepared.run("git status --porcelain")
    assert status.output == "", "the tests change the checkout"
