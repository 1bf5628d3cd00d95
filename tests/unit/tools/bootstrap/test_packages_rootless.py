"""The programs of rootless networks and storage, by distribution."""

from __future__ import annotations

import pytest

from bootstrap import packages


@pytest.mark.parametrize(
    ("release", "names"),
    [
        ("ID=debian\nVERSION_ID=12", ["slirp4netns", "fuse-overlayfs"]),
        ("ID=debian\nVERSION_ID=13", ["passt"]),
        ("ID=debian\nVERSION_CODENAME=forky", ["passt"]),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=24.04", ["slirp4netns", "fuse-overlayfs"]),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=25.04", ["passt"]),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID=22', ["slirp4netns", "fuse-overlayfs"]),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"', ["slirp4netns", "fuse-overlayfs"]),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"', ["passt"]),
        ("ID=arch", ["slirp4netns", "fuse-overlayfs"]),
    ],
)
def test_rootless_programs_follow_the_podman_release(make_machine, release: str, names: list[str]) -> None:
    assert [need.apt for need in packages.rootless_programs(make_machine(release=release))] == names
