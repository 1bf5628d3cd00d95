"""Memory, disk and the published port."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Callable, NamedTuple

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok, unknown
from bootstrap.machine_checks.lab_stack import LabStack
from bootstrap.machine_checks.observation import read_file, run_command

SLURM_NODE_MEMORY = 400
"""MiB: four idle nodes of the stack `lab` took 1,000 together (Pss of their processes, 2026-11-26); the rest is room for a converge."""
KUBERNETES_NODE_MEMORY = 600
"""MiB: an estimate, not measured."""
STORAGE_NEEDED = 3.0
"""GiB: images, containers and volumes of the stack `lab` took 1.9 (`podman system df`, 2026-11-26); the rest is room for a build."""
_LEAST = 0.25
"""GiB below which not even one image layer fits: an estimate."""
_REMOTE = frozenset(
    ("nfs", "nfs4", "lustre", "gpfs", "beegfs", "panfs", "cifs", "smb3", "afs", "orangefs", "fuse.glusterfs", "fuse.mfs", "fuse.sshfs")
)
"""Types of file systems whose servers know no user namespace: NFS and parallel file systems (Podman's rootless.md, Shortcomings)."""


class Storage(NamedTuple):
    """Where Podman stores images and containers."""

    folder: str
    free: float | None
    """GiB; None if unknown."""
    file_system: str


def check_home(machine: Machine, needed: float) -> Finding:
    """Check the free space of the user's home for `needed` GiB of Python packages and the engine."""
    home = Path(machine.environ.get("HOME", "/"))
    existing = nearest_existing(home)
    try:
        free = shutil.disk_usage(existing).free / 2**30
    except OSError as error:
        return unknown("home", f"free space of {home}: {error.strerror}")
    return judge_home(str(home), os.access(existing, os.W_OK | os.X_OK), free, needed, machine.user)


def judge_checkout(checkout: str, closed: list[str], user: str) -> Finding:
    """Judge the folders of a checkout that this user cannot write."""
    if not closed:
        return ok("checkout", f"{user} can write {checkout}")
    return Finding(
        Level.ERROR,
        "checkout",
        f"{closed[0]} is not writable (expected a folder of {user}, found one that root or another user made)",
        "the Python environment is made in it",
        (f"sudo chown -R {user}: {checkout}",),
        "Or clone the project again as this user.",
    )


def nearest_existing(path: Path) -> Path:
    """Return the path, or its nearest parent that this user can see."""
    return next((place for place in (path, *path.parents) if os.path.exists(place)), Path("/"))


def judge_home(home: str, is_writable: bool, free: float, needed: float, user: str) -> Finding:
    """Judge access and free GiB against needed GiB."""
    if not is_writable:
        return Finding(
            Level.ERROR,
            "home",
            f"HOME is {home} (expected a folder that {user} can write, found one that is not)",
            "state, images and caches lie there",
            (f'export HOME="$(getent passwd {user} | cut -d: -f6)"',),
        )
    if free >= needed:
        return ok("home", f"{free:.0f} GiB free in {home}" + (f", about {needed:.0f} GiB needed" if needed else ""))
    found = f"{home} is nearly full (expected about {needed:.0f} GiB free, an estimate; found {free:.1f} GiB)"
    return Finding(Level.WARNING, "home", found, "Python packages, Pulumi and its build lie there", ("du -xsh ~/.cache",))


def has_containers(machine: Machine, stack: LabStack) -> bool:
    """Return whether containers of this stack run already, which then use memory, keys and the port.

    Rootless Podman creates its storage folder at its first use; without the folder, nothing runs.
    """
    if not os.path.exists(observe_storage(machine).folder):
        return False
    ended = run_command(machine, "podman", "ps", "--filter", f"label=rackwright.stack={stack.name}", "--format", "{{.Names}}")
    return ended is not None and ended.code == 0 and bool(ended.stdout.strip())


def check_capacity(machine: Machine, stack: LabStack, is_up: Callable[[], bool]) -> list[Finding]:
    """Check memory, disk and ports for a lab. What the stack's own containers use is no finding."""
    memory = judge_memory(stack, read_file(machine, "/proc/meminfo") or "")
    if memory.level is Level.WARNING and is_up():
        memory = ok(memory.subject, "the stack's containers run already")
    storage = judge_storage(observe_storage(machine), machine.is_root)
    return [memory, storage, *check_ports(stack, is_up)]


def judge_memory(stack: LabStack, meminfo: str) -> Finding:
    """Judge MemAvailable of /proc/meminfo."""
    subject = "memory"
    available = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    if available is None:
        return unknown(subject, "/proc/meminfo states no MemAvailable")
    each = KUBERNETES_NODE_MEMORY if stack.is_kubernetes else SLURM_NODE_MEMORY
    found, needed = int(available[1]) // 1024, each * stack.nodes
    if found >= needed:
        return ok(subject, f"{found} MiB available for {stack.nodes_text}")
    return Finding(
        Level.WARNING,
        subject,
        f"little for {stack.nodes_text} (expected about {needed} MiB, an estimate of {each} MiB for each; found {found} MiB)",
        "the kernel ends processes when memory runs out",
        ("make up STACK=lab-small",) if stack.name != "lab-small" else (),
    )


def observe_storage(machine: Machine) -> Storage:
    """Find Podman's storage folder and its file system."""
    home = machine.environ.get("HOME", "/")
    own = Path(machine.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")) / "containers/storage.conf"
    try:
        configuration = "" if machine.is_root else own.read_text(encoding="utf-8")
    except OSError:
        configuration = ""
    folder = storage_folder(machine, read_file(machine, "/etc/containers/storage.conf") or "", configuration)
    existing = nearest_existing(folder)
    try:
        free = shutil.disk_usage(existing).free / 2**30
    except OSError:
        return Storage(str(folder), None, "")
    return Storage(str(folder), free, file_system(read_file(machine, "/proc/self/mountinfo") or "", str(existing.resolve())))


def storage_folder(machine: Machine, system: str, own: str) -> Path:
    """Return the folder from /etc/containers/storage.conf and the user's own file (containers-storage.conf(5)), else the default."""
    places = [(system, "graphroot")] if machine.is_root else [(own, "graphroot"), (system, "rootless_storage_path")]
    for text, key in places:
        configured = re.search(rf'^\s*{key}\s*=\s*"([^"$]+)"', text, re.MULTILINE)
        if configured:
            return machine.root / configured[1].lstrip("/")
    if machine.is_root:
        return machine.root / "var/lib/containers/storage"
    data = machine.environ.get("XDG_DATA_HOME") or os.path.join(machine.environ.get("HOME", "/"), ".local/share")
    return Path(data) / "containers/storage"


def file_system(mountinfo: str, path: str) -> str:
    """Return the type of the file system that holds `path`, from /proc/self/mountinfo; an empty string if none is listed."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right.strip():
            continue
        mount = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])  # proc(5): blank, tab, newline and backslash
        if (path + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    return kind


def judge_storage(storage: Storage, is_root: bool) -> Finding:
    """Judge free space and file system of the storage folder."""
    subject = "container storage"
    if storage.free is None:
        return unknown(subject, f"free space of {storage.folder} cannot be read")
    if not is_root and storage.file_system in _REMOTE:
        return Finding(
            Level.ERROR,
            subject,
            f"{storage.folder} is on a network file system (expected a local one, found {storage.file_system})",
            "its server refuses the files of subordinate user ids",
            ("mkdir -p ~/.config/containers", _LOCAL_STORAGE),
        )
    if storage.free >= STORAGE_NEEDED:
        return ok(subject, f"{storage.free:.0f} GiB free in {storage.folder}")
    level = Level.ERROR if storage.free < _LEAST else Level.WARNING
    found = f"{storage.folder} is nearly full (expected about {STORAGE_NEEDED:.0f} GiB free, found {storage.free:.1f} GiB)"
    return Finding(level, subject, found, "node images and volumes lie there", ("podman system df", "podman image prune"))


_LOCAL_STORAGE = (
    r"""printf '[storage]\ndriver = "overlay"\ngraphroot = "/var/tmp/%s/containers"\n' "$(id -un)" > ~/.config/containers/storage.conf"""
)


def check_ports(stack: LabStack, is_up: Callable[[], bool]) -> list[Finding]:
    """Check that each published port can be bound."""
    findings = []
    for port in stack.ports:
        error = bind_error(stack.listen, port)
        findings.append(judge_port(stack, port, error, error == errno.EADDRINUSE and is_up()))
    return findings


def bind_error(address: str, port: int) -> int:
    """Bind the port and release it; return the error number, 0 for none."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
            server.listen(1)
        except OSError as error:
            return error.errno or errno.EIO
    return 0


def judge_port(stack: LabStack, port: int, error: int, is_held_by_stack: bool) -> Finding:
    """Judge the result of binding a published port."""
    subject, place = "published port", f"{stack.listen}:{port}"
    if not error or is_held_by_stack:
        return ok(subject, f"{place} is " + ("held by this stack" if error else "free"))
    edit = f"Or choose another access.port in stacks/Pulumi.{stack.name}.yaml."
    if error == errno.EADDRINUSE:
        found = f"{place} is in use (expected a free port, found a listener)"
        return Finding(Level.ERROR, subject, found, "the login node is reached through it", (f"sudo ss -ltnp 'sport = :{port}'",), edit)
    found = f"{place} cannot be bound (expected a free port of this machine, found {os.strerror(error)})"
    then = f"Change access.bind_address or access.port in stacks/Pulumi.{stack.name}.yaml."
    return Finding(Level.ERROR, subject, found, "the login node is reached through it", then=then)
