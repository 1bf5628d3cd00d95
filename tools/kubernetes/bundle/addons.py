"""What a stack may ask for besides: an addon is a part of its own, with an image and the objects that it is installed by."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bootstrap import go_build
from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bootstrap.stage import Stage
from bundle import archive, compiling, inputs, layer, recipe
from bundle.building import Building, link
from bundle.found import LABEL, SCHEMA, Wanted
from bundle.progress import Progress

STAGES = 3
MANIFESTS = "manifests.yaml"
_FOLDER = "addons"
_DECIDING = ("addons.py", "archive.py", "compiling.py", "layer.py")
_NOBODY = "65532:65532"


class Addon(NamedTuple):
    """A wrapper module under `addons`, and where in the module that it wraps the objects are described."""

    module: recipe.Module
    program: str
    """The file in its image, as the objects name it."""
    described: str
    """A folder of the module; `kustomization.yaml` beside go.mod sees it as `upstream`."""

    @property
    def name(self) -> str:
        """As a stack file says it."""
        return self.module.folder.partition("/")[2]


def _addon(name: str, title: str, package: str, main: str, variable: str, program: str, described: str, packages: int) -> Addon:
    variables = (variable + "={version}",)
    module = recipe.Module(f"{_FOLDER}/{name}", title, main, {name: package}, "grpcnotrace", variables, packages)
    return Addon(module, program, described)


_KUEUE = "sigs.k8s.io/kueue"
_JOBSET = "sigs.k8s.io/jobset"
_METRICS = "sigs.k8s.io/metrics-server"
_TRAINER = "github.com/kubeflow/trainer/v2"
ADDONS: dict[str, Addon] = {
    one.name: one
    for one in (
        _addon("kueue", "Kueue", f"{_KUEUE}/cmd/kueue", _KUEUE, f"{_KUEUE}/pkg/version.GitVersion", "/manager", "config", 970),
        _addon(
            "trainer",
            "Kubeflow Trainer",
            f"{_TRAINER}/cmd/trainer-controller-manager",
            _TRAINER,
            "k8s.io/client-go/pkg/version.gitVersion",
            "/manager",
            "manifests",
            770,
        ),
        _addon("jobset", "JobSet", _JOBSET, _JOBSET, f"{_JOBSET}/pkg/version.GitVersion", "/manager", "config", 770),
        _addon(
            "metrics-server",
            "metrics-server",
            f"{_METRICS}/cmd/metrics-server",
            _METRICS,
            "k8s.io/client-go/pkg/version.gitVersion",
            "/metrics-server",
            "manifests",
            900,
        ),
    )
}


def wanted(machine: Machine, rooms: Path, addon: Addon, into: Path | None) -> Wanted:
    """The part of these sources for this machine's processor."""
    processor = inputs.processor(machine)
    here = Path(__file__).resolve().parent
    files = [(path.name, path) for path in sources(rooms, addon)] + [(name, here / name) for name in _DECIDING]
    digest = inputs.digest_of(f"{addon.name} {processor} {inputs.version(rooms, recipe.KUBERNETES)}", files)
    name = f"kubernetes-addon-{addon.name}-{inputs.version(rooms, addon.module).lstrip('v')}-{digest}"
    return Wanted(into.absolute() if into else machine.cache() / name, digest, processor)


def sources(rooms: Path, addon: Addon) -> list[Path]:
    """What of the checkout is its own."""
    folder = rooms / addon.module.folder
    return [folder / name for name in ("go.mod", "go.sum", "kustomization.yaml")]


def image(rooms: Path, addon: Addon) -> str:
    """The full name of its image: its release, and the digest of what is ours of it."""
    digest = inputs.digest_of(addon.name, [(path.name, path) for path in sources(rooms, addon)])
    return f"{recipe.OWN_REPOSITORY}/{addon.name}:{inputs.version(rooms, addon.module).lstrip('v')}-{digest}"


class AddonBuilding(Building):
    """One build of a part. `kubectl`: a finished bundle's, which renders the objects."""

    def __init__(self, machine: Machine, rooms: Path, part: tuple[Addon, Wanted], kubectl: Path, progress: Progress) -> None:
        self._addon, wanted = part
        super().__init__(machine, rooms, wanted, None, progress)
        self._kubectl = kubectl

    def run(self) -> None:
        """All stages, then the one rename."""
        if not (self._part / LABEL).exists():
            self._begin()
            title = f"{self._addon.module.title} {inputs.version(self._rooms, self._addon.module).lstrip('v')}"
            self._once(title, "program", self._compile_addon)
            self._once(f"objects of {title}, from its own module", "objects", self._render)
            self._once(f"image of {title}", "image", self._archive)
            self._describe()
        shutil.rmtree(self._work, ignore_errors=True)
        self._part.rename(self._wanted.folder)

    def _toolchain(self, stage: Stage) -> go_build.Toolchain:
        self._chain = self._chain or go_build.toolchain(self._machine, [self._home], self._work / "go", stage)
        return self._chain

    @property
    def _home(self) -> Path:
        return self._rooms / self._addon.module.folder

    def _compile_addon(self, into: Path, stage: Stage) -> None:
        compiling.module(self._toolchain(stage), self._rooms, self._addon.module, into, stage)

    def _render(self, into: Path, stage: Stage) -> None:
        chain = self._toolchain(stage)
        told = _said([chain.go, "list", "-m", "-f", "{{.Dir}}", self._addon.module.main], self._home, chain.environ)
        _copy(Path(told.strip(), self._addon.described), into / "upstream")
        ours = (self._home / "kustomization.yaml").read_text(encoding="utf-8")
        (into / "kustomization.yaml").write_text(ours.replace("{image}", image(self._rooms, self._addon)), encoding="utf-8")
        rendered = _said([str(self._kubectl), "kustomize", str(into)], into, {**self._machine.environ})
        (into / MANIFESTS).write_text(rendered, encoding="utf-8")

    def _archive(self, into: Path, stage: Stage) -> None:
        program = layer.Entry(self._addon.program.lstrip("/"), self._work / "program" / self._addon.name, 0o755)
        content = archive.Content(image(self._rooms, self._addon), (*layer.base(), program), self._addon.program, _NOBODY)
        digest, found = archive.write(into / "image.tar", [content], self._wanted.processor, stage.note)
        listed = [{"name": each, "digest": told} for each, told in found]
        described = {"file": f"images/{self._addon.name}.tar", "sha256": digest, "images": listed}
        (into / "archive.json").write_text(json.dumps(described), encoding="utf-8")

    def _describe(self) -> None:
        """Brings everything to its place; the list of what is in it comes last."""
        (self._part / "images").mkdir(exist_ok=True)
        link(self._work / "image" / "image.tar", self._part / "images" / f"{self._addon.name}.tar")
        link(self._work / "objects" / MANIFESTS, self._part / MANIFESTS)
        described: dict[str, Any] = {
            "schema": SCHEMA,
            "inputs": self._wanted.inputs,
            "addon": self._addon.name,
            "version": inputs.version(self._rooms, self._addon.module).lstrip("v"),
            "processor": self._wanted.processor,
            "archives": {self._addon.name: json.loads((self._work / "image" / "archive.json").read_text(encoding="utf-8"))},
        }
        fresh = self._part / f"{LABEL}.fresh"
        fresh.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
        fresh.rename(self._part / LABEL)


def _copy(source: Path, target: Path) -> None:
    """A folder without its modes: Go's cache is read-only, and what is copied must be removable."""
    for path in sorted(source.rglob("*.yaml")):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)


def _said(command: list[str], cwd: Path, environ: Mapping[str, str]) -> str:
    told = subprocess.run(command, cwd=cwd, env=dict(environ), capture_output=True, text=True, timeout=300, check=False)
    if told.returncode:
        raise Failure(f"`{' '.join(command)}` failed with exit code {told.returncode} in {cwd}\n{told.stderr.strip()}")
    return told.stdout
