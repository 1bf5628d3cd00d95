"""The suite and expect, downloaded once through the login node's apt and kept in the user's cache."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rackwright.errors import InputError, RackwrightError
from slurm_suite.login_node import LoginNode

PROGRAMS: Final = Path(__file__).parent / "programs"
_SUMS: Final = "sha256.json"
_EXPECT: Final = re.compile(r"[^/]+/testsuite/expect/(.+)")
_TEST: Final = re.compile(r"test(\d+\.\d+)$")
_BELONGS_TO_TEST: Final = re.compile(r"test\d+\.\d+")
_CODENAME: Final = ". /etc/os-release; echo $ID-$VERSION_CODENAME; dpkg --print-architecture"


@dataclass(frozen=True)
class Source:
    """A folder with the upstream tarball and the packages of expect."""

    folder: Path

    @property
    def tarball(self) -> Path:
        """Return the upstream tarball of Slurm."""
        return next(self.folder.glob("slurm-wlm_*.orig.tar.*"))

    def expect_files(self) -> dict[str, tarfile.TarInfo]:
        """Return the members of the suite's expect part, by path within it."""
        with tarfile.open(self.tarball) as tar:
            return {match[1]: member for member in tar if member.isfile() and (match := _EXPECT.fullmatch(member.name))}

    def tests(self) -> list[str]:
        """Return the numbers of the tests that the suite contains."""
        return [match[1] for path in self.expect_files() if (match := _TEST.fullmatch(path))]

    def archive(self, tests: Collection[str], local_globals: str) -> bytes:
        """Return a tar.gz with chosen tests and what they share (`expect/`), and the packages of expect (`packages/`).

        Only the chosen tests: on MooseFS each file takes 64 MiB of the configured size.
        """
        buffer = io.BytesIO()
        with tarfile.open(self.tarball) as suite, tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for path, member in self.expect_files().items():
                belonging = _BELONGS_TO_TEST.match(path)
                content = suite.extractfile(member)
                if content and (belonging is None or belonging[0].removeprefix("test") in tests):
                    _add(archive, f"expect/{path}", content.read(), member.mode)
            for package in self.folder.glob("*.deb"):
                _add(archive, f"packages/{package.name}", package.read_bytes())
            _add(archive, "expect/globals.local", local_globals.encode())
            _add(archive, "testsuite.conf", b"")
            _add(archive, "run_tests.py", (PROGRAMS / "run_tests.py").read_bytes())
        return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode | 0o444
    archive.addfile(member, io.BytesIO(content))


def cached_source(node: LoginNode, version: str) -> Source:
    """Return the source of a Slurm version for the node's release, downloaded if the cache does not have it intact.

    Raises InputError for a node without apt and for a release that packages another upstream version.
    """
    if not node.run("command -v apt-get || :").strip():
        raise InputError("no apt-get; the suite comes from Debian's source package of Slurm", path=node.name)
    place = "-".join(node.lines(_CODENAME))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rackwright"
    folder = cache / f"slurm-suite-{version}-{place}"
    if not is_intact(folder):
        shutil.rmtree(folder, ignore_errors=True)
        _download(node, version, folder)
    return Source(folder)


def is_intact(folder: Path) -> bool:
    """Return whether a folder has every file of its list with the recorded SHA-256."""
    try:
        sums: Mapping[str, str] = json.loads((folder / _SUMS).read_text(encoding="utf-8"))
        return bool(sums) and all(_sha256((folder / name).read_bytes()) == value for name, value in sums.items())
    except (OSError, ValueError):
        return False


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(node: LoginNode, version: str, folder: Path) -> None:
    remote = shlex.quote(node.run("mktemp -d").decode().strip())
    try:
        script = (PROGRAMS / "fetch.sh").read_bytes()
        listed = node.run(f"sh -s -- {remote}", stdin=script).decode()
        sums = {line.split(maxsplit=1)[1].removeprefix("*"): line.split()[0] for line in listed.splitlines()}
        archive = node.run(f"tar -c -C {remote}/files .")
    finally:
        node.run(f"rm -rf {remote}")
    if not any(name.startswith(f"slurm-wlm_{version}.orig.tar.") for name in sums):
        packaged = ", ".join(sorted(sums))
        raise RackwrightError(
            f"the archive of this release has no Slurm {version} (found {packaged})", path=node.name, hint="Update the node."
        )
    draft = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(draft, filter="data")
    (draft / _SUMS).write_text(json.dumps(sums), encoding="utf-8")
    if not is_intact(draft):
        raise RackwrightError("the files changed on their way from the node", path=str(draft), hint="Run the command again.")
    draft.rename(folder)
