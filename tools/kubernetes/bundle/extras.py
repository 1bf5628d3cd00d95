"""Parts that only some clusters need: built beside the bundle when they are asked for, each with a list of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Callable, NamedTuple

from bootstrap import go_build
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage
from bundle import archive, compiling, inputs, layer, packet_filter, recipe, training
from bundle.archive import Content
from bundle.found import LABEL, SCHEMA, Wanted
from bundle.progress import Progress
from bundle.recipe import Module

_DECIDING = ("archive.py", "compiling.py", "extras.py", "layer.py", "packet_filter.py")
FLANNEL = Module(
    folder="flannel",
    title="flannel",
    main="github.com/flannel-io/flannel",
    programs={"flanneld": "github.com/flannel-io/flannel"},
    tags="grpcnotrace",
    variables=("github.com/flannel-io/flannel/pkg/version.Version={version}",),
    packages=830,
)
EXTRAS = ("flannel", training.NAME)
"""What can be asked for with `--with`."""
_Job = Callable[[Stage], None]


class _Extra(NamedTuple):
    """One part: where it belongs, what it is made from, how."""

    name: str
    version: str
    folder: Path
    inputs: str
    jobs: Callable[[Path, dict[str, Any]], dict[str, _Job]]
    """Of a folder and of the part's list: its stages."""


def provide(machine: Machine, rooms: Path, bundle: Wanted, names: list[str], mirror: str | None, told: type[Progress]) -> None:
    """Each part has its folder in the bundle when this returns."""
    for name in names:
        make = _training if name == training.NAME else _flannel
        extra = make(machine, rooms, bundle, mirror)
        if not _is_there(extra):
            _build(extra, bundle.processor, told)


def image(rooms: Path) -> str:
    """The full name of flannel's image: its version, and a digest of the modules it is built from."""
    return f"{recipe.OWN_REPOSITORY}/flannel:{inputs.version(rooms, FLANNEL)}-{inputs.module_digest(rooms, FLANNEL)}"


def _flannel(machine: Machine, rooms: Path, bundle: Wanted, mirror: str | None) -> _Extra:
    version = inputs.version(rooms, FLANNEL).lstrip("v")

    def jobs(part: Path, described: dict[str, Any]) -> dict[str, _Job]:
        work = part / "work"

        def compile_it(stage: Stage) -> None:
            compiling.module(_with_c(machine, rooms, work, stage), rooms, FLANNEL, work, stage)

        def fetch(stage: Stage) -> None:
            packet_filter.fetch(machine, work / "root.tar", mirror, stage)

        def write(stage: Stage) -> None:
            programs = [layer.program(f"/usr/local/bin/{name}", work / name) for name in FLANNEL.programs]
            below = packet_filter.entries(work / "root.tar")
            content = Content(image(rooms), (*below, *layer.base(), *programs), f"/usr/local/bin/{next(iter(FLANNEL.programs))}")
            described["archives"] = _written(part, "flannel", content, bundle.processor, stage)

        return {
            f"{FLANNEL.title} {version}": compile_it,
            f"nft and iptables of Debian {packet_filter.SUITE}": fetch,
            "image of flannel": write,
        }

    here = Path(__file__).resolve().parent
    digest = inputs.files_digest(bundle.processor, [*inputs.sources(rooms / FLANNEL.folder), *(here / name for name in _DECIDING)])
    return _Extra("flannel", version, bundle.folder / "flannel", digest, jobs)


def _training(machine: Machine, _rooms: Path, bundle: Wanted, mirror: str | None) -> _Extra:
    def jobs(part: Path, described: dict[str, Any]) -> dict[str, _Job]:
        root = part / "work" / "root.tar"

        def fetch(stage: Stage) -> None:
            training.fetch(machine, root, mirror, stage)

        def write(stage: Stage) -> None:
            content = training.content(root, part / "work" / "files")
            described["archives"] = _written(part, training.NAME, content, bundle.processor, stage)

        return {f"PyTorch of Debian {training.SUITE}": fetch, "image of training pods, 1.1 GB": write}

    here = Path(__file__).resolve().parent
    digest = inputs.files_digest(f"{training.NAME} {bundle.processor}", [here / name for name in ("archive.py", "layer.py", "training.py")])
    return _Extra(training.NAME, training.SUITE, bundle.folder / training.NAME, digest, jobs)


def _is_there(extra: _Extra) -> bool:
    try:
        described = json.loads((extra.folder / LABEL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and described.get("inputs") == extra.inputs


def _build(extra: _Extra, processor: str, told: type[Progress]) -> None:
    """In a folder of its own beside the others; one rename brings it to its place."""
    part = extra.folder.with_name(f"{extra.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "images").mkdir(parents=True)
    (part / "work").mkdir()
    described: dict[str, Any] = {"schema": SCHEMA, "inputs": extra.inputs, "version": extra.version, "processor": processor}
    jobs = extra.jobs(part, described)
    progress = told(len(jobs))
    for number, (what, job) in enumerate(jobs.items(), 1):
        with progress.stage(number, what) as stage:
            job(stage)
    shutil.rmtree(part / "work")
    (part / LABEL).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(extra.folder, ignore_errors=True)
    part.rename(extra.folder)
    progress.end()


def _with_c(machine: Machine, rooms: Path, work: Path, stage: Stage) -> go_build.Toolchain:
    """A toolchain with a C compiler: flannel's UDP backend is linked in whether it is used or not, and is C."""
    if machine.which("gcc") is None:
        raise Failure(
            f"gcc is not installed; {FLANNEL.title} is built with it.\n"
            "Install the packages gcc and libc6-dev with the system's package manager, then run this again."
        )
    chain = go_build.toolchain(machine, [rooms / FLANNEL.folder], work / "go", stage)
    return chain._replace(environ={**chain.environ, "CGO_ENABLED": "1"})


def _written(part: Path, name: str, content: Content, processor: str, stage: Stage) -> dict[str, Any]:
    """Write the one archive with the one image; return its row in the list."""
    file = f"images/{name}.tar"
    digest, found = archive.write(part / file, [content], processor, stage.note)
    return {name: {"file": file, "sha256": digest, "images": [{"name": each, "digest": one} for each, one in found]}}
