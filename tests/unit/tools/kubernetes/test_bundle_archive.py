"""Archives of images: the same bytes for the same files, and readable by what reads them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bootstrap.failure import Failure
from bundle import archive, layer, packet_filter
from bundle.archive import Content
from bundle.layer import Entry


def programs(folder: Path) -> list[Content]:
    """Two images of one program each; the second may bind low ports and runs as no user."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "first").write_bytes(b"first" * 1000)
    (folder / "second").write_bytes(b"")
    first = (*layer.base(), layer.program("/usr/local/bin/first", folder / "first"))
    return [
        Content("example.test/first:v1", first, "/usr/local/bin/first"),
        Content("example.test/deep/second:2", (layer.program("/second", folder / "second", True),), "/second", "65532:65532"),
    ]


def written(folder: Path) -> tuple[Path, str, list[tuple[str, str]]]:
    """The archive of these images."""
    target = folder / "images.tar"
    return (target, *archive.write(target, programs(folder), "amd64", lambda name: None))


def unpacked(path: Path) -> dict[str, bytes]:
    """Every file of a tar, by its path."""
    with tarfile.open(path) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member))}


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    one, digest, _ = written(tmp_path / "one")
    (tmp_path / "other").mkdir(mode=0o700)
    programs(tmp_path / "other")
    os.utime(tmp_path / "other" / "first", (1, 1))
    (tmp_path / "other" / "first").chmod(0o600)
    other, _, _ = written(tmp_path / "other")
    assert one.read_bytes() == other.read_bytes()
    assert digest == hashlib.sha256(one.read_bytes()).hexdigest()


def test_every_digest_in_it_is_right_and_every_image_is_named(tmp_path: Path) -> None:
    path, _, images = written(tmp_path)
    files = unpacked(path)
    blobs = [name for name in files if name.startswith("blobs/sha256/")]
    assert len(blobs) == 6
    for name in blobs:
        assert hashlib.sha256(files[name]).hexdigest() == name.rpartition("/")[2]
    index = json.loads(files["index.json"])["manifests"]
    assert [(each["annotations"]["io.containerd.image.name"], each["digest"]) for each in index] == images
    assert [name for name, _ in images] == ["example.test/first:v1", "example.test/deep/second:2"]
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for each, docker in zip(index, json.loads(files["manifest.json"]), strict=True):
        manifest = blob(files, each)
        config = blob(files, manifest["config"])
        assert [docker["Config"], *docker["Layers"]] == [path_of(manifest["config"]), path_of(manifest["layers"][0])]
        assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
        assert (config["architecture"], config["os"]) == ("amd64", "linux")


def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> Any:
    """What a descriptor refers to, its size checked."""
    content = files[path_of(descriptor)]
    assert len(content) == descriptor["size"]
    return json.loads(content)


def path_of(descriptor: dict[str, Any]) -> str:
    """In the archive."""
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def layer_of(path: Path, number: int) -> tarfile.TarFile:
    """An image's layer."""
    files = unpacked(path)
    return tarfile.open(fileobj=io.BytesIO(files[json.loads(files["manifest.json"])[number]["Layers"][0]]))


def test_a_layer_holds_its_files_below_their_folders_and_nothing_of_this_machine(tmp_path: Path) -> None:
    with layer_of(written(tmp_path)[0], 0) as tar:
        members = tar.getmembers()
        assert [member.name for member in members] == sorted(member.name for member in members)
        assert [member.name for member in members if member.isdir()] == ["etc", "tmp", "usr", "usr/local", "usr/local/bin"]
        assert {(member.mtime, member.uid, member.gid, member.uname) for member in members} == {(0, 0, 0, "")}
        program = tar.getmember("usr/local/bin/first")
        assert program.mode == 0o755
        file = tar.extractfile(program)
        assert file
        assert file.read() == b"first" * 1000
        assert tar.getmember("tmp").mode == 0o1777


def test_only_what_binds_low_ports_carries_the_capability(tmp_path: Path) -> None:
    path = written(tmp_path)[0]
    with layer_of(path, 0) as tar:
        assert not any(member.pax_headers for member in tar)
    with layer_of(path, 1) as tar:
        # What `setcap cap_net_bind_service=+ep` leaves: version 2 and effective; bit 10 permitted; nothing inheritable.
        wanted = bytes.fromhex("0100000200040000000000000000000000000000").decode()
        assert tar.getmember("second").pax_headers == {"SCHILY.xattr.security.capability": wanted}


def packages(path: Path, names: tuple[str, ...]) -> Path:
    """What mmdebstrap leaves of packages with these files."""
    with tarfile.open(path, "w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(f"./{name}"))
        link = tarfile.TarInfo("./usr/sbin/iptables-nft")
        link.type, link.linkname = tarfile.SYMTYPE, "xtables-nft-multi"
        tar.addfile(link)
    return path


def test_the_packet_filters_tools_come_with_their_libraries_and_without_the_rest(tmp_path: Path) -> None:
    kept = ("usr/sbin/nft", "usr/sbin/xtables-nft-multi", "usr/lib/triplet/libc.so.6", "usr/lib64/ld-linux.so.2", "etc/protocols")
    left = ("usr/share/doc/nftables/copyright", "usr/lib/triplet/gconv/A.so", "usr/sbin/nfnl_osf", "var/lib/dpkg/status", "etc/fstab")
    entries = {entry.path: entry for entry in packet_filter.entries(packages(tmp_path / "root.tar", kept + left))}
    assert set(kept) <= set(entries)
    assert not set(left) & set(entries)
    for name in ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore", "iptables-nft"):
        assert entries[f"usr/sbin/{name}"] == Entry(f"usr/sbin/{name}", link="xtables-nft-multi")
    assert entries["lib64"].link == "usr/lib64"


def test_packages_without_the_tools_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"bring no usr/sbin/nft"):
        packet_filter.entries(packages(tmp_path / "root.tar", ("usr/sbin/xtables-nft-multi",)))
