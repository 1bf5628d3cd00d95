"""The state directory: all paths of a stack on this machine. Standard library only, because the shim and the provider import it first."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.errors import RackwrightError

SOCKET_PATH_LIMIT: Final = 90
"""Maximum length of a control socket's path in bytes: ssh appends 17 while it connects, and the kernel's own limit is 108."""


def home() -> Path:
    """Return RACKWRIGHT_HOME, or `rackwright` in the user's state folder; absolute, not created."""
    chosen = os.environ.get("RACKWRIGHT_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    states = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(states).absolute() / "rackwright"


def engine_state() -> Path:
    """Return the engine's file backend. Its folder starts with a dot, which no stack name does."""
    return home() / ".engine" / "state"


def engine_passphrase() -> Path:
    """Return the file with the passphrase of the engine's secrets (0600)."""
    return home() / ".engine" / "passphrase"


def machines(stack: str) -> Path:
    """Return the folder of a stack's virtual machines: disks, sockets, processes. The stack's own folder is deleted before its nodes."""
    return home() / ".machines" / stack


def machine(stack: str, node: str) -> Path:
    """Return the folder of one virtual machine."""
    return machines(stack) / "nodes" / node


def machine_images() -> Path:
    """Return the cache of virtual machines' images, shared by all stacks of this user."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(caches).absolute() / "rackwright" / "machine-images"


def program_archives() -> Path:
    """Return the cache of archives with programs for nodes, shared by all stacks of this user."""
    return machine_images().with_name("programs")


def image_lock() -> Path:
    """Return the lock of image builds, shared by all stacks of this user, as the images are."""
    return machine_images().with_name("image-builds.lock")


def folder(stack: str) -> Path:
    """Return the folder of one stack."""
    return home() / stack


def inventory(stack: str) -> Path:
    """Return the Ansible inventory."""
    return folder(stack) / "inventory.yml"


def site(stack: str) -> Path:
    """Return the playbook with all phases, for stacks with playbooks of their own."""
    return folder(stack) / "site.yml"


def ssh_config(stack: str) -> Path:
    """Return the SSH configuration for Ansible, testinfra and people."""
    return folder(stack) / "ssh_config"


def known_hosts(stack: str) -> Path:
    """Return the pinned host keys."""
    return folder(stack) / "known_hosts"


def ssh_private_key_file(stack: str) -> Path:
    """Return the private key of the nodes' logins (0600)."""
    return folder(stack) / "id_ed25519"


def secrets(stack: str) -> Path:
    """Return the extra variables of the playbooks (0600)."""
    return folder(stack) / "secrets.yml"


def report(stack: str) -> Path:
    """Return the report of the last verification, `rackwright.report/1`."""
    return folder(stack) / "report.json"


def report_with_jobs(stack: str) -> Path:
    """Return the report of the last verification that ran jobs on every node; a later one without jobs does not replace it."""
    return folder(stack) / "report.jobs.json"


def report_junit(stack: str) -> Path:
    """Return the last verification as JUnit XML for CI systems."""
    return folder(stack) / "report.junit.xml"


def report_html(stack: str) -> Path:
    """Return the last verification as HTML."""
    return folder(stack) / "report.html"


def acceptance(stack: str) -> Path:
    """Return the last acceptance, `rackwright.acceptance/2`."""
    return folder(stack) / "acceptance.json"


def partial_acceptance(stack: str) -> Path:
    """Return the last acceptance of selected phases."""
    return folder(stack) / "acceptance.partial.json"


def fabric_picture(stack: str) -> Path:
    """Return the drawing of the fabric as applied last; absent without a fabric."""
    return folder(stack) / "fabric.svg"


def applied(stack: str) -> Path:
    """Return the record of what was applied last, `rackwright.applied/2`."""
    return folder(stack) / "applied.json"


def traces(stack: str) -> Path:
    """Return the spans of runs as lines of OTLP JSON (0600)."""
    return folder(stack) / "traces.jsonl"


def runs(stack: str) -> Path:
    """Return the folder with the records of the last runs, `NUMBER.jsonl`, `rackwright.run-record/1` (0600)."""
    return folder(stack) / "runs"


def demos(stack: str) -> Path:
    """Return the folder with the records of demo runs, `RUN.json`, `rackwright.demo/1`."""
    return folder(stack) / "demos"


def chaos(stack: str) -> Path:
    """Return the folder with the records of injected failures, `RUN.json`, `rackwright.chaos/1`."""
    return folder(stack) / "chaos"


def chaos_leases(stack: str) -> Path:
    """Return the folder of leases: nodes that this machine killed or paused for a time (0700)."""
    return chaos(stack) / "leases"


def results(stack: str) -> Path:
    """Return raw results of checks, one file per run."""
    return folder(stack) / "results"


def refresh_results(stack: str) -> Path:
    """Return raw results of a refresh's passive checks."""
    return folder(stack) / "refresh" / "results"


def refresh_report(stack: str) -> Path:
    """Return the report of the last refresh; the recorded verdict is separate."""
    return folder(stack) / "refresh" / "report.json"


def drift(stack: str) -> Path:
    """Return the last drift scan, `rackwright.drift/2`."""
    return folder(stack) / "drift.json"


def drift_page(stack: str) -> Path:
    """Return the last drift scan as HTML."""
    return folder(stack) / "drift.html"


def drift_junit(stack: str) -> Path:
    """Return the last drift scan as JUnit XML for CI systems."""
    return folder(stack) / "drift.junit.xml"


def host_baseline(stack: str) -> Path:
    """Return the properties of nodes in a known good state, `rackwright.host-baseline/1`."""
    return folder(stack) / "host-baseline.json"


def check_mode_cache(stack: str) -> Path:
    """Return the module results of a run without changes, `rackwright.check-mode-cache/1` (0600)."""
    return folder(stack) / "check-mode-cache.json"


def drift_history(stack: str) -> Path:
    """Return the history of drift scans (SQLite)."""
    return folder(stack) / "drift.db"


def lock_file(stack: str) -> Path:
    """Return the lock of the stack, held during a run."""
    return folder(stack) / ".lock"


def suspended_file(stack: str, node: str) -> Path:
    """Return the mark of a suspended node: the file exists from before the stop until after the start."""
    return folder(stack) / "asleep" / node


def resumed_file(stack: str, node: str) -> Path:
    """Return the file with the instance that a node was last resumed to: its start is no drift."""
    return folder(stack) / "woken" / node


def power_lock(stack: str) -> Path:
    """Return the power agent's lock, held as long as it runs; its content identifies the agent."""
    return folder(stack) / "power.lock"


def power_log(stack: str) -> Path:
    """Return the power agent's log."""
    return folder(stack) / "power.log"


def api_tunnel(stack: str) -> Path:
    """Return the endpoint of the stack's Kubernetes API; it exists only while Pulumi applies the cluster's objects."""
    return folder(stack) / "api-tunnel.json"


def socket_folder(stack: str) -> Path:
    """Return the folder of ssh's control sockets: short and outside the state directory, whose path might exceed SOCKET_PATH_LIMIT."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"rw-{hashlib.sha256(os.fsencode(folder(stack))).hexdigest()[:8]}"


def prepare(stack: str) -> Path:
    """Create the stack's folders, readable by their owner alone, and return the first."""
    sockets = socket_folder(stack)
    for place in (home(), folder(stack), results(stack), sockets):
        _private(place)
    link = folder(stack) / "sockets"
    if not link.is_symlink() or Path(os.readlink(link)) != sockets:
        link.unlink(missing_ok=True)
        link.symlink_to(sockets)
    return folder(stack)


def _private(place: Path) -> None:
    """Create a folder of this user, 0700; refuse one that another user created before (in /tmp, for example)."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != os.getuid():
        raise RackwrightError("is not a folder of this user", path=str(place), hint="remove it, or choose another RACKWRIGHT_HOME")
    place.chmod(0o700)  # mkdir leaves an existing folder's mode alone


def project_root() -> Path:
    """Return the user's project folder: Pulumi.yaml, stacks, site playbooks."""
    return layout.project_root()


def stacks() -> Path:
    """Return the folder of stack files (`stackConfigDir` of Pulumi.yaml)."""
    return project_root() / layout.STACKS


def stack_file(stack: str) -> Path:
    """Return the stack file."""
    return stacks() / f"Pulumi.{stack}.yaml"
