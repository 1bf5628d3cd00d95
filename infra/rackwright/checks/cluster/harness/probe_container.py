"""Short-lived container of an external probe. Each has a time limit, and the next probe removes those of checks that were killed."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rackwright.checks.cluster.harness.transport import local_slowness
from rackwright.errors import UndeterminedError
from rackwright.processes import start_time

EPHEMERAL: Final = "rackwright.ephemeral"
"""Label of the container. A concurrent drift scan ignores it (drivers/podman.py)."""
OWNER: Final = "rackwright.owner"
"""Label with the process that started the container, as `identify` writes it."""
_LIMIT: Final = 30.0
"""Time limit of podman for a short container, in seconds. A machine that checks 64 nodes in parallel needs several."""
_LIMITS: Final = (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))


def run_in_container(stack: str, arguments: Sequence[str]) -> str:
    """Run Python with arguments in a container on the engine's default network and return its output.

    The container uses the image of a node, so that the probe needs no image of its own. Raises UndeterminedError if podman fails.
    """
    containers = _containers(stack)
    _remove([one["Id"] for one in containers if is_abandoned(one)])
    images = [one["ImageID"] for one in containers if one["State"] == "running" and not _is_ephemeral(one)]
    if not images:
        raise UndeterminedError(f"no container of stack {stack} runs on this machine")
    name = f"{stack}-check-{uuid.uuid4().hex[:12]}"
    try:
        return _podman(["run", *_options(stack, name), "--entrypoint", "/usr/bin/python3", images[0], *arguments])
    except BaseException:
        _remove([name])
        raise


def is_abandoned(container: Mapping[str, Any]) -> bool:
    """Return whether a container, as `podman ps --format json` lists it, belongs to a check that no longer runs.

    A killed podman leaves its container in any state: created, initialized, or running without the conmon that would report its end.
    """
    if not _is_ephemeral(container):
        return False
    owner = container["Labels"].get(OWNER, "")
    pid = owner.partition("@")[0]
    return not pid.isdigit() or identify(int(pid)) != owner


def _is_ephemeral(container: Mapping[str, Any]) -> bool:
    return EPHEMERAL in (container["Labels"] or {})


def identify(pid: int) -> str:
    """Return a process as PID@START; START is None for one that has exited."""
    return f"{pid}@{start_time(pid)}"


def _options(stack: str, name: str) -> list[str]:
    """Return the options of `podman run`; conmon kills the container at its time limit, also when podman was killed (podman-run(1))."""
    labels = {"rackwright.stack": stack, EPHEMERAL: "check", OWNER: identify(os.getpid())}
    return [
        *("--rm", "--name", name, "--network", "podman", "--timeout", f"{_limit():.0f}"),
        *(argument for label, value in labels.items() for argument in ("--label", f"{label}={value}")),
        *(argument for limit, kind in _LIMITS for argument in ("--ulimit", f"{limit}={_hard_limit(kind)}")),
    ]


def _hard_limit(kind: int) -> str:
    """Return a limit for the container. The engine's default limits may exceed the limits of this machine's kernel."""
    hard = resource.getrlimit(kind)[1]
    granted = 32768 if hard == resource.RLIM_INFINITY else min(hard, 32768)
    return f"{granted}:{granted}"


def _containers(stack: str) -> list[dict[str, Any]]:
    """Return all containers of the stack on this machine."""
    listing = _podman(["ps", "--all", "--filter", f"label=rackwright.stack={stack}", "--format", "json"])
    containers: list[dict[str, Any]] = json.loads(listing or "[]")
    return containers


def _remove(names: Sequence[str]) -> None:
    """Remove containers, whatever their state."""
    # Another check may remove the same container at the same time; what remains is left to the next probe and to `down`.
    with contextlib.suppress(UndeterminedError):
        if names:
            _podman(["rm", "--force", "--ignore", "--time", "0", *names])


def _limit() -> float:
    return _LIMIT * local_slowness()


def _podman(arguments: list[str]) -> str:
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    command = ["podman", *([] if unified else ["--runtime", "runc"]), *arguments]
    limit = _limit()
    try:
        ended = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=limit, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise UndeterminedError("podman is not installed on this machine") from None
    except subprocess.TimeoutExpired:
        raise UndeterminedError(f"podman {arguments[0]}: timed out after {limit:.0f} s") from None
    if ended.returncode:
        reason = (ended.stderr.strip() or "no reason given").splitlines()[-1]
        raise UndeterminedError(f"podman {arguments[0]}: {reason}")
    return ended.stdout
