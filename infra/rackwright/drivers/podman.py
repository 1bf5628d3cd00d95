"""Container engine of the lab: the capabilities of this machine's podman, and the calls that nodes need.

Each created object has the label `rackwright.stack`. Objects to remove are found by this label.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from rackwright import layout
from rackwright.drivers import cgroups
from rackwright.drivers.process import CompletedProcess, OnCancel, ProcessTimeoutError, run
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.time_limits import slowness

STACK_LABEL: Final = "rackwright.stack"
EPHEMERAL_LABEL: Final = "rackwright.ephemeral"
"""Label of a container that is removed when its probe is complete (infra/rackwright/checks/cluster/harness/probe_container.py)."""
NODE_LABEL: Final = "rackwright.node"
SPEC_LABEL: Final = "rackwright.spec"
SECRET_PREFIX: Final = "rackwright"
"""podman 4.3 has no labels on secrets: the name replaces the label, `rackwright.<stack>.…`, unambiguous since stack names contain no
dot."""
_PAUSES: Final = (0.0, 0.0, 0.5, 2.0)
"""Seconds before each query for leftovers; while other processes remove resources, one query can fail."""
_MOST_FILES: Final = 1_048_576
"""Open files of a container: the default of fs.nr_open, which no process exceeds (Linux, Documentation/admin-guide/sysctl/fs.rst)."""
_MOST_PROCESSES: Final = 32_768
"""Limit of processes: enough for systemd, Slurm and MariaDB in one node. A lower limit of the machine takes precedence."""


_LONG: Final = frozenset({"build", "commit", "pull"})
"""Commands that take minutes and write their result at the end. A cancelled run ends these and waits for all others: podman 4.3 writes
secret files in place, and a partial one breaks every later `podman secret` on the machine, also for other users."""


async def podman(*arguments: str, stdin: bytes | None = None, timeout: float = 120.0, cleans_up: bool = False) -> CompletedProcess:
    """Run podman; the caller checks the status. Cleanup commands run in a cancelled run, too.

    Raises RackwrightError after the time limit: `timeout` in seconds, times the slowness of this machine.
    """
    limit = timeout * await asyncio.to_thread(_slowness_in_minute, int(time.monotonic() // 60))
    interruption = OnCancel.TERMINATE if arguments[0] in _LONG else OnCancel.FINISH
    try:
        return await run(
            ["podman", *_runtime(), *arguments],
            stdin=stdin,
            timeout=limit,
            # conmon 2.1.6 of Debian 12 writes a file `oom` to its folder when a job exceeds its memory, and that is Podman's folder.
            cwd=paths.home() if paths.home().is_dir() else None,
            interruption=OnCancel.IGNORE if cleans_up else interruption,
        )
    except ProcessTimeoutError:
        hint = (
            "another podman command on this machine may hold its storage: `ps -C podman -o pid,etimes,args`; try again when it has ended; "
            "`make doctor` reports storage that copies whole images"
        )
        raise RackwrightError(f"podman {arguments[0]}: no end after {limit:.0f} s", hint=hint) from None


@lru_cache(maxsize=1)
def _slowness_in_minute(minute: int) -> int:
    """Return the slowness of this machine. A measurement takes a tenth of a podman command, so a minute has one."""
    return slowness()


async def run_checked(*arguments: str, stdin: bytes | None = None, timeout: float = 120.0) -> str:
    """Run podman and return its output; raise an error with podman's message if it fails."""
    ended = await podman(*arguments, stdin=stdin, timeout=timeout)
    if not ended.ok:
        raise RackwrightError(f"podman {arguments[0]}: {_last_line(ended.stderr)}", hint=_hint(ended.stderr))
    return ended.stdout.strip()


def limits() -> list[str]:
    """Return `--ulimit` options within the limits of the kernel for this user."""
    return [
        *_limit("nofile", resource.RLIMIT_NOFILE, _MOST_FILES),
        *_limit("nproc", resource.RLIMIT_NPROC, _MOST_PROCESSES),
    ]


async def image_exists(name: str) -> bool:
    """Return whether the image is in local storage."""
    return (await podman("image", "exists", name)).ok


@dataclass(frozen=True)
class Container:
    """A container as podman reports it."""

    id: str
    name: str
    running: bool
    paused: bool
    started_at: str
    image: str
    labels: Mapping[str, str]
    pid: int = 0
    """Process id of its first process on this machine; 0 when it does not run."""
    networks: Mapping[str, str] = field(default_factory=dict)
    """Addresses of the container by network; none while it does not run."""

    @property
    def status(self) -> str:
        """Return `running`, `paused` or `stopped`."""
        if self.paused:
            return "paused"
        return "running" if self.running else "stopped"

    @property
    def instance_uid(self) -> str:
        """Return a value that changes with every start: a new container, or the same one started again."""
        return f"{self.short_id}@{self.started_at[:23]}"

    @property
    def short_id(self) -> str:
        """Return an id that is constant for this container, however often it starts."""
        return self.id[:12]


async def inspect(name: str) -> Container | None:
    """Return the container of a name, or None."""
    ended = await podman("container", "inspect", name, timeout=20)
    if not ended.ok:
        if "no such container" in ended.stderr.lower():
            return None
        raise RackwrightError(f"podman container inspect {name}: {_last_line(ended.stderr)}")
    return _container(json.loads(ended.stdout)[0])


async def inspect_stack(stack: str) -> dict[str, Container]:
    """Return all containers of a stack by name, in two calls for any number of containers."""
    ids = (await _listing("ps", "--all", "--quiet", "--filter", f"label={STACK_LABEL}={stack}")).split()
    ended = await podman("container", "inspect", *ids, timeout=20) if ids else None
    # Status 125 with a list: a container was removed between the two calls.
    return {one.name: one for one in map(_container, json.loads(ended.stdout or "[]"))} if ended else {}


async def exit_status(name: str) -> int | None:
    """Return the exit status of a container's first process, or None where podman has none."""
    ended = await podman("container", "inspect", "--format", "{{.State.ExitCode}}", name, timeout=20)
    output = ended.stdout.strip()
    return int(output) if ended.ok and output.lstrip("-").isdigit() else None


async def stack_leftovers(stack: str, *, ephemeral: bool = True) -> list[str]:
    """Return all containers, volumes, networks and secrets of the stack, as `kind name`; `ephemeral`: those of checks, too."""
    label = f"label={STACK_LABEL}={stack}"
    containers = await _listing("ps", "--all", "--filter", label, "--format", "{{.Names}} {{.Labels}}")
    lasting = [line for line in containers.splitlines() if ephemeral or f"{EPHEMERAL_LABEL}:" not in line]
    found = [f"container {line.partition(' ')[0]}" for line in lasting]
    for kind in ("volume", "network"):
        found += [f"{kind} {name}" for name in (await _listing(kind, "ls", "--filter", label, "--format", "{{.Name}}")).split()]
    secrets = (await _listing("secret", "ls", "--format", "{{.Name}}")).split()
    return [*found, *(f"secret {name}" for name in secrets if name.startswith(f"{SECRET_PREFIX}.{stack}."))]


async def _listing(*command: str) -> str:
    """Return podman's listing; retry where an object was removed between the query for names and the query for each ("no such volume")."""
    for pause in _PAUSES:
        await asyncio.sleep(pause)
        ended = await podman(*command)
        if ended.ok or "no such" not in ended.stderr:
            break
    if not ended.ok:
        raise RackwrightError(f"podman {' '.join(command[:2])}: {_last_line(ended.stderr)}", hint=_hint(ended.stderr))
    return ended.stdout


async def sweep(stack: str) -> list[str]:
    """Remove everything with the stack's label and return what was removed. Raise an error with podman's message if something remains.

    Repeat if something remains: a killed `podman run`, and its container with it, may still be exiting.
    """
    removed: dict[str, None] = {}
    errors: list[str] = []
    for pause in _PAUSES:
        await asyncio.sleep(pause)
        if not (left := await stack_leftovers(stack)):
            return list(removed)
        removed |= dict.fromkeys(left)
        errors = await _remove(left)
    if left := await stack_leftovers(stack):
        raise RackwrightError(
            f"stack {stack}: still there after removal: {', '.join(left)}{''.join(f'; {line}' for line in errors)}",
            hint=f"run `rackwright down --by-label {stack}` again",
        )
    return list(removed)


_REMOVALS: Final = (
    ("container", ("rm", "--force", "--time", "0", "--volumes")),
    ("volume", ("volume", "rm", "--force")),
    ("network", ("network", "rm", "--force")),
    ("secret", ("secret", "rm")),
)


async def _remove(found: Sequence[str]) -> list[str]:
    """Remove `kind name`s, dependents first; return podman's messages for failures."""
    errors = []
    for kind, command in _REMOVALS:
        names = [name for item_kind, name in (item.split() for item in found) if item_kind == kind]
        ended = await podman(*command, *names) if names else None
        if ended is not None and not ended.ok:
            errors.append(f"podman {command[0]}: {_last_line(ended.stderr)}")
    return errors


@dataclass(frozen=True)
class SecretFile:
    """A file that exists in a container before its first start, readable by root alone."""

    name: str
    path: str
    content: str


@asynccontextmanager
async def podman_secrets(files: Sequence[SecretFile]) -> AsyncIterator[list[str]]:
    """Yield the options that put files into a new container; the content passes through pipes, and podman deletes it afterwards.

    Five times faster than copying into a created container, which mounts its file system once more.
    """
    names = [file.name for file in files]
    await podman("secret", "rm", *names)
    try:
        await asyncio.gather(*(run_checked("secret", "create", file.name, "-", stdin=file.content.encode()) for file in files))
        yield [option for file in files for option in ("--secret", f"{file.name},target={file.path},mode=0600")]
    finally:
        await podman("secret", "rm", *names, cleans_up=True)


def _container(found: Mapping[str, Any]) -> Container:
    state = found["State"]
    return Container(
        id=found["Id"],
        name=found["Name"],
        running=bool(state.get("Running")),
        paused=bool(state.get("Paused")),
        started_at=str(state.get("StartedAt", "")),
        image=found.get("ImageName", ""),
        labels=found["Config"].get("Labels") or {},
        pid=int(state.get("Pid") or 0),
        networks={name: on["IPAddress"] for name, on in (found["NetworkSettings"].get("Networks") or {}).items() if on.get("IPAddress")},
    )


def _runtime() -> Sequence[str]:
    """Return the OCI runtime: crun refuses hybrid cgroup hierarchies; runc accepts them."""
    return () if cgroups.is_cgroup_v2() else ("--runtime", "runc")


def _limit(name: str, kind: int, wanted: int) -> list[str]:
    hard = resource.getrlimit(kind)[1]
    granted = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    return ["--ulimit", f"{name}={granted}:{granted}"]


def _last_line(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip() and "level=warning" not in line]
    return lines[-1].removeprefix("Error: ") if lines else "no reason given"


def _hint(stderr: str) -> str:
    if "secret" in stderr and "JSON" in stderr:
        return (
            "podman's secrets file is truncated: podman was killed while writing it. If `podman secret ls` lists "
            "no secret that you need, delete filedriver/secretsdata.json below $(podman info -f '{{.Store.GraphRoot}}')/secrets"
        )
    if "rlimit" in stderr:
        return "this kernel allows fewer open files or processes than requested: see `ulimit -Hn`, `ulimit -Hu`"
    if "subnet" in stderr and ("used" in stderr or "overlap" in stderr or "conflict" in stderr):
        return "choose another network.cidr in the stack file; `podman network ls` shows those in use"
    return f"`{layout.doctor_command()}` checks what the lab needs"
