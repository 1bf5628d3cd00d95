"""Bundles of several releases of Kubernetes: each from its own modules, all with the project's own programs of one build."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bootstrap.failure import Failure
from bundle import addons, found, front, inputs, recipe, releases
from rackwright.catalog import kubernetes as catalogue
from rackwright.yaml_loader import load_yaml

from .test_kubernetes_bundle_build import ROOMS, BuildMachine

OTHERS = [version for version in releases.known(ROOMS) if releases.modules(ROOMS, version) != ROOMS]
"""Releases whose modules are under tools/kubernetes/releases."""


def components(version: str) -> dict[str, Any]:
    """Return the row of the catalogue."""
    row: dict[str, Any] = load_yaml(Path(catalogue.__file__).with_name("kubernetes.yml").read_text())["releases"][version]
    return row


def listed(version: str) -> list[str]:
    """Return the images that kubeadm of a release prints."""
    row = components(version)
    names = [f"example.test/{name}:v{version}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")]
    return [*names, f"example.test/coredns/coredns:{row['coredns']}", row["pause"], f"example.test/etcd:{row['etcd']}"]


@pytest.fixture
def played(tmp_path: Path) -> BuildMachine:
    """Return a machine with the modules of all releases."""
    machine = BuildMachine(tmp_path)
    shutil.copytree(ROOMS / releases.FOLDER, machine.rooms / releases.FOLDER)
    return machine


def provide(machine: BuildMachine, release: str | None) -> Path:
    """Build a bundle in the user's cache; return its folder."""
    front.provide(machine.machine, machine.rooms, None, None, as_json=True, release=release)
    return found.wanted(machine.machine, machine.rooms, None, release).folder


def test_catalogue_has_the_releases_with_modules() -> None:
    assert set(releases.known(ROOMS)) == set(catalogue.bundled_releases())


@pytest.mark.parametrize("version", OTHERS)
def test_modules_of_a_release_fit_the_catalogue(version: str) -> None:
    """kubeadm asks for these versions; the staging modules of Kubernetes have its own minor release and patch."""
    folder, row = releases.modules(ROOMS, version), components(version)
    assert folder.name == version.rpartition(".")[0]
    built = {module.folder: inputs.version(folder, module) for module in recipe.MODULES}
    assert built == {"kubernetes": f"v{version}", "etcd": f"v{row['etcd'].partition('-')[0]}", "coredns": row["coredns"]}
    text = (folder / "kubernetes" / "go.mod").read_text()
    staging = set(re.findall(r"^\t?(?:replace )?k8s\.io/[a-z-]+ => k8s\.io/[a-z-]+ v(\S+)$", text, re.MULTILINE))
    assert staging == {f"0.{version.partition('.')[2]}"}
    for module in recipe.MODULES:
        tools = (folder / module.folder / "go.mod").read_text()
        assert all(package in tools for package in module.programs.values()), module.folder


@pytest.mark.parametrize("version", OTHERS)
def test_bundle_of_a_release_has_its_programs(played: BuildMachine, version: str) -> None:
    """The project's own images keep their names, so that the plan names them without the release."""
    (played.bin / "listed").write_text("\n".join(listed(version)) + "\n")
    folder = provide(played, version)
    assert folder.name.startswith(f"kubernetes-{version}-")
    described = json.loads((folder / "bundle.json").read_text())
    row = components(version)
    assert (described["kubernetes"], described["pause"]) == (version, row["pause"])
    assert described["modules"]["go.etcd.io/etcd/server/v3"] == f"v{row['etcd'].partition('-')[0]}"
    names = [image["name"] for each in described["archives"].values() for image in each["images"]]
    own = [f"rackwright.local/{name}:{inputs.own_version(played.rooms, name)}" for name in ("gpu-device-plugin", "probe")]
    assert sorted(names) == sorted([*listed(version), *own])


def test_bundles_of_releases_are_beside_each_other(played: BuildMachine) -> None:
    first = provide(played, None)
    (played.bin / "listed").write_text("\n".join(listed(OTHERS[0])) + "\n")
    second = provide(played, OTHERS[0])
    assert first != second and (first / "bundle.json").exists() and (second / "bundle.json").exists()
    played.calls()
    assert provide(played, "1.34.1") == first
    assert played.calls() == []


def test_modules_of_another_release_leave_the_default_as_it_is(played: BuildMachine) -> None:
    """A bundle that is in the cache stays valid."""
    before = releases.digest(played.rooms, None, "amd64")
    other = releases.digest(played.rooms, OTHERS[0], "amd64")
    with (releases.modules(played.rooms, OTHERS[0]) / "etcd" / "go.mod").open("a") as file:
        file.write("// changed\n")
    assert releases.digest(played.rooms, None, "amd64") == before == inputs.digest(played.rooms, "amd64")
    changed = releases.digest(played.rooms, OTHERS[0], "amd64")
    (played.rooms / "kubernetes" / "probe" / "main.go").write_text("package main // changed\n")
    assert len({other, changed, releases.digest(played.rooms, OTHERS[0], "amd64")}) == 3


def test_kubeadm_that_asks_for_another_etcd_is_refused(played: BuildMachine) -> None:
    """The message names the folder of the release."""
    names = [name.replace("etcd:3", "etcd:9") for name in listed(OTHERS[0])]
    (played.bin / "listed").write_text("\n".join(names) + "\n")
    minor = OTHERS[0].rpartition(".")[0]
    with pytest.raises(Failure, match=rf"etcd:9.*kubeadm asks for it, tools/kubernetes/releases/{minor}/etcd/go\.mod builds v3"):
        provide(played, OTHERS[0])


def test_release_without_modules_is_refused(played: BuildMachine, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Failure, match=r"Kubernetes 1\.33\.0: .*expected one of 1\.34\.1, 1\.35"):
        provide(played, "1.33.0")
    assert played.calls() == []
    assert front.main(["--release", "1.33.0"]) == 2
    assert "no modules for this release" in capsys.readouterr().err


def test_part_of_an_addon_belongs_to_a_release(played: BuildMachine) -> None:
    """Its objects are rendered by the kubectl of the bundle; the default's part keeps its digest."""
    shutil.copytree(ROOMS / "addons", played.rooms / "addons")
    part = addons.wanted(played.machine, played.rooms, addons.ADDONS["kueue"], None)
    assert found.of_release(part, played.rooms, None) == found.of_release(part, played.rooms, "1.34.1") == part
    other = found.of_release(part, played.rooms, OTHERS[0])
    assert other.inputs != part.inputs and other.folder.name == part.folder.name.replace(part.inputs, other.inputs)
