"""Parts of the Kubernetes bundle that only some clusters need. Go and Debian are played."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import extras, found, inputs, training
from bundle.progress import Lines
from rackwright.catalog.kubernetes import own_image
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
import io, pathlib
def add(tar, name, text=b"", kind=None, link=""):
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.linkname = len(text), 0o755, link
    info.type = kind or info.type
    tar.addfile(info, io.BytesIO(text))
with (pathlib.Path(__file__).parent / "fetched").open("a") as fetched:
    fetched.write(" ".join(sys.argv[1:]) + "\\n")
trains = "--variant=essential" in sys.argv
torch = "usr/lib/python3/dist-packages/torch/"
with tarfile.open(next(word for word in sys.argv if word.endswith("root.tar")), "w") as tar:
    for name in () if trains else ("./usr/sbin/nft", "./usr/sbin/xtables-nft-multi"):
        add(tar, name)
    brought = ["usr/bin/dash", "var/lib/dpkg/status", *(torch + name for name in ("__init__.py", "bin/torch_shm_manager", "bin/test_api"))]
    for name in (f"./{path}" for path in brought if trains):
        add(tar, name, name.encode())
    if trains:
        add(tar, "./usr/bin/python3.13", b"python")
        add(tar, "./usr/bin/sh", kind=tarfile.SYMTYPE, link="dash")
        add(tar, "./usr/bin/copy", kind=tarfile.LNKTYPE, link="./usr/bin/dash")
        add(tar, "./dev/null", kind=tarfile.CHRTYPE)
        if not (pathlib.Path(__file__).parent / "no-python").exists():
            add(tar, "./usr/bin/python3", kind=tarfile.SYMTYPE, link="python3.13")
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

    def provide(self, name: str = "flannel") -> None:
        extras.provide(self.machine, self.rooms, found.Wanted(self.bundle, "0", "amd64"), [name], None, Lines)

    def calls(self) -> list[str]:
        """What Go was called for since the last query."""
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


def test_training_image_holds_what_packages_bring(played: Played, tmp_path: Path) -> None:
    played.provide("training")
    part = played.bundle / "training"
    described = json.loads((part / "bundle.json").read_text())
    assert [one["name"] for one in described["archives"]["training"]["images"]] == [own_image("training")] == [training.image()]
    assert sorted(path.name for path in part.iterdir()) == ["bundle.json", "images"]
    with tarfile.open(part / described["archives"]["training"]["file"]) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
        with tarfile.open(fileobj=archive.extractfile(manifest[0]["Layers"][0])) as layer:
            names = set(layer.getnames())
            assert layer.getmember("usr/bin/python3").linkname == "python3.13"
            assert layer.extractfile("usr/bin/copy").read() == b"./usr/bin/dash"  # type: ignore[union-attr]
            assert layer.getmember("usr/bin/dash").mode == 0o755 and layer.getmember("tmp").mode == 0o1777
    assert {"usr/bin/dash", "usr/lib/python3/dist-packages/torch/__init__.py", "proc", "dev"} <= names
    assert "usr/lib/python3/dist-packages/torch/bin/torch_shm_manager" in names, "import torch needs it"
    assert not names & {"var/lib/dpkg/status", "dev/null", "usr/lib/python3/dist-packages/torch/bin/test_api"}


def test_training_image_is_fetched_once_with_openblas(played: Played) -> None:
    played.provide("training")
    played.provide("training")
    (fetched,) = (played.bin / "fetched").read_text().splitlines()
    assert "--include=python3-torch,libopenblas0-pthread" in fetched and played.calls() == []


def test_training_image_without_python_is_refused(played: Played) -> None:
    (played.bin / "no-python").touch()
    with pytest.raises(Failure, match=r"bring no usr/bin/python3; tools/kubernetes/bundle/training\.py"):
        played.provide("training")


def test_training_image_needs_mmdebstrap(played: Played) -> None:
    (played.bin / "mmdebstrap").unlink()
    with pytest.raises(Failure, match="Install the package mmdebstrap"):
        played.provide("training")
