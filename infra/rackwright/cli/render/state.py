"""Output of `rackwright state`: the stacks, and the remaining steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rackwright.inventory import paths
from rackwright.operations.state import migrate
from rackwright.operations.state.backup import StackContents
from rackwright.operations.state.migrate import MigratedStack


@dataclass(frozen=True)
class StateOutput:
    """Output of one action."""

    action: str
    place: str
    """Backup file or URL of a backend, as the user passed it."""
    lines: list[str]
    next: list[str]
    """The remaining steps."""
    stacks: list[dict[str, Any]]

    def text(self) -> str:
        """Return one line per stack, then the remaining steps."""
        return "\n".join([*self.lines, *(f"  {line}" for line in self.next)])

    def json(self) -> str:
        """Return the stacks and the remaining steps as JSON."""
        return json.dumps({"action": self.action, "place": self.place, "stacks": self.stacks, "next": self.next}, indent=2)


def backed_up(place: str, kept: Sequence[StackContents]) -> StateOutput:
    """Return the output of a backup, which names what the file contains in clear text and what it lacks."""
    then = [
        "it contains keys and secrets in clear text: store it as securely as those",
        "it does not contain the stack files, which are part of the checkout",
    ]
    if migrate.brings_passphrase():
        then.append("it does not contain the passphrase of your environment (PULUMI_CONFIG_PASSPHRASE…): back it up as well")
    elif not paths.engine_passphrase().is_file():
        then.append("it contains no passphrase: the state directory has none")
    lines = [f"{place}: backed up from {paths.home()}", *map(_line, kept)]
    return StateOutput("backup", place, lines, then, [_data(entry) for entry in kept])


def restored(place: str, kept: Sequence[StackContents]) -> StateOutput:
    """Return the output of a restore."""
    then = [f"run `pulumi refresh -s {entry.stack}` to compare the state with the real resources" for entry in kept if entry.state]
    lines = [f"{place}: restored to {paths.home()}", *map(_line, kept)]
    return StateOutput("restore", place, lines, then, [_data(entry) for entry in kept])


def migrated(place: str, url: str, moved: Sequence[MigratedStack]) -> StateOutput:
    """Return the output of a migration to the backend `url`, which names how Pulumi uses it from now on."""
    lines = [f"stack {entry.stack}: {'already moved' if entry.already else 'moved'}" for entry in moved]
    then = [
        f"run `pulumi login {url}` or `export PULUMI_BACKEND_URL={url}`; otherwise pulumi continues to use the old state",
        _passphrase(url),
    ]
    old = f"PULUMI_BACKEND_URL={migrate.FILE}{paths.engine_state()} pulumi stack rm --force"
    then += [f"the old state is kept; to delete it, run `{old} {entry.stack}`" for entry in moved]
    stacks = [{"stack": entry.stack, "already": entry.already} for entry in moved]
    return StateOutput("migrate", place, [f"{url}: contains the state of all stacks of {paths.home()}", *lines], then, stacks)


def _passphrase(url: str) -> str:
    """Return the line that says which passphrase decrypts the moved state and how Pulumi finds it."""
    if migrate.brings_passphrase():
        return "the passphrase is still the one of your environment"
    if url.startswith(migrate.FILE):
        return f"the passphrase is still the one in {paths.engine_passphrase()}; pulumi finds it automatically on this machine"
    export = f"export PULUMI_CONFIG_PASSPHRASE_FILE={paths.engine_passphrase()}"
    return f"run `{export}`; the passphrase is the same, but pulumi does not find it automatically"


def _line(entry: StackContents) -> str:
    if not entry.state:
        return f"stack {entry.stack}: keys and reports; its state is on another backend"
    return f"stack {entry.stack}: {'state, keys and reports' if entry.folder else 'state'}"


def _data(entry: StackContents) -> dict[str, Any]:
    return {"stack": entry.stack, "state": entry.state, "folder": entry.folder, "files": entry.files}
