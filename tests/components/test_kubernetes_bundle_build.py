"""The build of a Kubernetes bundle: stages, resume after an interruption, messages. Go, kubeadm and Debian are simulated."""

from __future__ import annotations

import fcntl
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hang import HANG_SECONDS

from bootstrap.failure import Failure
from bootstrap.machine import Machine
from bundle import found, front, inputs, names, recipe

ROOMS = Path(__file__).resolve().parents[2] / "tools" / "kubernetes"
LISTED = (
    *(f"example.test/{name}:v1.34.1" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")),
    *("example.test/coredns/coredns:v1.12.1", "example.test/pause:3.10.1", "example.test/etcd:3.6.4-0"),
)
VERSIONS = {"kubernetes": "v1.34.1", "etcd": "v3.6.4", "coredns": "v1.12.1"}
_GO = """
import os, pathlib, sys
if sys.argv[1] == "version":
    sys.exit(print("go version go1.26.8 linux/amd64"))
if sys.argv[1] == "env":
    sys.exit(print("go1.26.8"))
here = pathlib.Path(__file__).parent
module = pathlib.Path.cwd().name
with (here / "calls").open("a") as calls:
    calls.write(module + "\\n")
pathlib.Path(os.environ["GOTMPDIR"], "scratch").touch()
print(module + "/one\\n" + module + "/two", flush=True)
if (here / ("no-" + module)).exists():
    sys.exit("one.go:1: no such thing")
into = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
for package in sys.argv[sys.argv.index("-o") + 2:]:
    parts = package.split("/")
    program = into / (parts[-2] if parts[-1] == "v3" else parts[-1])
    program.write_text("#!/bin/sh\\ncat " + str(here / "listed") + "\\n")
    program.chmod(0o755)
"""
_MMDEBSTRAP = """
import sys, tarfile
with tarfile.open(sys.argv[5], "w") as tar:
    for name in ("./usr/sbin/nft", "./usr/sbin/xtables-nft-multi"):
        tar.addfile(tarfile.TarInfo(name))
print("I: done")
"""


class BuildMachine:
    """A machine whose Go, kubeadm and mmdebstrap are scripts, and folders with the real go.mod files."""

    def __init__(self, folder: Path) -> None:
        self.rooms, self.bin, self.into = folder / "rooms", folder / "bin", folder / "bundle"
        self.bin.mkdir()
        for module in recipe.MODULES:
            (self.rooms / module.folder).mkdir(parents=True)
            for name in ("go.mod", "go.sum"):
                shutil.copy(ROOMS / module.folder / name, self.rooms / module.folder / name)
        for program in recipe.OWN_PROGRAMS:
            (self.rooms / "kubernetes" / program).mkdir()
            (self.rooms / "kubernetes" / program / "main.go").write_text("package main\n")
        self.script("go", _GO)
        self.script("mmdebstrap", _MMDEBSTRAP)
        (self.bin / "listed").write_text("\n".join(LISTED) + "\n")
        self.machine = Machine("Linux", "x86_64", folder, {"PATH": str(self.bin), "HOME": str(folder)}, 1000)

    def script(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!{sys.executable}{text}")
        (self.bin / name).chmod(0o755)

    def provide(self) -> None:
        front.provide(self.machine, self.rooms, self.into, None, as_json=True)

    def calls(self) -> list[str]:
        """Return the modules that Go has built since the last call."""
        log = self.bin / "calls"
        told = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return told


@pytest.fixture
def played(tmp_path: Path) -> BuildMachine:
    return BuildMachine(tmp_path)


def events(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the events that a program reads from the lines."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_build_writes_bundle_with_contents(played: BuildMachine) -> None:
    played.provide()
    described = json.loads((played.into / "bundle.json").read_text())
    assert (described["schema"], described["kubernetes"]) == ("rackwright.kubernetes-bundle/1", "1.34.1")
    assert described["pause"] == "example.test/pause:3.10.1"
    own = [f"rackwright.local/{name}:{inputs.own_version(played.rooms, name)}" for name in ("gpu-device-plugin", "probe")]
    listed = {name: [image["name"] for image in each["images"]] for name, each in described["archives"].items()}
    assert sorted(listed["control-plane"] + listed["node"]) == sorted([*LISTED, *own])
    assert set(own) < set(listed["node"])
    assert sorted(path.name for path in (played.into / "bin").iterdir()) == sorted(described["binaries"]) == sorted(recipe.BINARIES)
    assert all((played.into / each["file"]).exists() for each in described["archives"].values())
    assert sorted(path.name for path in played.into.iterdir()) == ["bin", "bundle.json", "images"]
    assert not played.into.with_name("bundle.part").exists()


def test_finished_bundle_is_reused(played: BuildMachine, capsys: pytest.CaptureFixture[str]) -> None:
    played.provide()
    assert played.calls() == ["kubernetes"] * 4 + ["etcd", "coredns"]
    capsys.readouterr()
    played.provide()
    assert played.calls() == []
    assert events(capsys) == [{"bundle": str(played.into)}]


def test_builder_prints_stage_events(played: BuildMachine, capsys: pytest.CaptureFixture[str]) -> None:
    played.provide()
    told = events(capsys)
    assert told[-1] == {"bundle": str(played.into)}
    begun = [(event["stage"], event["of"], event["what"]) for event in told[:-1] if event["detail"] == "begun"]
    assert [stage for stage, _, _ in begun] == [1, 2, 3, 4, 5, 6, 7]
    assert begun[1] == (2, 7, "etcd 3.6.4")
    assert {"stage": 2, "of": 7, "what": "etcd 3.6.4", "detail": "1 of about 590 packages compiled"} in told
    assert [event["stage"] for event in told[:-1] if event["detail"].startswith("done in")] == [1, 2, 3, 4, 5, 6, 7]


def test_finished_stages_survive_failure(played: BuildMachine, capsys: pytest.CaptureFixture[str]) -> None:
    (played.bin / "no-coredns").touch()
    with pytest.raises(Failure, match=r"(?s)3/7 CoreDNS 1\.12\.1: .*one\.go:1: no such thing\nin .*coredns\..*run this again") as failed:
        played.provide()
    assert "Traceback" not in str(failed.value)
    assert not played.into.exists()
    assert events(capsys)[-1]["detail"].startswith("stopped after")
    assert not list(played.into.with_name("bundle.part").rglob("scratch"))
    (played.bin / "no-coredns").unlink()
    played.calls()
    played.provide()
    assert played.calls() == ["coredns"]
    kept = [event["what"] for event in events(capsys) if event.get("detail") == "cached"]
    assert kept == ["Kubernetes 1.34.1", "etcd 3.6.4"]


def test_build_of_other_sources_is_not_resumed(played: BuildMachine) -> None:
    (played.bin / "no-coredns").touch()
    with pytest.raises(Failure):
        played.provide()
    (played.bin / "no-coredns").unlink()
    played.calls()
    (played.rooms / "kubernetes" / "probe" / "main.go").write_text("package main // changed\n")
    played.provide()
    assert played.calls() == ["kubernetes"] * 4 + ["etcd", "coredns"]


def test_interrupted_last_step_is_completed(played: BuildMachine) -> None:
    played.provide()
    played.calls()
    played.into.rename(played.into.with_name("bundle.part"))
    played.provide()
    assert played.calls() == []
    assert (played.into / "bundle.json").exists()


def test_second_builder_waits_and_reuses_bundle(played: BuildMachine, capfd: pytest.CaptureFixture[str]) -> None:
    played.provide()
    played.calls()
    played.into.rename(played.into.with_name("elsewhere"))
    capfd.readouterr()
    said = ""
    with played.into.with_name("bundle.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=played.provide)
        second.start()
        end = time.monotonic() + HANG_SECONDS
        while "waiting" not in said and time.monotonic() < end:
            time.sleep(0.01)
            said += capfd.readouterr().out
        assert json.loads(said) == {"stage": 0, "of": 7, "what": "waiting", "detail": "for another build of this bundle"}
        assert second.is_alive()
        played.into.with_name("elsewhere").rename(played.into)
    second.join(HANG_SECONDS)
    assert not second.is_alive()
    assert json.loads(capfd.readouterr().out) == {"bundle": str(played.into)}
    assert played.calls() == []


def test_folder_with_other_files_is_kept(played: BuildMachine) -> None:
    played.into.mkdir()
    (played.into / "thesis.txt").touch()
    with pytest.raises(Failure, match=r"bundle: holds something else.*--into"):
        played.provide()
    assert played.calls() == []


def test_build_failure_prints_message_and_exits_2(
    played: BuildMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (played.bin / "mmdebstrap").unlink()
    monkeypatch.setattr(front, "ROOMS", played.rooms)
    monkeypatch.setattr(front.Machine, "this", lambda environ: played.machine)
    assert front.main(["--release", "1.34.1", "--into", str(played.into)]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("\nmmdebstrap is not installed")
    assert "==> 3/7 CoreDNS 1.12.1 done in" in told.out


@pytest.fixture
def another_list(played: BuildMachine) -> Iterator[list[str]]:
    """Yield the image list of the simulated kubeadm for changes; the build then refuses the list."""
    listed = list(LISTED)
    yield listed
    (played.bin / "listed").write_text("\n".join(listed))
    with pytest.raises(Failure, match=r"kubeadm and .*recipe\.py disagree"):
        played.provide()
    assert not played.into.exists()


def test_image_without_recipe_is_reported(another_list: list[str]) -> None:
    another_list.append("example.test/kube-oracle:v1.34.1")
    with pytest.raises(Failure, match=r"kube-oracle:v1\.34\.1: kubeadm asks for it, the recipe has no image kube-oracle"):
        names.matched(another_list, VERSIONS)


def test_image_unused_by_kubeadm_is_reported(another_list: list[str]) -> None:
    another_list.pop()
    with pytest.raises(Failure, match=r"etcd: the recipe has it, kubeadm does not ask for it"):
        names.matched(another_list, VERSIONS)


def test_image_version_mismatch_is_reported(another_list: list[str]) -> None:
    another_list[-1] = "example.test/etcd:3.6.5-0"
    with pytest.raises(Failure, match=r"etcd:3\.6\.5-0: kubeadm asks for it, tools/kubernetes/etcd/go\.mod builds v3\.6\.4"):
        names.matched(another_list, VERSIONS)


def test_digest_covers_every_source(played: BuildMachine) -> None:
    seen = [inputs.digest(played.rooms, "amd64"), inputs.digest(played.rooms, "arm64")]
    for path in ("etcd/go.mod", "coredns/go.sum", "kubernetes/pause/main.go", "kubernetes/probe/more.go"):
        with (played.rooms / path).open("a") as file:
            file.write("// changed\n")
        seen.append(inputs.digest(played.rooms, "amd64"))
    assert len(set(seen)) == 6
    (played.rooms / "README.md").write_text("words")
    assert inputs.digest(played.rooms, "amd64") == seen[-1]


def test_program_version_depends_on_own_sources(played: BuildMachine) -> None:
    before = {name: inputs.own_version(played.rooms, name) for name in recipe.OWN_PROGRAMS}
    (played.rooms / "kubernetes" / "probe" / "main.go").write_text("package main // changed\n")
    after = {name: inputs.own_version(played.rooms, name) for name in recipe.OWN_PROGRAMS}
    assert {name for name in before if before[name] != after[name]} == {"probe"}


def test_recipe_matches_go_modules() -> None:
    assert {module.folder: inputs.version(ROOMS, module) for module in recipe.MODULES} == VERSIONS
    for module in recipe.MODULES:
        tools = (ROOMS / module.folder / "go.mod").read_text()
        assert all(package in tools for package in module.programs.values()), module.folder
    assert all((Path(inputs.__file__).parent / name).exists() for name in inputs._DECIDING)
    there = {name for module in recipe.MODULES for name in module.programs} | set(recipe.OWN_PROGRAMS)
    assert {name for image in recipe.IMAGES for name in image.programs} | set(recipe.BINARIES) == there


def test_unsupported_processor_is_reported(played: BuildMachine) -> None:
    machine = Machine("Linux", "riscv64", played.bin, {}, 1000)
    with pytest.raises(Failure, match=r"riscv64: .* aarch64 and x86_64"):
        found.wanted(machine, played.rooms, None)
