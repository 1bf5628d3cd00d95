"""From the embedded backend to another one, stack by stack, by the engine's own export and import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rackwright.cli import holdings
from rackwright.errors import BadInput, RackwrightError
from rackwright.handover import paths

FILE: Final = "file://"

_KINDS: Final = "file:///folder, s3://bucket, gs://bucket, azblob://container, postgres://… or https://api.pulumi.com"


@dataclass(frozen=True)
class Moved:
    """One stack, and whether an earlier move had already brought it over."""

    stack: str
    already: bool


@dataclass(frozen=True)
class _Backend:
    """One place of state; commands run in a scratch project, so that no stack file of the checkout is touched."""

    url: str
    project: Path

    def stacks(self) -> set[str]:
        """Bare names of the project's stacks there."""
        return {entry["name"].rpartition("/")[2] for entry in json.loads(self._pulumi("ls", "--json"))}

    def export(self, stack: str) -> dict[str, Any]:
        """State with secrets as they lie: encrypted."""
        exported: dict[str, Any] = json.loads(self._pulumi("export", "--stack", stack))
        return exported

    def create(self, stack: str) -> None:
        """An empty stack whose secrets hang on the passphrase, on any backend."""
        self._pulumi("init", "--stack", stack, "--no-select", "--secrets-provider", "passphrase")

    def take(self, stack: str, state: dict[str, Any]) -> None:
        """Import."""
        file = self.project / "state.json"
        file.write_text(json.dumps(state), encoding="utf-8")
        self._pulumi("import", "--stack", stack, "--file", str(file))

    def _pulumi(self, *arguments: str) -> str:
        passphrase = {} if brings_passphrase() else {"PULUMI_CONFIG_PASSPHRASE_FILE": str(paths.engine_passphrase())}
        environ = {**os.environ, **passphrase, "PULUMI_BACKEND_URL": self.url, "RACKWRIGHT_HOME": str(self.project / "home")}
        command = [str(engine()), "stack", *arguments, "--non-interactive", "--color", "never"]
        done = subprocess.run(command, cwd=self.project, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            hint = "the state in the home is untouched; after mending it run the same command again, stacks that are over are left alone"
            raise RackwrightError(f"`pulumi stack {arguments[0]}`: {_decisive(done.stderr or done.stdout)}", path=self.url, hint=hint)
        return done.stdout


def move(url: str) -> list[Moved]:
    """Copy every stack of the home's own backend to an `address`; the originals stay. What would replace a stack is refused beforehand."""
    stacks = holdings.stacks_with_state()
    if not stacks:
        raise BadInput("this home has no state to move", path=str(paths.home()), hint="`pulumi stack ls` shows what the backend in use has")
    with holdings.held(stacks), holdings.os_errors_told(url, "the state could not be moved"), _scratch() as project:
        source, target = _Backend(f"{FILE}{paths.engine_state()}", project), _Backend(url, project)
        there = target.stacks()
        states = {stack: source.export(stack) for stack in stacks}
        done = {stack: _is_over(states[stack], target.export(stack), stack, url) for stack in stacks if stack in there}
        for stack in stacks:
            if stack not in there:
                target.create(stack)
            if not done.get(stack):
                target.take(stack, states[stack])
    return [Moved(stack, done.get(stack, False)) for stack in stacks]


@contextmanager
def _scratch() -> Iterator[Path]:
    """An empty project of our name, in the home: exported state is not everybody's to read."""
    with tempfile.TemporaryDirectory(prefix="move-", dir=paths.engine_state().parent) as folder:
        (Path(folder) / "Pulumi.yaml").write_text(f"name: {holdings.PROJECT}\nruntime: python\n", encoding="utf-8")
        yield Path(folder)


def address(url: str) -> str:
    """The backend's address, absolute where it is a folder: the engine is not started where the user is."""
    scheme, found, rest = url.partition("://")
    if not (found and scheme and rest):
        raise BadInput("is no address of a backend", path=url, hint=f"give one like {_KINDS}")
    if not url.startswith(FILE):
        return url
    path, mark, options = rest.partition("?")
    folder = Path(os.path.expanduser(path)).absolute()
    if not folder.is_dir():
        raise BadInput("there is no such folder", path=url, hint=f"`mkdir -p -m 700 {folder}` makes it")
    if folder.resolve() == paths.engine_state().resolve():
        raise BadInput("is where the state is already", path=url, hint="give another backend")
    return f"{FILE}{folder}{mark}{options}"


def brings_passphrase() -> bool:
    """Whether the user's environment has a passphrase of its own; an empty PULUMI_CONFIG_PASSPHRASE is one."""
    return "PULUMI_CONFIG_PASSPHRASE" in os.environ or bool(os.environ.get("PULUMI_CONFIG_PASSPHRASE_FILE"))


def engine() -> Path:
    """`pulumi` of this environment."""
    found = Path(sys.executable).with_name("pulumi")
    if not found.exists():
        raise RackwrightError("pulumi is not set up in this environment", hint="run `make`")
    return found


def _is_over(ours: dict[str, Any], theirs: dict[str, Any], stack: str, url: str) -> bool:
    """True where an earlier move brought the same state, False where the stack there is empty; anything else would be lost."""
    there = _resources(theirs)
    if there and there != _resources(ours):
        hint = f"if nobody needs it: `PULUMI_BACKEND_URL={url} pulumi stack rm --force {stack}`"
        raise BadInput(f"has a stack {stack} with resources of its own; nothing was moved", path=url, hint=hint)
    return bool(there)


def _resources(state: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What tells two states apart. Secrets do not: they are encrypted anew with every writing."""
    found = (state.get("deployment") or {}).get("resources") or []
    return [tuple(resource.get(key) for key in ("urn", "id", "created", "modified")) for resource in found]


def _decisive(said: str) -> str:
    """The engine's error, without the notes around it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or ["it said nothing"])[-1]
