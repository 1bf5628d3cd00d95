"""rackwright.cluster.raid, on files in place of disks: wipefs and mkfs are the real ones, mdadm's array is a file of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.rackwright.cluster.plugins.module_utils import block_device as block
from ansible_collections.rackwright.cluster.plugins.modules import raid as array

SIZE = 16 * 2**20


def empty(path: Path) -> str:
    """Return an empty disk."""
    with path.open("wb") as stream:
        stream.truncate(SIZE)
    return str(path)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[str]]:
    """Return two empty disks, and mdadm's calls; a created array is one more file."""
    asked: list[str] = []
    made = tmp_path / "md"

    def call(*command: str) -> str:
        if command[0] != "mdadm":
            return block.call(*command)
        asked.append(" ".join(command).replace(str(tmp_path), ""))
        if "--create" in command or "--assemble" in command:
            empty(made)
        return "MD_NAME=any:scratch\n"

    monkeypatch.setattr(array, "call", call)
    monkeypatch.setattr(array, "is_block_device", lambda device: Path(device).is_file())
    monkeypatch.setattr(array.Array, "device", property(lambda self: str(made) if self.joined else self.wanted["devices"][0]))
    disks = [empty(tmp_path / "disk0"), empty(tmp_path / "disk1")]
    return {"name": "scratch", "devices": disks, "mount": str(tmp_path / "scratch"), "format_empty_disks": True}, asked


def test_empty_disks_become_one_formatted_array_once(run: Any, node: Any) -> None:
    wanted, asked = node
    first = run(array, wanted)
    assert (first["failed"], len(first["changes"])) == (False, 2), first
    create = "mdadm --create /md --run --metadata=1.2 --homehost=any --name=scratch --level=0 --raid-devices=2 /disk0 /disk1"
    assert asked == [create]
    assert block.signatures(first["device"]) == ["ext4"]
    assert run(array, wanted)["changed"] is False
    assert run(array, wanted, check=True)["changed"] is False


def test_check_mode_writes_nothing(run: Any, node: Any) -> None:
    wanted, asked = node
    assert run(array, wanted, check=True)["changed"]
    assert asked == []


def test_disks_are_not_formatted_without_permission(run: Any, node: Any) -> None:
    wanted, asked = node
    for devices in (wanted["devices"], wanted["devices"][:1]):
        told = run(array, {**wanted, "devices": devices, "format_empty_disks": False})
        assert told["failed"] and "format_empty_disks: true" in told["msg"]
    assert asked == []


@pytest.mark.parametrize("tool", [("mkswap",), ("mkfs.ext4", "-q")], ids=["swap", "a file system"])
def test_one_disk_with_data_protects_all(run: Any, node: Any, tool: tuple[str, ...]) -> None:
    wanted, asked = node
    subprocess.run([*tool, wanted["devices"][1]], check=True, capture_output=True)
    told = run(array, wanted)
    assert told["failed"] and "nothing was written to any disk" in told["msg"] and wanted["devices"][1] in told["msg"]
    assert asked == [] and block.signatures(wanted["devices"][0]) == []


def test_foreign_array_is_refused_and_own_array_assembled(run: Any, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, asked = node
    real = array.signatures
    monkeypatch.setattr(array, "signatures", lambda device: ["linux_raid_member"] if "disk" in device else real(device))
    told = run(array, {**wanted, "name": "other"})
    assert told["failed"] and "expected an empty disk, found linux_raid_member" in told["msg"]
    assert not [words for words in asked if "--create" in words]
    assert "mdadm --assemble /md /disk0 /disk1" not in asked
    run(array, wanted)
    assert "mdadm --assemble /md /disk0 /disk1" in asked


@pytest.mark.parametrize(
    ("name", "update"),
    [
        ("any:scratch", ""),
        ("oldhost:scratch", "--homehost=any --update=homehost "),
        ("scratch", "--homehost=any --update=homehost "),
        ("scratch:data", None),
    ],
)
def test_running_array_of_another_host_is_assembled_under_its_name(
    run: Any, node: Any, monkeypatch: pytest.MonkeyPatch, name: str, update: str | None
) -> None:
    wanted, asked = node
    real, own = array.signatures, array.call
    monkeypatch.setattr(array, "signatures", lambda device: ["linux_raid_member"] if "disk" in device else real(device))
    monkeypatch.setattr(array, "arrays_of", lambda device: ["/dev/md127"])
    monkeypatch.setattr(array, "call", lambda *words: f"MD_UUID=4f\nMD_NAME={name}\n" if "--examine" in words else own(*words))
    told = run(array, wanted)
    if update is None:
        assert told["failed"] and "expected an empty disk" in told["msg"] and asked == []
    else:
        assert asked == ["mdadm --stop /dev/md127", f"mdadm --assemble /md {update}/disk0 /disk1"]
        assert told["changes"][0] == "stop /dev/md127"


def test_disks_of_two_arrays_are_not_joined(run: Any, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, asked = node
    monkeypatch.setattr(array, "signatures", lambda device: ["linux_raid_member"])
    monkeypatch.setattr(array, "call", lambda *words: f"MD_UUID={words[-1][-1]}\nMD_NAME=any:scratch\n")
    assert "expected an empty disk" in run(array, wanted)["msg"] and asked == []


@pytest.mark.parametrize(
    ("tool", "package"), [("mdadm", "mdadm"), ("mkfs.xfs", "xfsprogs"), ("mkfs.ext4", "e2fsprogs"), ("wipefs", "util-linux")]
)
def test_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: str, package: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(block.DiskError, match=f"{tool}: command not found - install the package {package} on this node"):
        block.call(tool, "/dev/null")


def test_running_arrays_are_found_by_any_name_of_a_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(block, "BLOCKS", str(tmp_path))
    for holder in ("md127", "dm-3"):
        (tmp_path / "nvme1n1/holders" / holder).mkdir(parents=True)
    (tmp_path / "nvme-eui.0001").symlink_to("nvme1n1")
    assert block.arrays_of(str(tmp_path / "nvme-eui.0001")) == ["/dev/md127"]
    assert block.arrays_of("/dev/no-such-disk") == []


def test_single_disk_is_used_without_array(run: Any, node: Any) -> None:
    wanted, asked = node
    told = run(array, {**wanted, "devices": wanted["devices"][:1]})
    assert (told["device"], asked) == (wanted["devices"][0], [])
    assert block.signatures(told["device"]) == ["ext4"]


def test_missing_disk_and_hidden_files_are_errors(run: Any, node: Any) -> None:
    wanted, asked = node
    assert "device not found" in run(array, {**wanted, "devices": [*wanted["devices"], "/dev/nowhere"]})["msg"]
    Path(wanted["mount"]).mkdir()
    (Path(wanted["mount"]) / "file").touch()
    assert "would hide" in run(array, {**wanted, "devices": wanted["devices"][:1]})["msg"]
    assert asked == []
