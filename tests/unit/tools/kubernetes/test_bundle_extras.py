"""Parts of the Kubernetes bundle that only some clusters need. Go and Debian are played."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import extras, found, inputs
from bundle.progress import Lines
from rackwright.catalog.networks import flannel_image

ROOMS = Path(__file__).resolve().parents[4] / "tools" / "kubernetes"
_GO = """
import os, pathlib, sys
if sys.argv[1] == "version":
    sys.exit(print("go version go1.26.8 linux/amd64"))
with (pathlib.Path(__file__).parent / "calls").open("a") as calls:
    calls.write(f"{pathlib.Path.cwd().name} CGO_ENABLED={os.environ['CGO_ENABLED']}\\n")
if (pathlib.Path(__file__).parent / "fails").exists():
    sys.exit("one.go:1: no such thing")
into = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
(into / "flannel").write_text("a program")
"""
_MMDEBSTRAP = """
import sys, tarfile
with tarfile.open(sys.argv[5], "w") as tar:
    for name in ("./usr/sbin/nft", "./usr/sbin/xtables-nft-multi"):
        tar.addfile(tarfile.TarInfo(name))
"""


class Played:
    """A machine whose Go and mmdebstrap are scripts, and a bundle that is there."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.rooms, self.bundle = folder / "bin", folder / "rooms", folder / "bundle"
        for made in (self.bin, self.rooms, self.bundle):
            made.mkdir()
        shutil.copytree(ROOMS / "flannel", self.rooms / "flannel")
        for name, text in (("go", _GO), ("mmdebstrap", _MMDEBSTRAP), ("gcc", "\n")):
            (self.bin / name).write_text(f"#!{sys.executable}{text}")
            (self.bin / name).chmod(0o755)
        self.machine = Machine("Linux", "x86_64", folder, {"PATH": str(self.bin), "HOME": str(folder)}, 1000)

    def provide(self) -> None:
        extras.provide(self.machine, self.rooms, found.Wanted(self.bundle, "0", "amd64"), ["flannel"], None, Lines)

    def calls(self) -> list[str]:
        """What Go was called for since the last time somebody asked."""
        log = self.bin / "calls"
        told = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return told


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def test_a_part_has_a_list_of_its_own_with_the_image_that_the_plan_names(played: Played) -> None:
    played.provide()
    described = json.loads((played.bundle / "flannel" / "bundle.json").read_text())
    assert [one["name"] for one in described["archives"]["flannel"]["images"]] == [flannel_image(bundled=True)]
    assert (played.bundle / "flannel" / described["archives"]["flannel"]["file"]).exists()
    assert sorted(path.name for path in (played.bundle / "flannel").iterdir()) == ["bundle.json", "images"]
    assert [path.name for path in played.bundle.iterdir()] == ["flannel"]


def test_it_is_built_once_and_with_c(played: Played) -> None:
    played.provide()
    assert played.calls() == ["flannel CGO_ENABLED=1"]
    played.provide()
    assert played.calls() == []


def test_other_sources_make_another(played: Played) -> None:
    played.provide()
    before = extras.image(played.rooms)
    with (played.rooms / "flannel" / "go.sum").open("a") as file:
        file.write("// changed\n")
    played.calls()
    played.provide()
    assert played.calls() and extras.image(played.rooms) != before


def test_what_was_there_stays_until_the_new_one_is_whole(played: Played) -> None:
    played.provide()
    with (played.rooms / "flannel" / "go.sum").open("a") as file:
        file.write("// changed\n")
    (played.bin / "fails").touch()
    with pytest.raises(Failure, match=r"(?s)flannel 0\.26\.7: .*one\.go:1: no such thing"):
        played.provide()
    assert (played.bundle / "flannel" / "bundle.json").exists()


def test_without_a_c_compiler_it_says_what_to_install(played: Played) -> None:
    (played.bin / "gcc").unlink()
    with pytest.raises(Failure, match=r"gcc is not installed.*\nInstall the packages gcc and libc6-dev"):
        played.provide()
    assert not (played.bundle / "flannel").exists()


def test_the_recipe_fits_the_go_module() -> None:
    tools = (ROOMS / "flannel" / "go.mod").read_text()
    assert all(package in tools for package in extras.FLANNEL.programs.values())
    assert inputs.version(ROOMS, extras.FLANNEL) == "v0.26.7"
    assert all((Path(extras.__file__).parent / name).exists() for name in extras._DECIDING)
