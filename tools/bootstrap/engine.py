"""Find, download or build the Pulumi engine, and record its path for the shim."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import IO, NamedTuple

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stages

VERSION = "3.259.0"
_OLDEST = (3, 259)

RECORD = "rackwright-engine"
"""File in the virtual environment; tools/pulumi/shim/engine.py reads it."""

OFFICIAL_MARK = "official"
"""File next to a downloaded engine, which has its own language host."""


class Found(NamedTuple):
    """An engine and its origin."""

    pulumi: Path
    origin: str


def provide(machine: Machine, stages: Stages, checkout: Path, venv: Path) -> None:
    """Find or obtain an engine, and record it in the virtual environment."""
    found = look(machine, venv)
    if found is None:
        folder = cache_folder(machine)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            _wait_for(lock, stages)
            found = look(machine, venv) or _obtain(machine, stages, checkout, folder)
    if found.pulumi.parent == cache_folder(machine):
        _copy_language_host(checkout, found.pulumi.parent)
    if found.origin != "recorded":
        (venv / RECORD).write_text(f"{found.pulumi}\n{_identity(found.pulumi)}\n", encoding="utf-8")


def _wait_for(lock: IO[str], stages: Stages) -> None:
    """Take the lock of the cache folder; print a message if another checkout holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with stages.stage(f"Pulumi {VERSION}: waits for another process that downloads or builds it"):
            fcntl.flock(lock, fcntl.LOCK_EX)


def look(machine: Machine, venv: Path) -> Found | None:
    """Return an existing engine: recorded (and still the same file), on PATH, or cached."""
    recorded = _recorded(venv)
    if recorded:
        return Found(recorded, "recorded")
    on_path = _on_path(machine, venv)
    if on_path:
        return Found(on_path, "on PATH")
    cached = cache_folder(machine) / "pulumi"
    return Found(cached, "cached") if os.access(cached, os.X_OK) else None


def cache_folder(machine: Machine) -> Path:
    """Return the cache folder of the user and the version."""
    return machine.cache() / f"pulumi-{VERSION}"


def _recorded(venv: Path) -> Path | None:
    try:
        path, identity, *_ = (venv / RECORD).read_text(encoding="utf-8").splitlines()
        return Path(path) if os.access(path, os.X_OK) and _identity(Path(path)) == identity else None
    except (OSError, ValueError):
        return None


def _identity(pulumi: Path) -> str:
    """Return size and modification time, which change when an engine is upgraded in place."""
    status = pulumi.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _on_path(machine: Machine, venv: Path) -> Path | None:
    """Return the first compatible `pulumi` on PATH: 3.259 or newer of the 3.x line, with its own Python language host next to it."""
    for folder in machine.environ.get("PATH", "").split(os.pathsep):
        candidate = Path(folder or ".") / "pulumi"
        if candidate.parent.resolve() == (venv / "bin").resolve() or not os.access(candidate, os.X_OK):
            continue
        real = candidate.resolve()
        if suits(version_of(real)) and os.access(real.parent / "pulumi-language-python", os.X_OK):
            return real
    return None


def version_of(pulumi: Path) -> str:
    """Return the output of `pulumi version`; empty if it does not start."""
    environ = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        result = subprocess.run([str(pulumi), "version"], capture_output=True, text=True, timeout=20, env=environ, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip()


def suits(version: str) -> bool:
    """Return whether the pinned Python SDK works with this engine version."""
    numbers = re.match(r"v?(\d+)\.(\d+)\.\d+", version)
    return numbers is not None and (3, 0) <= (int(numbers[1]), int(numbers[2])) < (4, 0) and (int(numbers[1]), int(numbers[2])) >= _OLDEST


def _obtain(machine: Machine, stages: Stages, checkout: Path, folder: Path) -> Found:
    from bootstrap import go_build, official  # 50 ms of imports, for an action that each user needs once

    with stages.stage(f"Pulumi {VERSION}: official download") as stage:
        try:
            official.download(machine, VERSION, folder)
            return Found(folder / "pulumi", "downloaded")
        except Failure as failure:
            stage.give_up(str(failure))
    print(f"    building the real CLI once for this user, into {folder}; about 4 minutes on 2 cores", flush=True)
    with stages.stage(f"Pulumi {VERSION}: built from its Go modules") as stage:
        go_build.build(machine, checkout / "tools" / "pulumi", folder / "pulumi", VERSION, stage)
    if version_of(folder / "pulumi") != f"v{VERSION}":
        raise Failure(f"{folder / 'pulumi'} was built but does not print v{VERSION}; remove the folder and run make again")
    return Found(folder / "pulumi", "built")


def _copy_language_host(checkout: Path, folder: Path) -> None:
    """Copy the starter of the checkout's language host next to a built engine; a downloaded engine has the official host."""
    target = folder / "pulumi-language-python"
    source = checkout / "tools" / "pulumi" / "pulumi-language-python"
    if (folder / OFFICIAL_MARK).exists() or (target.exists() and target.read_bytes() == source.read_bytes()):
        return
    fresh = target.with_suffix(f".{os.getpid()}")
    shutil.copy(source, fresh)
    fresh.chmod(0o755)
    fresh.replace(target)
