"""The home: where everything of a stack lies on this machine. Standard library only, because the shim and the provider start from here."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.errors import RackwrightError

SOCKET_PATH_LIMIT: Final = 90
"""Bytes a control socket's path may have: ssh appends 17 while it connects, and the kernel's own limit is 108."""


def home() -> Path:
    """RACKWRIGHT_HOME, or `rackwright` in the user's state folder; absolute, not created."""
    chosen = os.environ.get("RACKWRIGHT_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    states = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(states).absolute() / "rackwright"


def engine_state() -> Path:
    """The engine's file backend. Its folder starts with a dot, which no stack name does."""
    return home() / ".engine" / "state"


def engine_passphrase() -> Path:
    """The file that holds the passphrase of the engine's secrets (0600)."""
    return home() / ".engine" / "passphrase"


def folder(stack: str) -> Path:
    """All files of one stack."""
    return home() / stack


def inventory(stack: str) -> Path:
    """The Ansible inventory."""
    return folder(stack) / "inventory.yml"


def site(stack: str) -> Path:
    """The table of contents of the phases, where the user has playbooks of their own among them."""
    return folder(stack) / "site.yml"


def ssh_config(stack: str) -> Path:
    """The one SSH configuration, for Ansible, testinfra and the person."""
    return folder(stack) / "ssh_config"


def known_hosts(stack: str) -> Path:
    """The pinned host keys."""
    return folder(stack) / "known_hosts"


def identity(stack: str) -> Path:
    """The key that opens the nodes (0600)."""
    return folder(stack) / "id_ed25519"


def secrets(stack: str) -> Path:
    """Extra variables of the playbooks (0600)."""
    return folder(stack) / "secrets.yml"


def report(stack: str) -> Path:
    """The last verification, `rackwright.report/1`."""
    return folder(stack) / "report.json"


def report_with_jobs(stack: str) -> Path:
    """The last verification that ran jobs on every node: a later one that only looks takes it off no record."""
    return folder(stack) / "report.jobs.json"


def report_junit(stack: str) -> Path:
    """The same for CI systems."""
    return folder(stack) / "report.junit.xml"


def report_html(stack: str) -> Path:
    """The same for a browser."""
    return folder(stack) / "report.html"


def acceptance(stack: str) -> Path:
    """The last acceptance, `rackwright.acceptance/2`."""
    return folder(stack) / "acceptance.json"


def partial_acceptance(stack: str) -> Path:
    """The last acceptance of some phases only."""
    return folder(stack) / "acceptance.partial.json"


def fabric_picture(stack: str) -> Path:
    """The fabric as it was planned when the stack was applied last; not there where it has none."""
    return folder(stack) / "fabric.svg"


def applied(stack: str) -> Path:
    """What was applied last, `rackwright.applied/1`."""
    return folder(stack) / "applied.json"


def results(stack: str) -> Path:
    """Raw results of checks, one file per run."""
    return folder(stack) / "results"


def refresh_results(stack: str) -> Path:
    """Raw results of the passive checks of a refresh."""
    return folder(stack) / "refresh" / "results"


def refresh_report(stack: str) -> Path:
    """What the last refresh found; the verdict on record stays where it is."""
    return folder(stack) / "refresh" / "report.json"


def drift(stack: str) -> Path:
    """What the last look for drift found, `rackwright.drift/2`."""
    return folder(stack) / "drift.json"


def drift_page(stack: str) -> Path:
    """The same for a browser."""
    return folder(stack) / "drift.html"


def drift_junit(stack: str) -> Path:
    """The same for CI systems."""
    return folder(stack) / "drift.junit.xml"


def host_baseline(stack: str) -> Path:
    """What nodes had when all was well there, `rackwright.host-baseline/1`."""
    return folder(stack) / "host-baseline.json"


def check_mode_cache(stack: str) -> Path:
    """What nodes answered the phases when all was as declared, `rackwright.check-mode-cache/1` (0600)."""
    return folder(stack) / "check-mode-cache.json"


def drift_history(stack: str) -> Path:
    """What looks for drift found, and since when (SQLite)."""
    return folder(stack) / "drift.db"


def lock_file(stack: str) -> Path:
    """Held while a run works on the stack."""
    return folder(stack) / ".lock"


def asleep(stack: str, node: str) -> Path:
    """The mark that a node was stopped to save power: there from before it stops until after it has started."""
    return folder(stack) / "asleep" / node


def woken(stack: str, node: str) -> Path:
    """The life that a node was last woken to: its start is no news."""
    return folder(stack) / "woken" / node


def power_lock(stack: str) -> Path:
    """Held by the power agent as long as it runs; who it is stands in it."""
    return folder(stack) / "power.lock"


def power_log(stack: str) -> Path:
    """What the power agent did."""
    return folder(stack) / "power.log"


def api_tunnel(stack: str) -> Path:
    """How the stack's Kubernetes API is reached from this machine; there only while Pulumi applies what the cluster holds."""
    return folder(stack) / "api-tunnel.json"


def socket_folder(stack: str) -> Path:
    """Where ssh keeps its control sockets: short and outside the home, because a deep home would exceed SOCKET_PATH_LIMIT."""
    digest = hashlib.sha256(os.fsencode(folder(stack))).hexdigest()[:8]
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"rw-{digest}"


def prepare(stack: str) -> Path:
    """Create the stack's folders, readable by their owner alone, and answer the first."""
    sockets = socket_folder(stack)
    for place in (home(), folder(stack), results(stack), sockets):
        _private(place)
    link = folder(stack) / "sockets"
    if not link.is_symlink() or Path(os.readlink(link)) != sockets:
        link.unlink(missing_ok=True)
        link.symlink_to(sockets)
    return folder(stack)


def _private(place: Path) -> None:
    """Create a folder of our own, 0700; one that somebody else put there first (in /tmp, say) is refused."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != os.getuid():
        raise RackwrightError("is not a folder of this user", path=str(place), hint="remove it, or choose another RACKWRIGHT_HOME")
    place.chmod(0o700)  # mkdir leaves an existing folder's mode alone


def project_root() -> Path:
    """Return the user's project folder: Pulumi.yaml, stacks, site playbooks."""
    return layout.project_root()


def stacks() -> Path:
    """Where stack files lie (`stackConfigDir` of Pulumi.yaml)."""
    return project_root() / layout.STACKS


def stack_file(stack: str) -> Path:
    """The file that describes the stack."""
    return stacks() / f"Pulumi.{stack}.yaml"
