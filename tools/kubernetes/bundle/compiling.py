"""Turns the wrapper modules into static programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bootstrap.failure import Failure
from bootstrap.go_build import Toolchain, counting
from bootstrap.stage import Stage
from bundle import inputs, recipe
from bundle.recipe import Module

# Without the stamp of the checkout's commit, which would make every commit's bundle another one.
_COMMON = ("build", "-v", "-trimpath", "-buildvcs=false")


def module(chain: Toolchain, rooms: Path, which: Module, into: Path, stage: Stage) -> None:
    """Leaves a module's programs in `into`, under their names in the bundle."""
    command = [chain.go, *_COMMON, "-tags", which.tags, "-ldflags", flags(which, inputs.version(rooms, which)), "-o", f"{into}/"]
    _run(chain, [*command, *which.programs.values()], rooms / which.folder, which.packages, into, stage)
    for name, package in which.programs.items():
        (into / _left_as(package)).rename(into / name)


def own(chain: Toolchain, rooms: Path, into: Path, stage: Stage) -> None:
    """Leaves our own programs in `into`."""
    for name in recipe.OWN_PROGRAMS:
        linked = f"-s -w -X main.version={inputs.own_version(rooms, name)}"
        command = [chain.go, *_COMMON, "-tags", recipe.KUBERNETES.tags, "-ldflags", linked, "-o", f"{into}/", f"./{name}"]
        _run(chain, command, rooms / recipe.KUBERNETES.folder, recipe.KUBERNETES.packages, into, stage)


def flags(which: Module, version: str) -> str:
    """The linker's: no symbols, and the version that the programs tell."""
    major, minor = version.lstrip("v").split(".")[:2]
    return " ".join(("-s -w", *(f"-X {each.format(version=version, major=major, minor=minor)}" for each in which.variables)))


def go_version(chain: Toolchain) -> str:
    """Such as go1.26.8."""
    told = subprocess.run([chain.go, "env", "GOVERSION"], env=chain.environ, capture_output=True, text=True, check=False)
    return told.stdout.strip()


def _left_as(package: str) -> str:
    """What `go build` calls a package's program: the last part of the path that is no major version."""
    parts = package.split("/")
    return parts[-2] if parts[-1][:1] == "v" and parts[-1][1:].isdigit() else parts[-1]


def _run(chain: Toolchain, command: list[str], cwd: Path, packages: int, into: Path, stage: Stage) -> None:
    passing = into / "passing"  # a Go that is ended from outside leaves its scratch files, here where the next run removes them
    passing.mkdir(exist_ok=True)
    try:
        stage.run(command, cwd=cwd, env={**chain.environ, "GOTMPDIR": str(passing)}, on_line=counting(stage, packages))
    except Failure as failure:
        raise Failure(
            f"{failure}\nin {cwd}.\n"
            "If modules could not be fetched, set GOPROXY to a module proxy that this machine reaches. If room ran out, make some.\n"
            "Then run this again: what is built is kept."
        ) from None
    finally:
        shutil.rmtree(passing, ignore_errors=True)
