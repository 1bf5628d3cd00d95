"""The state directory, outside the checkout: Pulumi state, passphrase, keys, ssh files and reports (docs/adr/0005-state-directory.md).

Standard library only and no pathlib: the `pulumi` shim loads this file on every call, before the environment exists.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LINK = ".rackwright"
"""Name of the link in the checkout that points to the state directory."""


class StateDirectory:
    """Paths of a state directory; `create` creates what Pulumi needs on first use."""

    def __init__(self, root: str) -> None:
        self.root = root

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> StateDirectory:
        """Return RACKWRIGHT_HOME, or `rackwright` in the user's state folder (XDG_STATE_HOME)."""
        home = environ.get("RACKWRIGHT_HOME")
        if home:
            return cls(os.path.abspath(os.path.expanduser(home)))
        states = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "state")
        return cls(os.path.join(os.path.abspath(states), "rackwright"))

    @property
    def engine(self) -> str:
        """Folder of Pulumi's files. No stack can have this name, because stack names are DNS labels."""
        return os.path.join(self.root, ".engine")

    @property
    def state(self) -> str:
        """Folder of the embedded file backend."""
        return os.path.join(self.engine, "state")

    @property
    def passphrase(self) -> str:
        """File with the passphrase of the stacks' secrets, mode 0600."""
        return os.path.join(self.engine, "passphrase")

    def stack(self, name: str) -> str:
        """Return the folder of a stack: inventory, ssh files, keys, reports."""
        return os.path.join(self.root, name)

    def stack_config(self, name: str) -> str:
        """Return the stack file that Pulumi reads: the committed one plus the salt (docs/adr/0006-no-salt-in-stack-files.md)."""
        return os.path.join(self.engine, "config", f"Pulumi.{name}.yaml")

    def create(self) -> None:
        """Create missing folders (mode 0700) and the passphrase."""
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        for folder in (self.engine, self.state, os.path.dirname(self.stack_config("x"))):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        if not os.path.exists(self.passphrase):
            _write_passphrase(self.passphrase)


def link(checkout: str, home: StateDirectory) -> None:
    """Point the checkout's link to the state directory. Keep a folder or file that has the link's name."""
    path = os.path.join(checkout, LINK)
    try:
        if os.readlink(path) == home.root:
            return
    except FileNotFoundError:
        pass
    except OSError:
        return
    fresh = f"{path}.{os.getpid()}"
    try:
        os.symlink(home.root, fresh)
        os.replace(fresh, path)
    except OSError:
        pass  # a read-only checkout works without the link


def _write_passphrase(path: str) -> None:
    """Write 256 random bits in hex.

    A hard link puts the file in place, so that two first runs at the same time use the same passphrase.
    """
    fresh = f"{path}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(os.urandom(32).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(fresh)
