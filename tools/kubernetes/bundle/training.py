"""The image of training pods: PyTorch for CPUs with OpenBLAS, out of Debian's packages. It is large, so built only when it is asked for."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage
from bundle import inputs, recipe
from bundle.archive import Content
from bundle.layer import Entry

NAME = "training"
SUITE = "trixie"
_PACKAGES = ("python3-torch", "libopenblas0-pthread")
"""With the reference BLAS, which the first depends on, training is 40 times slower."""
_UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/include")
_LEFT_OUT = re.compile(
    r"(dev|proc|sys|run|tmp|var/(cache|lib/(apt|dpkg)|log)|usr/lib/libtorch-test)(/.*)?|usr/lib/python3/dist-packages/torch/bin/test_.*"
)
_MOUNTED = ("dev", "proc", "run", "sys")
"""Folders over which a runtime mounts file systems."""
_TORCH = "usr/lib/python3/dist-packages/torch"
_NEEDED = ("usr/bin/python3", "usr/bin/dash", f"{_TORCH}/__init__.py", f"{_TORCH}/bin/torch_shm_manager")
_NOBODY = "65532:65532"


def image() -> str:
    """Return the full name of the image: the release of Debian, and the digest of this recipe."""
    return f"{recipe.OWN_REPOSITORY}/{NAME}:{SUITE}-{digest()}"


def digest() -> str:
    """Return twelve hex digits that change with the recipe. The packages are those of the release at the time of the build."""
    here = Path(__file__).resolve()
    return inputs.files_digest(NAME, [here])


def fetch(machine: Machine, target: Path, mirror: str | None, stage: Stage) -> None:
    """Install the packages, whose scripts choose the BLAS, and leave the file system at `target`, as tar."""
    builder = machine.which("mmdebstrap")
    if builder is None:
        raise Failure(
            "mmdebstrap is not installed; the training image is made with it out of Debian's packages.\n"
            "Install the package mmdebstrap with the system's package manager, then run this again: it goes on from here."
        )
    options = [f"--include={','.join(_PACKAGES)}", *(f"--dpkgopt=path-exclude=/{path}/*" for path in _UNUSED), "--format=tar"]
    command = [builder, "--variant=essential", *options, SUITE, str(target), *([mirror] if mirror else [])]
    try:
        stage.run(command, env={**machine.environ}, on_line=lambda line: stage.note(line.partition(": ")[2]))
    except Failure as failure:
        raise Failure(
            f"{failure}\nIt needs an archive of Debian {SUITE} that answers (--mirror ADDRESS names one). The next run goes on."
        ) from None


def content(archive: Path, unpacked: Path) -> Content:
    """Return the image. Its files are unpacked to a folder, because memory should not hold them."""
    unpacked.mkdir()
    found = [Entry("tmp", mode=0o1777), *(Entry(path) for path in _MOUNTED)]
    with tarfile.open(archive) as tar:
        for number, member in enumerate(tar):
            path = member.name[2:] if member.name.startswith("./") else member.name
            if not _LEFT_OUT.fullmatch(path):
                found += _entry(tar, member, path, unpacked / str(number))
    missing = sorted(set(_NEEDED) - {entry.path for entry in found})
    if missing:
        raise Failure(f"{archive}: Debian's packages bring no {' and no '.join(missing)}; tools/kubernetes/bundle/training.py expects them")
    return Content(image(), tuple(found), "/usr/bin/python3", _NOBODY)


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, target: Path) -> list[Entry]:
    """Return a file, with its content at `target`, a link or a folder. A hard link becomes a file of its own."""
    if member.issym():
        return [Entry(path, link=member.linkname)]
    if member.isdir():
        return [Entry(path, mode=member.mode & 0o7777)] if path.strip("./") else []
    file = tar.extractfile(member) if member.isfile() or member.islnk() else None
    if file is None:
        return []
    with target.open("wb") as written:
        while piece := file.read(1 << 20):
            written.write(piece)
    return [Entry(path, target, member.mode & 0o7777)]
