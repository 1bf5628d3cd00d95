"""Creation of a stack on first use."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from shim.file_backend import FileBackend


def create(name: str, project: str, backend: FileBackend, engine: str, environ: Mapping[str, str], scratch: str) -> None:
    """Run `stack init` in a temporary folder, so that the salt that it writes next to Pulumi.yaml never reaches the committed file."""
    import shutil
    import subprocess
    import tempfile

    folder = tempfile.mkdtemp(prefix="new-stack-", dir=scratch)
    try:
        with open(os.path.join(folder, "Pulumi.yaml"), "w", encoding="utf-8") as file:
            file.write(f"name: {project}\nruntime: python\n")
        made = subprocess.run(
            [engine, "stack", "init", name, "--no-select", "--non-interactive", "--color", "never"],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if made.returncode and not backend.has(name):
        sys.exit(f"pulumi: stack {name} could not be created\n{(made.stderr or made.stdout).strip()}")
