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
from bundle import archive, compiling, inputs, layer, packet_filter, recipe
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
EXTRAS = {"flannel": FLANNEL}
"""What can be asked for with `--with`."""
_STAGES = 3
_Job = Callable[[Path, Stage], None]


class _Extra(NamedTuple):
    """One part: where it belongs, what it is made from."""

    name: str
    module: Module
    folder: Path
    inputs: str


def provide(machine: Machine, rooms: Path, bundle: Wanted, names: list[str], mirror: str | None, told: type[Progress]) -> None:
    """Each part has its folder in the bundle when this returns."""
    for name in names:
        extra = _Extra(name, EXTRAS[name], bundle.folder / name, _digest(rooms, EXTRAS[name], bundle.processor))
        if not _is_there(extra):
            progress = told(_STAGES)
            _build(machine, rooms, extra, bundle.processor, mirror, progress)
            progress.end()


def image(rooms: Path, name: str) -> str:
    """The full name of a part's image: its version, and a digest of the modules it is built from."""
    module = EXTRAS[name]
    return f"{recipe.OWN_REPOSITORY}/{name}:{inputs.version(rooms, module)}-{inputs.module_digest(rooms, module)}"


def _digest(rooms: Path, module: Module, processor: str) -> str:
    here = Path(__file__).resolve().parent
    return inputs.files_digest(processor, [*inputs.sources(rooms / module.folder), *(here / name for name in _DECIDING)])


def _is_there(extra: _Extra) -> bool:
    try:
        described = json.loads((extra.folder / LABEL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and described.get("inputs") == extra.inputs


def _build(machine: Machine, rooms: Path, extra: _Extra, processor: str, mirror: str | None, progress: Progress) -> None:
    """In a folder of its own beside the others; one rename brings it to its place."""
    part = extra.folder.with_name(f"{extra.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "images").mkdir(parents=True)
    work = part / "work"
    work.mkdir()
    version = inputs.version(rooms, extra.module).lstrip("v")
    described: dict[str, Any] = {"schema": SCHEMA, "inputs": extra.inputs, "version": version, "processor": processor}

    def compile_it(stage: Stage) -> None:
        compiling.module(_with_c(machine, rooms, extra, work, stage), rooms, extra.module, work, stage)

    def fetch(stage: Stage) -> None:
        packet_filter.fetch(machine, work / "root.tar", mirror, stage)

    def write(stage: Stage) -> None:
        described["archives"] = {extra.name: _written(part, rooms, extra, processor, stage)}

    jobs = {
        f"{extra.module.title} {version}": compile_it,
        f"nft and iptables of Debian {packet_filter.SUITE}": fetch,
        f"image of {extra.name}": write,
    }
    for number, (what, job) in enumerate(jobs.items(), 1):
        with progress.stage(number, what) as stage:
            job(stage)
    shutil.rmtree(work)
    (part / LABEL).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(extra.folder, ignore_errors=True)
    part.rename(extra.folder)


def _with_c(machine: Machine, rooms: Path, extra: _Extra, work: Path, stage: Stage) -> go_build.Toolchain:
    """A toolchain with a C compiler: flannel's UDP backend is linked in whether it is used or not, and is C."""
    if machine.which("gcc") is None:
        raise Failure(
            f"gcc is not installed; {extra.module.title} is built with it.\n"
            "Install the packages gcc and libc6-dev with the system's package manager, then run this again."
        )
    chain = go_build.toolchain(machine, [rooms / extra.module.folder], work / "go", stage)
    return chain._replace(environ={**chain.environ, "CGO_ENABLED": "1"})


def _written(part: Path, rooms: Path, extra: _Extra, processor: str, stage: Stage) -> dict[str, Any]:
    """The one archive with the one image: the program on top of what it is linked to and calls."""
    work, file = part / "work", f"images/{extra.name}.tar"
    programs = [layer.program(f"/usr/local/bin/{name}", work / name) for name in extra.module.programs]
    below = packet_filter.entries(work / "root.tar")
    content = Content(image(rooms, extra.name), (*below, *layer.base(), *programs), f"/usr/local/bin/{next(iter(extra.module.programs))}")
    digest, found = archive.write(part / file, [content], processor, stage.note)
    return {"file": file, "sha256": digest, "images": [{"name": each, "digest": one} for each, one in found]}
