"""A disk image as providers publish them: partitioned, with a boot loader of its own, and configured by cloud-init at its first boot.

Built from Debian packages: the vendors' images are not downloaded. The image has no host key, no address and no key of any user.
"""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    *("ca-certificates", "cloud-guest-utils", "cloud-init", "dbus", "initramfs-tools", "iproute2", "linux-image-cloud-amd64"),
    *("netplan.io", "openssh-server", "procps", "python3-apt", "sudo", "systemd-resolved", "systemd-sysv", "udev", "unattended-upgrades"),
)
"""Packages of Debian's own cloud images that rackwright meets; grub-pc-bin contains the boot loader."""
_BOOT_LOADER: Final = "grub-pc-bin"
_MODULES: Final = "biosdisk part_msdos ext2 normal linux configfile search search_label serial terminal test echo"
_SECTOR: Final = 512
_START: Final = 2**20
"""First byte of the partition: partitioning tools align to 1 MiB. The boot loader is in the gap before it."""
_CODE: Final = 440
"""Bytes of boot code in the first sector; the disk's signature and the partition table follow it (UEFI 2.10, section 5.2.1)."""
_GRUB: Final = """\
serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
search --label --set=root root
linux /boot/vmlinuz root=/dev/vda1 ro console=ttyS0
initrd /boot/initrd.img
boot
"""
_CERTIFICATES: Final = Path("/usr/local/share/ca-certificates")


def missing_requirements() -> str:
    """Return why the image cannot be built here, or an empty text."""
    tools = [tool for tool in ("qemu-system-x86_64", "qemu-img", "mmdebstrap", "mke2fs") if shutil.which(tool) is None]
    if tools:
        return f"not installed: {', '.join(tools)} (apt install qemu-system-x86 qemu-utils mmdebstrap e2fsprogs)"
    return "" if os.geteuid() == 0 else "only root can write other users' files into a disk image"


def build(folder: Path, *, packages: Iterable[str] = (), disabled: Iterable[str] = (), mib: int = 3000) -> Path:
    """Build the image in a folder and return its path (qcow2).

    packages: in addition to those of a cloud image; the emulator takes minutes for a package. disabled: services that these enable.
    mib: size of the partition, which cloud-init extends to the size of the machine's disk.
    """
    folder.mkdir(parents=True)
    root, raw, image = folder / "root", folder / "disk.raw", folder / "cloud.qcow2"
    _run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_names(packages)}", *_hooks(folder, disabled), "trixie", str(root))
    with raw.open("wb") as disk:
        disk.truncate(_START + mib * 2**20)
    # This machine's e2fsprogs may be newer than the GRUB in the image, which refuses features that it does not know.
    features = ("-O", "^metadata_csum_seed,^orphan_file", "-E", f"offset={_START}")
    _run("mke2fs", "-q", "-t", "ext4", "-L", "root", *features, "-d", str(root), str(raw), f"{mib}M")
    with raw.open("r+b") as disk:
        disk.write(_first_sector((folder / "boot.img").read_bytes(), mib * 2**20 // _SECTOR))
        disk.write((folder / "core.img").read_bytes())
    shutil.rmtree(root)
    _run("qemu-img", "convert", "-O", "qcow2", str(raw), str(image))
    raw.unlink()
    return image


def _first_sector(boot_code: bytes, sectors: int) -> bytes:
    """Return the boot code and a partition table with one bootable partition for Linux (type 83)."""
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", _START // _SECTOR, sectors)
    return boot_code[:_CODE] + b"rack\0\0" + entry + bytes(48) + b"\x55\xaa"


def _names(packages: Iterable[str]) -> str:
    return ",".join(sorted({*PACKAGES, _BOOT_LOADER, *packages}))


def _hooks(folder: Path, disabled: Iterable[str]) -> list[str]:
    within, place = 'chroot "$1"', shlex.quote(str(folder))
    core = f"grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /tmp/core.img {_MODULES}"
    certificates = [f'cp {one} "$1"/usr/local/share/ca-certificates/' for one in sorted(_CERTIFICATES.glob("*.crt"))]
    hooks = [
        f'{within} {core} && mv "$1"/tmp/core.img {place}/core.img && cp "$1"/usr/lib/grub/i386-pc/boot.img {place}/boot.img',
        f'mkdir -p "$1"/boot/grub && printf %s {shlex.quote(_GRUB)} > "$1"/boot/grub/grub.cfg',
        'ln -sf "$(cd "$1"/boot && ls vmlinuz-*)" "$1"/boot/vmlinuz && ln -sf "$(cd "$1"/boot && ls initrd.img-*)" "$1"/boot/initrd.img',
        'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname && : > "$1"/etc/machine-id',
        'echo "LABEL=root / ext4 rw,noatime,errors=remount-ro,x-systemd.growfs 0 1" > "$1"/etc/fstab',
        # As on Debian's own images: cloud-init writes /etc/hosts at every boot.
        'echo "manage_etc_hosts: true" > "$1"/etc/cloud/cloud.cfg.d/01_debian_cloud.cfg',
        f"{within} systemctl --quiet enable systemd-networkd systemd-resolved ssh",
        *certificates,
        f"{within} update-ca-certificates",
        *(f"{within} systemctl --quiet disable {name}" for name in disabled),
    ]
    return [f"--customize-hook={hook}" for hook in hooks]


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, stdin=subprocess.DEVNULL)
    assert not ended.returncode, f"{command[0]}:\n{ended.stdout[-1000:]}{ended.stderr[-2000:]}"
