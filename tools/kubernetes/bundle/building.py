"""From sources to a bundle, stage by stage; what is finished outlives an interruption."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable

from bootstrap import go_build
from bootstrap.go_build import Toolchain
from bootstrap.machine import Machine
from bootstrap.stage import Stage
from bundle import archive, compiling, images, inputs, names, packet_filter, recipe
from bundle.found import LABEL, SCHEMA, Wanted, is_there
from bundle.progress import Progress

Job = Callable[[Path, Stage], None]


def build(wanted: Wanted, progress: Progress, run: Callable[[], None]) -> None:
    """What is wanted is at its place when this returns, built by `run` or by a process that this one waited for."""
    wanted.folder.parent.mkdir(parents=True, exist_ok=True)
    with wanted.folder.with_name(wanted.folder.name + ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_there(wanted):
            run()
            progress.end()


class Building:
    """One build, in the folder that becomes the bundle when all of it is there."""

    def __init__(
        self, machine: Machine, rooms: Path, wanted: Wanted, mirror: str | None, progress: Progress, modules: Path | None = None
    ) -> None:
        """`modules`: folder of the modules of the release; default: `rooms`, which has those of the default release."""
        self._machine, self._rooms, self._wanted, self._mirror, self._progress = machine, rooms, wanted, mirror, progress
        self._modules = modules or rooms
        self._part = wanted.folder.with_name(wanted.folder.name + ".part")
        self._work = self._part / "work"
        self._versions = {module.folder: inputs.version(self._modules, module) for module in recipe.MODULES}
        self._stage = 0
        self._chain: Toolchain | None = None

    def run(self) -> None:
        """All stages, then the one rename."""
        if not (self._part / LABEL).exists():
            self._begin()
            for module in recipe.MODULES:
                self._once(f"{module.title} {self._versions[module.folder].lstrip('v')}", module.folder, self._compile(module))
            self._once(f"nft and iptables of Debian {packet_filter.SUITE}", "packet-filter", self._fetch_filters)
            self._once("names of the images, as kubeadm gives them", "names", self._ask_names)
            for name in recipe.ARCHIVES:
                self._once(f"images of {'a node' if name == 'node' else 'a control plane'}", f"images-{name}", self._write(name))
            self._describe()
        shutil.rmtree(self._work, ignore_errors=True)
        self._part.rename(self._wanted.folder)

    def _begin(self) -> None:
        """Leftovers of a build from other sources are of no use."""
        mark = self._work / "inputs"
        if not mark.exists() or mark.read_text(encoding="utf-8") != self._wanted.inputs:
            shutil.rmtree(self._part, ignore_errors=True)
            self._work.mkdir(parents=True)
            mark.write_text(self._wanted.inputs, encoding="utf-8")

    def _once(self, what: str, name: str, job: Job) -> None:
        """A stage leaves a folder; it has its name only when the stage is done."""
        self._stage += 1
        done, fresh = self._work / name, self._work / f"{name}.fresh"
        if done.exists():
            return self._progress.kept(self._stage, what)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        with self._progress.stage(self._stage, what) as stage:
            job(fresh, stage)
        fresh.rename(done)
        return None

    def _compile(self, module: recipe.Module) -> Job:
        def job(into: Path, stage: Stage) -> None:
            folders = [base / each.folder for base in sorted({self._rooms, self._modules}) for each in recipe.MODULES]
            self._chain = self._chain or go_build.toolchain(self._machine, folders, self._work / "go", stage)
            if module is recipe.KUBERNETES:
                compiling.own(self._chain, self._rooms, into, stage)
            compiling.module(self._chain, self._modules, module, into, stage)
            (into / "go-version").write_text(compiling.go_version(self._chain), encoding="utf-8")

        return job

    def _fetch_filters(self, into: Path, stage: Stage) -> None:
        packet_filter.fetch(self._machine, into / "root.tar", self._mirror, stage)

    def _ask_names(self, into: Path, stage: Stage) -> None:
        told = names.listed(self._programs()["kubeadm"], self._versions["kubernetes"])
        where = "/".join(("tools/kubernetes", *self._modules.relative_to(self._rooms).parts))
        called = images.names(self._rooms, names.matched(told, self._versions, where))
        (into / "names.json").write_text(json.dumps(called), encoding="utf-8")

    def _write(self, name: str) -> Job:
        def job(into: Path, stage: Stage) -> None:
            filters = self._work / "packet-filter" / "root.tar"
            contents = images.contents(name, self._names(), self._programs(), filters)
            digest, found = archive.write(into / f"{name}.tar", contents, self._wanted.processor, stage.note)
            listed = [{"name": each, "digest": image} for each, image in found]
            described = {"file": f"images/{name}.tar", "sha256": digest, "images": listed}
            (into / "archive.json").write_text(json.dumps(described), encoding="utf-8")

        return job

    def _describe(self) -> None:
        """Brings everything to its place; bundle.json comes last and says that it is."""
        for folder in ("bin", "images"):
            (self._part / folder).mkdir(exist_ok=True)
        archives: dict[str, Any] = {}
        for name in recipe.ARCHIVES:
            link(self._work / f"images-{name}" / f"{name}.tar", self._part / "images" / f"{name}.tar")
            archives[name] = json.loads((self._work / f"images-{name}" / "archive.json").read_text(encoding="utf-8"))
        for name in recipe.BINARIES:
            link(self._programs()[name], self._part / "bin" / name)
        described = {
            "schema": SCHEMA,
            "inputs": self._wanted.inputs,
            "kubernetes": self._versions["kubernetes"].lstrip("v"),
            "processor": self._wanted.processor,
            "go": (self._work / recipe.KUBERNETES.folder / "go-version").read_text(encoding="utf-8"),
            "binaries": {name: _sha256(self._part / "bin" / name) for name in recipe.BINARIES},
            "archives": archives,
            "pause": self._names()["pause"],
            "modules": {module.main: self._versions[module.folder] for module in recipe.MODULES},
        }
        fresh = self._part / f"{LABEL}.fresh"
        fresh.write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
        fresh.rename(self._part / LABEL)

    def _programs(self) -> dict[str, Path]:
        found = {name: self._work / module.folder / name for module in recipe.MODULES for name in module.programs}
        return {**found, **{name: self._work / recipe.KUBERNETES.folder / name for name in recipe.OWN_PROGRAMS}}

    def _names(self) -> dict[str, str]:
        called: dict[str, str] = json.loads((self._work / "names" / "names.json").read_text(encoding="utf-8"))
        return called


def link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    os.link(source, target)


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()
