"""Stack files that the program refuses before its first resource. `validate` accepts an unfinished file; `up` does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from rackwright.drivers.vm import cloud_image
from rackwright.inventory import paths
from rackwright.stackfile.load import CONFIG_KEY
from rackwright.targets import program
from rackwright.targets.lab import host_requirements
from rackwright.targets.vm import host_requirements as vm_requirements
from rackwright.yaml_loader import load_yaml


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the committed stack aws-budget, with its user's own network; the program reads a file in a folder of the test's."""
    data: dict[str, Any] = load_yaml(paths.stack_file("aws-budget").read_text())["config"][CONFIG_KEY]
    data["access"] = {"allowed_cidrs": ["11.22.33.0/24"]}
    monkeypatch.setattr(paths, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")
    return data


def load(data: dict[str, Any]) -> Any:
    """Return the plan of a stack file with this content."""
    paths.stack_file("aws-budget").write_text(yaml.safe_dump({"config": {CONFIG_KEY: data}}, sort_keys=False))
    return program.load(data, "aws-budget").plan


def test_unpinned_image_is_refused(described: dict[str, Any]) -> None:
    """One message: path, cause, and the command that writes the id."""
    with pytest.raises(pulumi.RunError) as refused:
        load(described)
    assert "1 finding(s)" in str(refused.value)
    assert "target.image.id: is missing" in str(refused.value)
    assert "run `rackwright pin-images aws-budget` to write the id" in str(refused.value)


def test_example_network_is_refused(described: dict[str, Any]) -> None:
    """The refusal precedes instances that are paid for and unreachable."""
    described["target"]["image"]["id"] = "ami-0123456789abcdef0"
    described["access"] = {"allowed_cidrs": ["198.51.100.0/24"]}
    with pytest.raises(pulumi.RunError, match=r"access\.allowed_cidrs: 198\.51\.100\.0/24 is a documentation range"):
        load(described)


def test_complete_stack_file_becomes_plan(described: dict[str, Any]) -> None:
    """The image is pinned, and access is allowed."""
    described["target"]["image"]["id"] = "ami-0123456789abcdef0"
    assert [node.name for node in load(described).nodes] == ["login0", "worker0", "worker1"]


def test_several_controllers_become_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their shared address; root's Podman runs them."""
    monkeypatch.setattr(host_requirements, "rootless", lambda: False)
    data: dict[str, Any] = load_yaml(paths.stack_file("lab-k8s").read_text())["config"][CONFIG_KEY]
    data["groups"]["login"]["count"] = 3
    data["scheduler"] |= {"control_plane_vip": "10.80.0.5"}
    monkeypatch.setattr(paths, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")
    paths.stack_file("lab-k8s").write_text(yaml.safe_dump({"config": {CONFIG_KEY: data}}, sort_keys=False))
    assert len(program.load(data, "lab-k8s").plan.scheduler.controllers) == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("cni", ["calico", "cilium"])
def test_unpinned_network_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cni: str) -> None:
    """Its nodes would never be ready."""
    data: dict[str, Any] = load_yaml(paths.stack_file("lab-k8s").read_text())["config"][CONFIG_KEY]
    data["scheduler"]["cni"] = cni
    monkeypatch.setattr(paths, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")
    paths.stack_file("lab-k8s").write_text(yaml.safe_dump({"config": {CONFIG_KEY: data}}, sort_keys=False))
    with pytest.raises(pulumi.RunError, match=rf"scheduler\.cni_manifests: {cni} \S+ is installed from files whose digests are unknown"):
        program.load(data, "lab-k8s")


def test_flannel_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed lab with flannel, with root's Podman."""
    monkeypatch.setattr(host_requirements, "rootless", lambda: False)
    data: dict[str, Any] = load_yaml(paths.stack_file("lab-k8s-flannel").read_text())["config"][CONFIG_KEY]
    assert program.load(data, "lab-k8s-flannel").plan.scheduler.cni == "flannel"  # type: ignore[union-attr]


def test_unusable_cloud_image_is_refused_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first resource, and without Podman, which builds no image then."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vm_requirements, "_found", lambda program: program not in ("podman", "mke2fs"))
    monkeypatch.setattr(vm_requirements, "qemu_version", lambda: "QEMU emulator version 10.0.2")
    data: dict[str, Any] = load_yaml(paths.stack_file("lab-vm-small").read_text())["config"][CONFIG_KEY]
    monkeypatch.setattr(paths, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")

    def load_changed() -> Any:
        paths.stack_file("lab-vm-small").write_text(yaml.safe_dump({"config": {CONFIG_KEY: data}}, sort_keys=False))
        return program.load(data, "lab-vm-small")

    data["target"]["cloud_image"] = {"file": str(tmp_path / "noble.img"), "digest": "sha256:" + 64 * "a"}
    with pytest.raises(pulumi.RunError, match=r"target\.cloud_image: .*noble\.img: cannot be read: No such file or directory"):
        load_changed()
    (tmp_path / "noble.img").write_bytes(b"<html>404 Not Found</html>")
    with pytest.raises(pulumi.RunError, match="has the digest sha256:"):
        load_changed()
    mistyped = "sha256:" + 63 * "a" + "b"
    cached = tmp_path / "cache" / "rackwright" / "machine-images" / cloud_image.name(data["target"]["cloud_image"]["digest"])
    cached.mkdir(parents=True)
    (cached / cloud_image.CONTENTS).touch()
    assert load_changed().plan.nodes, "an image in the cache was accepted before"
    data["target"]["cloud_image"]["digest"] = mistyped
    with pytest.raises(pulumi.RunError, match=f"{mistyped} is declared"):
        load_changed()
    del data["target"]["cloud_image"]
    with pytest.raises(pulumi.RunError, match="mke2fs, podman not installed"):
        load_changed()


class TestRootlessLab:
    """A lab without privileges is refused before its first resource where its containers could not run."""

    @pytest.fixture(autouse=True)
    def user(self, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
        """Run as an ordinary user on a machine with cgroup v2."""
        monkeypatch.setattr(host_requirements, "rootless", lambda: True)
        monkeypatch.setattr(host_requirements.cgroups, "is_cgroup_v2", lambda: True)
        return monkeypatch

    def plan(self, stack: str) -> Any:
        """Load a committed stack."""
        described = load_yaml(paths.stack_file(stack).read_text())["config"][CONFIG_KEY]
        return program.load(described, stack).plan

    def test_slurm_lab_is_accepted(self) -> None:
        assert self.plan("lab").nodes

    def test_kubernetes_lab_names_the_command_for_root(self) -> None:
        with pytest.raises(pulumi.RunError, match=r"scheduler\.kind: a kubelet .*\n  run `sudo make up STACK=lab-k8s`"):
            self.plan("lab-k8s")

    def test_cgroup_v1_is_refused_with_the_kernel_parameter(self, user: pytest.MonkeyPatch) -> None:
        user.setattr(host_requirements.cgroups, "is_cgroup_v2", lambda: False)
        with pytest.raises(pulumi.RunError, match=r"needs cgroup v2 alone(.|\n)*systemd\.unified_cgroup_hierarchy=1"):
            self.plan("lab")

    def test_root_runs_both(self, user: pytest.MonkeyPatch) -> None:
        user.setattr(host_requirements, "rootless", lambda: False)
        user.setattr(host_requirements.cgroups, "is_cgroup_v2", lambda: False)
        assert self.plan("lab").nodes and self.plan("lab-k8s").nodes
