"""An archive with the control of power: modules of `rackwright power`, and sushy with what it needs, for machines without these packages.

Distributions package releases of sushy that require properties which BMCs do not all have (5.5 in Debian 13: `Boot`), and no release to
which the connection of `redfish_connection` fits. Python runs the archive as a program (docs.python.org, zipapp).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from rackwright import layout
from rackwright.files import write_atomic

_LIBRARY: Final = "sushy"
_OMITTED: Final = frozenset({"setuptools"})
"""pbr requires it for builds; its module `version`, which sushy imports, does not."""
_MODULES: Final = (
    "__init__.py",
    "errors.py",
    "layout.py",
    "masking.py",
    "printable.py",
    "time_limits.py",
    "drivers/__init__.py",
    "drivers/bmc/__init__.py",
    "drivers/bmc/access.py",
    "drivers/bmc/ipmi.py",
    "drivers/bmc/redfish.py",
    "drivers/bmc/redfish_connection.py",
    "drivers/bmc/power_service.py",
    "drivers/process.py",
    "drivers/supervision.py",
)
"""Below the package's folder."""
_MAIN: Final = "from rackwright.drivers.bmc.power_service import main\n\nmain()\n"
_INTERPRETER: Final = b"#!/usr/bin/python3 -I\n"
"""First line, for the kernel: the node's own Python, without the environment's modules (python(1), -I)."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""Time of every entry, the earliest that ZIP has: the same modules always make the same archive."""


@cache
def power_archive() -> bytes:
    """Return the archive. Raises importlib.metadata.PackageNotFoundError if an installed package lacks its metadata."""
    entries = dict(sorted({**_own(), **_packages(), "__main__.py": _MAIN.encode()}.items()))
    content = io.BytesIO(_INTERPRETER)
    content.seek(len(_INTERPRETER))
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in entries.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def archive_digest() -> str:
    """Return 16 hexadecimal digits that change with the archive."""
    return hashlib.sha256(power_archive()).hexdigest()[:16]


def write_power_archive(folder: Path) -> Path:
    """Write the archive into a folder, named by its digest, unless it is there; return its path."""
    file = folder / f"bmc-power-{archive_digest()}.pyz"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(file, power_archive())
    return file


def _own() -> dict[str, bytes]:
    package = layout.IMPORT_ROOT / "rackwright"
    return {f"rackwright/{name}": (package / name).read_bytes() for name in _MODULES}


def _packages() -> dict[str, bytes]:
    return {name: file.read_bytes() for package in _required(_LIBRARY) for name, file in _files(package)}


def _required(name: str, found: dict[str, importlib.metadata.Distribution] | None = None) -> list[importlib.metadata.Distribution]:
    """Return a package and what it requires, each once."""
    found = {} if found is None else found
    if name.lower() in found or name.lower() in _OMITTED:
        return []
    found[name.lower()] = package = importlib.metadata.distribution(name)
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            _required(requirement.name, found)
    return list(found.values())


def _files(package: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files that are read at run time: no tests, no compiled modules (each package also has the same modules in Python)."""
    for file in package.files or ():
        name = file.as_posix()
        is_metadata = file.parts[0].endswith(".dist-info") and file.name in ("METADATA", "entry_points.txt")
        is_code = not file.parts[0].endswith(".dist-info") and "tests" not in file.parts and file.suffix in (".py", ".json", ".pem")
        if not name.startswith("..") and (is_metadata or is_code):
            yield name, Path(str(file.locate()))
