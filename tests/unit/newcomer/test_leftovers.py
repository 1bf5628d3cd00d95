"""What counts as left over, and which commands an administrator is asked for."""

from __future__ import annotations

import pytest

from newcomer.leftovers import administrator_block, listing_script, parse_leftovers

HARMLESS = """\
process ada                              systemd         /usr/lib/systemd/systemd --user
process ada                              catatonit       /usr/bin/catatonit -P
process root                             conmon          /usr/bin/conmon --api-version 1
process ada                              bash            bash -lc pgrep conmon
process ada                              empty
secret rackwright.other.worker0
storage /var/lib/containers/storage/volumes/backingFsBlockDev
"""
LEFT = [
    "container lab-worker0",
    "volume lab-storage0-data",
    "network lab",
    "secret rackwright.lab.worker0.host-key",
    "storage /home/ada/.local/share/containers/storage/volumes/lab-storage0-data",
    "process ada                              conmon          /usr/bin/conmon --api-version 1",
    "process ada                              exe             rootlessport",
    "process ada                              pasta.avx2      /usr/bin/pasta --config-net",
    "process ada                              slirp4netns     /usr/bin/slirp4netns --mtu=65520",
    "process ada                              aardvark-dns    /usr/lib/podman/aardvark-dns --config /run/user/1000",
]
OUTPUT = """\
System packages are missing.
  warning  linger: disabled for guest (expected enabled)
             sudo loginctl enable-linger guest

guest cannot use sudo here. Ask an administrator of this machine to run these commands, then run make again:

sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y podman
sudo loginctl enable-linger guest
"""


def test_machine_without_stack_has_no_leftovers() -> None:
    assert parse_leftovers(HARMLESS, stack="lab", user="ada") == []


@pytest.mark.parametrize("line", LEFT, ids=lambda line: line.split()[-2] if line.startswith("process") else line.split()[0])
def test_each_kind_of_leftover_is_named(line: str) -> None:
    assert parse_leftovers(HARMLESS + line + "\n", stack="lab", user="ada") == [line]


def test_rootless_storage_is_listed_in_user_namespace() -> None:
    assert "podman unshare find" in listing_script("lab", root=False)
    assert "unshare" not in listing_script("lab", root=True)


@pytest.mark.parametrize("end", ["", "make: *** [Makefile:29: ready] Error 2\n", "\nThen log in again.\n"])
def test_administrator_block_ends_with_its_commands(end: str) -> None:
    assert administrator_block(OUTPUT + end) == [
        "sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y podman",
        "sudo loginctl enable-linger guest",
    ]


def test_output_without_request_has_no_block() -> None:
    assert administrator_block("Run these commands, then run make again:\n\nsudo true\n") == []
