"""What decides a bundle's content: the versions in the go.mod files, and a digest over all that it is made from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import recipe
from bundle.recipe import Module

_DECIDING = ("archive.py", "compiling.py", "images.py", "layer.py", "packet_filter.py", "recipe.py")
"""Files of this package. A change of the progress output must not cause a build."""

PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}


def digest(rooms: Path, processor: str) -> str:
    """Twelve hex digits that change with anything that goes into the result. `rooms`: tools/kubernetes."""
    files = [path for module in recipe.MODULES for path in sources(rooms / module.folder)]
    return digest_of(processor, [(str(path.relative_to(rooms)), path) for path in files] + deciding())


def deciding() -> list[tuple[str, Path]]:
    """Return the files of this package that decide a bundle's content, by name."""
    here = Path(__file__).resolve().parent
    return [(name, here / name) for name in _DECIDING]


def processor(machine: Machine) -> str:
    """The machine's, as images name it."""
    found = PROCESSORS.get(machine.processor)
    if found is None:
        known = " and ".join(sorted(PROCESSORS))
        raise Failure(f"{machine.processor}: a bundle is built on the processor it is for, and recipes are there for {known}")
    return found


def sources(module: Path) -> list[Path]:
    """A module's files, sorted."""
    return sorted([module / "go.mod", module / "go.sum", *module.rglob("*.go")])


def own_version(rooms: Path, program: str) -> str:
    """The version of one of our programs: of its sources and of the modules it may use."""
    module = rooms / recipe.KUBERNETES.folder
    return digest_of(program, [(str(path.relative_to(module)), path) for path in own_sources(rooms, program)])


def own_sources(rooms: Path, program: str) -> list[Path]:
    """Return the files that one of our programs is built from, for every release with the modules of the default."""
    module = rooms / recipe.KUBERNETES.folder
    return sorted([module / "go.mod", module / "go.sum", *(module / program).rglob("*.go")])


def module_digest(rooms: Path, module: Module) -> str:
    """Of a module's own files: what its programs are made from."""
    return digest_of(module.folder, [(path.name, path) for path in sources(rooms / module.folder)])


def files_digest(first: str, files: Iterable[Path]) -> str:
    """Of files by their names."""
    return digest_of(first, [(path.name, path) for path in files])


def digest_of(first: str, files: Iterable[tuple[str, Path]]) -> str:
    """Twelve hex digits over names and contents."""
    found = hashlib.sha256(first.encode())
    for name, path in files:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}; the checkout is not whole, `git status` tells what it misses") from None
        found.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:12]


def version(rooms: Path, module: Module) -> str:
    """As go.mod has it, such as v1.34.1."""
    path = rooms / module.folder / "go.mod"
    found = re.search(rf"^(?:require\s+|\s*){re.escape(module.main)} (v\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise Failure(f"{path} does not require {module.main}; restore the file from git")
    return found[1]
