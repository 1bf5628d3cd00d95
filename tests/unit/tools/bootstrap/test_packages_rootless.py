"""The program that connects rootless networks, by distribution."""

from __future__ import annotations

import pytest

from bootstrap import packages


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ("ID=debian\nVERSION_ID=12", "slirp4netns"),
        ("ID=debian\nVERSION_ID=13", "passt"),
        ("ID=debian\nVERSION_CODENAME=forky", "passt"),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=24.04", "slirp4netns"),
        ("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=25.04", "passt"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID=22', "slirp4netns"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"', "slirp4netns"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"', "passt"),
        ("ID=arch", "slirp4netns"),
    ],
)
def test_rootless_network_follows_the_podman_release(make_machine, release: str, package: str) -> None:
    assert packages.rootless_network(make_machine(release=release)).apt == package
