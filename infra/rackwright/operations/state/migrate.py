"""Move of the Pulumi state from the embedded backend to another one, stack by stack, with Pulumi's export and import."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.drivers import pulumi
from rackwright.errors import InputError, RackwrightError
from rackwright.inventory import paths
from rackwright.operations.state import files

FILE: Final = "file://"

_KINDS: Final = "file:///folder, s3://bucket, gs://bucket, azblob://container, postgres://… or https://api.pulumi.com"


@dataclass(frozen=True)
class MigratedStack:
    """A stack, and whether an earlier move had copied it already."""

    stack: str
    already: bool


@dataclass(frozen=True)
class _Backend:
    """A Pulumi backend. Commands run in a temporary project, so that the stack files of the checkout stay unchanged."""

    url: str
    project: Path

    def stacks(self) -> set[str]:
        """Return the unqualified names of the project's stacks on this backend."""
        return {entry["name"].rpartition("/")[2] for entry in json.loads(self._pulumi("ls", "--json"))}

    def export(self, stack: str) -> dict[str, Any]:
        """Return the stack's state; its secrets stay encrypted."""
        exported: dict[str, Any] = json.loads(self._pulumi("export", "--stack", stack))
        return exported

    def create(self, stack: str) -> None:
        """Create an empty stack whose secrets are encrypted with the passphrase, on any backend."""
        self._pulumi("init", "--stack", stack, "--no-select", "--secrets-provider", "passphrase")

    def take(self, stack: str, state: dict[str, Any]) -> None:
        """Import the state into the stack."""
        file = self.project / "state.json"
        file.write_text(json.dumps(state), encoding="utf-8")
        self._pulumi("import", "--stack", stack, "--file", str(file))

    def _pulumi(self, *arguments: str) -> str:
        passphrase = {} if brings_passphrase() else {"PULUMI_CONFIG_PASSPHRASE_FILE": str(paths.engine_passphrase())}
        environ = {**os.environ, **passphrase, "PULUMI_BACKEND_URL": self.url, "RACKWRIGHT_HOME": str(self.project / "home")}
        command = [str(pulumi.executable()), "stack", *arguments, "--non-interactive", "--color", "never"]
        done = subprocess.run(command, cwd=self.project, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            hint = "fix the error and run the same command again; stacks that were moved are skipped, the old state is unchanged"
            raise RackwrightError(f"`pulumi stack {arguments[0]}`: {_error_message(done.stderr or done.stdout)}", path=self.url, hint=hint)
        return done.stdout


def migrate(url: str) -> list[MigratedStack]:
    """Copy every stack of the embedded backend to the backend `url`; the originals stay.

    Raises InputError before any change if the copy would replace a stack with other resources.
    """
    stacks = files.stacks_with_state()
    if not stacks:
        raise InputError(
            "state directory has no Pulumi state to move",
            path=str(paths.home()),
            hint="run `pulumi stack ls` to list the stacks of the current backend",
        )
    with files.locked(stacks), files.translate_os_errors(url, "cannot move the state"), _scratch() as project:
        source, target = _Backend(f"{FILE}{paths.engine_state()}", project), _Backend(url, project)
        there = target.stacks()
        states = {stack: source.export(stack) for stack in stacks}
        done = {stack: _is_over(states[stack], target.export(stack), stack, url) for stack in stacks if stack in there}
        for stack in stacks:
            if stack not in there:
                target.create(stack)
            if not done.get(stack):
                target.take(stack, states[stack])
    return [MigratedStack(stack, done.get(stack, False)) for stack in stacks]


@contextmanager
def _scratch() -> Iterator[Path]:
    """Create a temporary project of the same name, in the state directory, because exported state must stay private."""
    with tempfile.TemporaryDirectory(prefix="move-", dir=paths.engine_state().parent) as folder:
        (Path(folder) / "Pulumi.yaml").write_text(f"name: {files.PROJECT}\nruntime: python\n", encoding="utf-8")
        yield Path(folder)


def address(url: str) -> str:
    """Return the backend's URL, with an absolute path for a folder, because Pulumi runs in another working directory.

    Raises InputError for anything else than a backend URL.
    """
    scheme, found, rest = url.partition("://")
    if not (found and scheme and rest):
        raise InputError("is not the URL of a backend", path=url, hint=f"pass a URL like {_KINDS}")
    if not url.startswith(FILE):
        return url
    path, mark, options = rest.partition("?")
    folder = Path(os.path.expanduser(path)).absolute()
    if not folder.is_dir():
        raise InputError("folder does not exist", path=url, hint=f"run `mkdir -p -m 700 {folder}`")
    if folder.resolve() == paths.engine_state().resolve():
        raise InputError("is the current backend", path=url, hint="pass another backend")
    return f"{FILE}{folder}{mark}{options}"


def brings_passphrase() -> bool:
    """Return whether the user's environment sets a passphrase; an empty PULUMI_CONFIG_PASSPHRASE counts as one."""
    return "PULUMI_CONFIG_PASSPHRASE" in os.environ or bool(os.environ.get("PULUMI_CONFIG_PASSPHRASE_FILE"))


def _is_over(ours: dict[str, Any], theirs: dict[str, Any], stack: str, url: str) -> bool:
    """Return True if an earlier move copied the same state, False if the stack on the target is empty.

    Raises InputError if it has other resources, which an import would replace.
    """
    there = _resources(theirs)
    if there and there != _resources(ours):
        hint = f"if that stack is obsolete, run `PULUMI_BACKEND_URL={url} pulumi stack rm --force {stack}`"
        raise InputError(f"already has a stack {stack} with other resources; nothing was moved", path=url, hint=hint)
    return bool(there)


def _resources(state: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what identifies a state. Secrets are excluded, because every export encrypts them again."""
    found = (state.get("deployment") or {}).get("resources") or []
    return [tuple(resource.get(key) for key in ("urn", "id", "created", "modified")) for resource in found]


def _error_message(output: str) -> str:
    """Return Pulumi's error message without the surrounding output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["no output"])[-1]
