"""`rackwright up` and `rackwright down`: Pulumi with the options one would type, and the removal that needs no state."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from rackwright.errors import RackwrightError
from rackwright.handover import paths


def up(stack: str) -> int:
    """`pulumi up` without questions; its exit status."""
    return _pulumi("up", "--stack", stack, "--yes", "--skip-preview")


def down(stack: str) -> int:
    """`pulumi destroy` without questions; its exit status."""
    return _pulumi("destroy", "--stack", stack, "--yes", "--skip-preview")


def down_by_label(stack: str) -> list[str]:
    """Remove everything labelled with the stack, without state; what was removed. Raises when something stays."""
    from rackwright.provider import stack_files
    from rackwright.provider.drivers import podman

    removed = asyncio.run(podman.sweep(stack))
    if paths.folder(stack).exists():
        stack_files.remove(stack)
        removed.append(f"folder {stack} of the home")
    return removed


def _pulumi(*arguments: str) -> int:
    pulumi = Path(sys.executable).with_name("pulumi")
    if not pulumi.exists():
        raise RackwrightError("pulumi is not set up in this environment", hint="run `make`")
    return subprocess.run([str(pulumi), *arguments], cwd=paths.project_root(), check=False).returncode
