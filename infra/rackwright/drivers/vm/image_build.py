"""Build of a virtual machine's image: the node image's own files, and a kernel, as one file system without partitions.

The result is a folder with `vmlinuz`, `initrd.img`, `root.raw` (ext4, sparse) and `image.json`. QEMU loads the kernel itself, so that
there is no boot loader. Identity (host key, address, name) is not part of the image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from rackwright.drivers.cgroups import rootless
from rackwright.drivers.podman import STACK_LABEL, limits, podman
from rackwright.drivers.process import run
from rackwright.errors import RackwrightError

Say = Callable[[str], Awaitable[None]]
KERNEL, INITRD, ROOT, CONTENTS = "vmlinuz", "initrd.img", "root.raw", "image.json"
"""Files of an image. CONTENTS is written last: an image that has it is complete."""
_STACK: Final = ".machine-image"
"""Value of the label of build containers; no stack can have this name."""
PACKAGES: Final = ("e2fsprogs", "initramfs-tools", "kmod", "linux-image-amd64", "lz4", "nfs-kernel-server", "udev")
"""linux-image-cloud-amd64 is smaller and has neither rdma_rxe nor IPoIB."""
_MODULES: Final = ("virtio_pci", "virtio_blk", "virtio_net", "ext4", "qemu_fw_cfg", "dmi-sysfs", "pvpanic-pci")
"""Modules of the initial file system: those of the machine, instead of every driver of the distribution."""
_SIZE: Final = "16G"
"""Size of the root file system. The file is sparse: an image with Slurm takes about 1.5 GB."""
_MASKED: Final = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "systemd-networkd-wait-online.service",
)
_INSTALL: Final = f"""
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/initramfs-tools/conf.d
printf 'MODULES=list\\nCOMPRESS=lz4\\nRESUME=none\\n' > /etc/initramfs-tools/conf.d/rackwright
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get -q update
apt-get -q install --yes --no-install-recommends {" ".join(PACKAGES)}
printf '%s\\n' {" ".join(_MODULES)} > /etc/initramfs-tools/modules
update-initramfs -u -k all
rm -f /usr/sbin/policy-rc.d
apt-get clean
rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* /var/log/*.log /var/log/apt/*
: > /etc/machine-id
echo '/dev/vda / ext4 rw,noatime,errors=remount-ro,x-systemd.growfs 0 1' > /etc/fstab
sed -i -E 's/^(session[[:space:]]+)optional([[:space:]]+pam_loginuid\\.so)/\\1required\\2/' /etc/pam.d/*
systemctl enable --no-reload systemd-networkd.service
systemctl disable --no-reload nfs-server.service
systemctl mask --no-reload {" ".join(_MASKED)}
"""
"""A container's login ids are inherited, those of a machine are its own: PAM requires them again (ADR 25)."""
_EXPORT: Final = """
set -e
files=$(podman mount {container})
trap 'podman unmount {container} >/dev/null' EXIT
cp -L "$files/vmlinuz" {folder}/{kernel}
cp -L "$files/initrd.img" {folder}/{initrd}
chmod 600 {folder}/{kernel} {folder}/{initrd}
mke2fs -q -t ext4 -L root -d "$files" {folder}/{root} {size}
"""


def name(node_image: str) -> str:
    """Return the name of the image's folder, which follows from the node image and from the steps of this module."""
    steps = " ".join((node_image, *PACKAGES, _INSTALL, _EXPORT, _SIZE))
    return f"{node_image.rpartition('/')[2].replace(':', '-')}-{hashlib.sha256(steps.encode()).hexdigest()[:12]}"


def is_complete(folder: Path) -> bool:
    """Return whether the folder has a complete image."""
    return (folder / CONTENTS).is_file()


async def build(node_image: str, folder: Path, info: Say) -> None:
    """Build the image of a node image in a folder, which appears when it is complete."""
    started = time.monotonic()
    await info("machine image: installing a kernel")
    container, unfinished = f"rackwright-{name(node_image)}", folder.with_name(f".{folder.name}.{os.getpid()}")
    await podman("rm", "--force", "--time", "0", container)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    try:
        await _install(container, node_image)
        await info("machine image: writing the file system")
        await _export(container, unfinished)
        (unfinished / CONTENTS).write_text(json.dumps({"schema": "rackwright.machine-image/1", "node_image": node_image}) + "\n")
        if not is_complete(folder):
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
    finally:
        await podman("rm", "--force", "--time", "0", container, cleans_up=True)
        shutil.rmtree(unfinished, ignore_errors=True)
    await info(f"machine image: {folder.name} ready after {time.monotonic() - started:.0f} s")


async def _install(container: str, node_image: str) -> None:
    options = ("--name", container, "--label", f"{STACK_LABEL}={_STACK}", "--http-proxy=false", *limits())
    ended = await podman("run", *options, node_image, "/bin/sh", "-ec", _INSTALL, timeout=1800)
    if not ended.ok:
        lines = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-8:])
        raise RackwrightError(f"installing a kernel into {node_image} failed:\n{lines}", hint="the build needs a reachable Debian archive")


async def _export(container: str, folder: Path) -> None:
    """Write kernel, initial file system and root file system from the stopped container's files, with their owners as in the container."""
    values = {"kernel": KERNEL, "initrd": INITRD, "root": ROOT, "size": _SIZE, "container": container, "folder": shlex.quote(str(folder))}
    script = ["/bin/sh", "-c", _EXPORT.format(**values)]
    environment = {**os.environ, "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))}
    ended = await run(["podman", "unshare", *script] if rootless() else script, timeout=900, env=environment)
    if not ended.ok:
        lines = "\n".join(ended.stderr.strip().splitlines()[-6:])
        raise RackwrightError(f"writing the machine image failed:\n{lines}", hint="the build needs mke2fs (e2fsprogs) and 3 GB of disk")
