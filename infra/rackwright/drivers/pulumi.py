"""The Pulumi command of this environment, and how a caller limits what a refresh compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from rackwright.errors import RackwrightError

REFRESH_SCOPE_ENV: Final = "RACKWRIGHT_REFRESH_SCOPE"
"""Environment variable: with the value `resources`, a refresh compares resources only, whatever the stack file sets."""


def executable() -> Path:
    """Return the path of this environment's `pulumi`; raise RackwrightError if it is missing."""
    found = Path(sys.executable).with_name("pulumi")
    if not found.exists():
        raise RackwrightError("pulumi is not installed in this environment", hint="run `make`")
    return found
