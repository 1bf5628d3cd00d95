"""All addons: those of addons.py, and later ones. addons.py decides the digest of all its parts: an entry there would build them anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from bootstrap.machine import Machine
from bootstrap.stage import Stage
from bundle import addons, archive, inputs, layer, recipe
from bundle.addons import Addon
from bundle.found import Wanted

OBJECTS = "objects.yaml"
"""Objects of an addon whose module has none that kustomize reads, beside its go.mod."""
NONROOT = "65532:65532"
"""User and group of the programs: `nonroot` in the distroless images (GoogleContainerTools/distroless, common/variables.bzl)."""
_LWS = "sigs.k8s.io/lws"
_DRA = "sigs.k8s.io/dra-example-driver"
_TRAINING = "github.com/kubeflow/training-operator"
_METALLB = "go.universe.tf/metallb"
_KEDA = "github.com/kedacore/keda/v2"
_LATER = (
    Addon(
        recipe.Module(
            folder="addons/leaderworkerset",
            title="LeaderWorkerSet",
            main=_LWS,
            programs={"leaderworkerset": f"{_LWS}/cmd"},
            tags="grpcnotrace",
            variables=(f"{_LWS}/pkg/version.GitVersion={{version}}",),
            packages=1090,
        ),
        program="/manager",
        described="config",
    ),
    Addon(
        recipe.Module(
            folder="addons/dra-example-driver",
            title="DRA example driver",
            main=_DRA,
            programs={"dra-example-driver": f"{_DRA}/cmd/dra-example-kubeletplugin"},
            tags="grpcnotrace",
            variables=("k8s.io/component-base/version.gitVersion={version}",),
            packages=740,
        ),
        program="/dra-example-kubeletplugin",
        described="deployments/helm/dra-example-driver",
    ),
    Addon(
        recipe.Module(
            folder="addons/training-operator",
            title="Kubeflow training operator",
            main=_TRAINING,
            programs={"training-operator": f"{_TRAINING}/cmd/training-operator.v1"},
            tags="grpcnotrace",
            variables=("k8s.io/client-go/pkg/version.gitVersion={version}",),
            packages=800,
        ),
        program="/manager",
        described="manifests",
    ),
    Addon(
        recipe.Module(
            folder="addons/metallb",
            title="MetalLB",
            main=_METALLB,
            programs={name: f"{_METALLB}/{name}" for name in ("controller", "speaker")},
            tags="grpcnotrace",
            variables=(f"{_METALLB}/internal/version.version={{version}}",),
            packages=870,
        ),
        program="/controller",
        described="config",
    ),
    Addon(
        recipe.Module(
            folder="addons/keda",
            title="KEDA",
            main=_KEDA,
            programs={"keda": f"{_KEDA}/cmd/operator", "keda-adapter": f"{_KEDA}/cmd/adapter"},
            tags="grpcnotrace",
            variables=(f"{_KEDA}/version.Version={{version}}",),
            packages=3710,
        ),
        program="/keda",
        described="config",
    ),
)
ADDONS: dict[str, Addon] = {**addons.ADDONS, **{one.name: one for one in _LATER}}


class ListedBuilding(addons.AddonBuilding):
    """One build of the part of any addon in the list."""

    def _render(self, into: Path, stage: Stage) -> None:
        for path in _objects(self._rooms, self._addon):
            shutil.copyfile(path, into / path.name)
        super()._render(into, stage)

    def _archive(self, into: Path, stage: Stage) -> None:
        """Write the image; of an addon with several programs, it holds all of them, and its objects name the one to start."""
        if len(self._addon.module.programs) == 1:
            super()._archive(into, stage)
            return
        programs = [layer.program(name, self._work / "program" / name) for name in self._addon.module.programs]
        content = archive.Content(addons.image(self._rooms, self._addon), (*layer.base(), *programs), self._addon.program, NONROOT)
        digest, found = archive.write(into / "image.tar", [content], self._wanted.processor, stage.note)
        listed = [{"name": each, "digest": told} for each, told in found]
        described = {"file": f"images/{self._addon.name}.tar", "sha256": digest, "images": listed}
        (into / "archive.json").write_text(json.dumps(described), encoding="utf-8")


def wanted(machine: Machine, rooms: Path, addon: Addon, into: Path | None) -> Wanted:
    """Return the addon's part for this machine's processor. A later one's recipe is in its digest, beside the files of addons.py."""
    part = addons.wanted(machine, rooms, addon, into)
    if addon.name in addons.ADDONS:
        return part
    digest = inputs.digest_of(f"{part.inputs} {addon}", [(path.name, path) for path in _objects(rooms, addon)])
    return part._replace(inputs=digest, folder=part.folder.with_name(part.folder.name.replace(part.inputs, digest)))


def _objects(rooms: Path, addon: Addon) -> list[Path]:
    path = rooms / addon.module.folder / OBJECTS
    return [path] if path.exists() else []
