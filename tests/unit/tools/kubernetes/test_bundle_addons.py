"""Parts of the bundle with addons: what they hold, what decides them, what outlives an interruption. Go and kubectl are played."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import addon_list, addons, found, front
from rackwright.catalog.addons import addons as catalogue
from rackwright.catalog.addons import image
from rackwright.model.scheduler.kubernetes import Addon

ROOMS = Path(__file__).resolve().parents[4] / "tools" / "kubernetes"
_GO = """
import pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1] == "version":
    sys.exit(print("go version go1.26.8 linux/amd64"))
if sys.argv[1] == "list":
    sys.exit(print(here / "module"))
with (here / "calls").open("a") as calls:
    calls.write("build\\n")
place = sys.argv.index("-o") + 1
for package in sys.argv[place + 1 :]:
    (pathlib.Path(sys.argv[place]) / package.split("/")[-1]).write_text("program")
"""
_KUBECTL = """
import pathlib, sys
assert sys.argv[1] == "kustomize"
folder = pathlib.Path(sys.argv[2])
if not (folder / "upstream" / "default" / "kustomization.yaml").exists():
    sys.exit("no upstream")
print((folder / "kustomization.yaml").read_text())
"""


class Played:
    """A machine whose Go is a script, rooms with the real recipes, and a bundle that is there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rooms, self.bin, self.into = folder / "rooms", folder / "bin", folder / "part"
        shutil.copytree(ROOMS, self.rooms, ignore=shutil.ignore_patterns("bundle", "__pycache__"))
        self.bin.mkdir()
        self.script(self.bin / "go", _GO)
        (self.bin / "module" / "config" / "default").mkdir(parents=True)
        (self.bin / "module" / "config" / "default" / "kustomization.yaml").write_text("resources: []\n")
        self.machine = Machine("Linux", "x86_64", folder, {"PATH": str(self.bin), "HOME": str(folder)}, 1000)
        self.script(folder / "bundle" / "bin" / "kubectl", _KUBECTL)
        monkeypatch.setattr(front, "_bundle", lambda *_: SimpleNamespace(folder=folder / "bundle"))

    @staticmethod
    def script(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable}{text}")
        path.chmod(0o755)

    def provide(self, name: str = "kueue") -> dict[str, Any]:
        front.provide_addon(self.machine, self.rooms, name, self.into, None, as_json=True)
        described: dict[str, Any] = json.loads((self.into / "bundle.json").read_text())
        return described

    def builds(self) -> int:
        log = self.bin / "calls"
        return len(log.read_text().split()) if log.exists() else 0


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(tmp_path, monkeypatch)


def test_the_catalogue_names_what_the_recipes_build() -> None:
    """A stack asks for an image by this name, and the part has it under that one."""
    for name, addon in addon_list.ADDONS.items():
        assert image(name) == addons.image(ROOMS, addon)


def test_every_addon_that_a_stack_may_list_has_a_recipe_and_a_row() -> None:
    assert set(addon_list.ADDONS) == {each.value for each in Addon} == {name for name, row in catalogue().items() if row.installed}


def test_a_part_says_what_is_in_it(played: Played) -> None:
    described = played.provide()
    assert (described["addon"], described["version"], described["schema"]) == ("kueue", "0.15.2", found.SCHEMA)
    (listed,) = described["archives"]["kueue"]["images"]
    assert listed["name"] == image("kueue")
    assert (played.into / described["archives"]["kueue"]["file"]).exists()
    assert image("kueue") in (played.into / "manifests.yaml").read_text() and "{image}" not in (played.into / "manifests.yaml").read_text()
    assert sorted(path.name for path in played.into.iterdir()) == ["bundle.json", "images", "manifests.yaml"]


def test_one_that_is_there_is_not_built_again(played: Played) -> None:
    played.provide()
    played.provide()
    assert played.builds() == 1


def test_what_was_compiled_outlives_an_interruption(played: Played) -> None:
    kubectl = played.bin.parent / "bundle" / "bin" / "kubectl"
    played.script(kubectl, "\nimport sys\nsys.exit('no room')\n")
    with pytest.raises(Failure, match="no room"):
        played.provide()
    played.script(kubectl, _KUBECTL)
    played.provide()
    assert played.builds() == 1


def test_its_own_sources_decide_it_and_nobody_elses(played: Played) -> None:
    def folder() -> Path:
        return addons.wanted(played.machine, played.rooms, addons.ADDONS["kueue"], None).folder

    before, bundle = folder(), found.wanted(played.machine, played.rooms, None).folder
    (played.rooms / "addons" / "jobset" / "kustomization.yaml").write_text("other")
    assert folder() == before
    (played.rooms / "addons" / "kueue" / "kustomization.yaml").write_text("other")
    assert folder() != before
    assert found.wanted(played.machine, played.rooms, None).folder == bundle  # a stack without addons builds nothing anew


def test_part_of_a_later_addon_is_built_with_its_recipe_in_its_digest(played: Played) -> None:
    def digest(**changes: str) -> str:
        addon = addon_list.ADDONS["leaderworkerset"]._replace(**changes)
        return addon_list.wanted(played.machine, played.rooms, addon, None).inputs

    described = played.provide("leaderworkerset")
    assert (described["version"], described["inputs"]) == ("0.8.0", digest()) and digest(program="/other") != digest()
    assert addon_list.wanted(played.machine, played.rooms, addon_list.ADDONS["leaderworkerset"], None).folder.name.endswith(digest())


def test_objects_beside_the_modules_are_rendered_and_decide_the_part(played: Played) -> None:
    """The module of the DRA example driver has a Helm chart only, which kustomize does not read."""
    chart = played.bin / "module" / "deployments" / "helm" / "dra-example-driver" / "default"
    chart.mkdir(parents=True)
    (chart / "kustomization.yaml").write_text("resources: []\n")
    played.script(played.bin.parent / "bundle" / "bin" / "kubectl", _KUBECTL + 'print((folder / "objects.yaml").read_text())\n')
    described = played.provide("dra-example-driver")
    assert described["version"] == "0.1.0" and "kind: DeviceClass" in (played.into / "manifests.yaml").read_text()
    (played.rooms / "addons" / "dra-example-driver" / "objects.yaml").write_text("other")
    addon = addon_list.ADDONS["dra-example-driver"]
    assert addon_list.wanted(played.machine, played.rooms, addon, None).inputs != described["inputs"]


def test_image_of_an_addon_with_several_programs_holds_all_of_them(played: Played) -> None:
    described = played.provide("metallb")
    (listed,) = described["archives"]["metallb"]["images"]
    with tarfile.open(played.into / "images" / "metallb.tar") as outer:
        content = {one.name: outer.extractfile(one).read() for one in outer if one.isfile()}  # type: ignore[union-attr]
    (manifest,) = json.loads(content["manifest.json"])
    config = json.loads(content[manifest["Config"]])["config"]
    with tarfile.open(fileobj=io.BytesIO(content[manifest["Layers"][0]])) as layer:
        assert {"controller", "speaker"} <= set(layer.getnames()) and config["Entrypoint"] == ["/controller"]
    assert listed["name"] == image("metallb") and (described["version"], config["User"]) == ("0.15.2", "65532:65532")


def test_later_addons_leave_the_parts_of_the_others_as_they_are(played: Played) -> None:
    for name, addon in addons.ADDONS.items():
        assert addon_list.ADDONS[name] is addon
        assert addon_list.wanted(played.machine, played.rooms, addon, None) == addons.wanted(played.machine, played.rooms, addon, None)


def test_one_that_nobody_knows_is_refused_with_the_names_of_the_others(played: Played) -> None:
    with pytest.raises(
        Failure,
        match=r"no addon `volcano`; one of kueue, trainer, jobset, metrics-server, leaderworkerset, dra-example-driver, "
        "training-operator, metallb, keda",
    ):
        played.provide("volcano")
