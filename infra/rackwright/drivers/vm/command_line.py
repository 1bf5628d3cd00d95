"""The command line of QEMU for a machine. Pure. It contains no secret: credentials are files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rackwright.drivers.vm import cloud_init
from rackwright.drivers.vm.image_build import INITRD, KERNEL
from rackwright.drivers.vm.machine_spec import Interface, MachineSpec

BINARY: Final = "qemu-system-x86_64"
OVERLAY: Final = "disk.qcow2"
CONSOLE: Final = "console.log"
QMP: Final = "qmp.sock"
CREDENTIALS: Final = "credentials"
FORWARD_NETWORK: Final = "192.0.2.0/24"
FORWARD_ADDRESS: Final = "192.0.2.15/24"
"""Network of forwarded connections, and the machine's address in it. Documentation addresses (RFC 5737) are no cluster's."""
FORWARD_MAC: Final = "02:00:c0:00:02:0f"
FORWARD_GATEWAY: Final = "192.0.2.2"
FORWARD_RESOLVER: Final = "192.0.2.3"
"""QEMU's own addresses in that network: the second and the third (QEMU documentation: -netdev user, `net`)."""
_TRANSLATION_CACHE: Final = 128
"""MiB of translated code. QEMU's default is 1 GiB, and the process grows to it."""
_TRANSLATION_THREADS: Final = "single"
"""One thread for all emulated processors of a machine. With one for each, a processor ran code that another had replaced: kernels that
change their code (jump labels, modules) panicked within minutes of a loaded machine (Oops: int3; QEMU 7.2 and 10.0).
tests/e2e/vm/test_single_machine.py changes the kernel's code under load.
"""
_KERNEL: Final = "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet systemd.show_status=yes mitigations=off audit=0 panic=10"
"""Emulated processors have no speculation to mitigate; interfaces are named in the order of the command line. systemd prints what it
starts, which names the unit that a boot hangs in; `quiet` alone would hide it.

A kernel that panics before it loads the driver of `pvpanic` reboots after 10 s, where it would stand still without a sign to QEMU.
A later panic pauses the machine before that.
"""
_SANDBOX: Final = "on,obsolete=deny,elevateprivileges=deny,spawn=deny"


def command_line(spec: MachineSpec, emulated: str) -> list[str]:
    """Return the command that runs a machine, with the machine's folder as working directory.

    emulated: model of an emulated processor (`emulated_processor`).
    """
    return [
        BINARY,
        *("-name", f"guest={_escaped(spec.stack)}-{_escaped(spec.name)}"),
        *("-no-user-config", "-nodefaults", "-display", "none", "-sandbox", _SANDBOX),
        *("-machine", "q35", *_processor(spec, emulated), "-smp", str(spec.cpus), "-m", f"{guest_memory(spec.memory_mib)}M"),
        *_kernel(spec),
        *("-smbios", f"type=1,manufacturer=rackwright,product=vm,uuid={spec.id},serial={_escaped(spec.stack)}-{_escaped(spec.name)}"),
        *(word for name in spec.credentials for word in ("-smbios", f"type=11,path={CREDENTIALS}/{name}")),
        *_disks(spec),
        *(word for interface in spec.interfaces for word in _interface(interface)),
        *_user_network(spec),
        *("-chardev", f"file,id=console,path={CONSOLE}", "-serial", "chardev:console"),
        *("-qmp", f"unix:{QMP},server=on,wait=off"),
        *("-device", "virtio-rng-pci", "-device", "pvpanic-pci", "-action", "panic=pause", "-rtc", "base=utc"),
    ]


def guest_memory(declared_mib: int) -> int:
    """Return the MiB with which a guest reports the declared memory: its kernel keeps about 50 MiB, and 1/64 for page structures."""
    return declared_mib + 64 + declared_mib // 32


def _processor(spec: MachineSpec, emulated: str) -> list[str]:
    if spec.acceleration == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", f"tcg,thread={_TRANSLATION_THREADS},tb-size={_TRANSLATION_CACHE}", "-cpu", emulated]


def _kernel(spec: MachineSpec) -> list[str]:
    """Return the kernel of the image; a cloud image has a boot loader."""
    if spec.cloud_image:
        return []
    image = Path(spec.image)
    return ["-kernel", str(image / KERNEL), "-initrd", str(image / INITRD), "-append", f"{_KERNEL} {spec.kernel_options}".strip()]


def _disks(spec: MachineSpec) -> Iterator[str]:
    yield from ("-blockdev", _json(**{"node-name": "root", "driver": "qcow2", "discard": "unmap"}, file=_file(OVERLAY)))
    yield from ("-device", f"virtio-blk-pci,drive=root,serial=root{',bootindex=0' if spec.cloud_image else ''}")
    for place, disk in enumerate(spec.disks):
        yield from ("-blockdev", _json(**{"node-name": f"disk{place}", "driver": "raw", "discard": "unmap"}, file=_file(disk.file)))
        yield from ("-device", f"virtio-blk-pci,drive=disk{place},serial={disk.serial}")
    if spec.cloud_image:
        seed = {"node-name": "seed", "driver": "vvfat", "dir": cloud_init.SEED, "label": cloud_init.LABEL, "read-only": True}
        yield from ("-blockdev", _json(**seed), "-device", "virtio-blk-pci,drive=seed,serial=seed")


def _file(name: str) -> dict[str, Any]:
    return {"driver": "file", "filename": name}


def _interface(interface: Interface) -> Iterator[str]:
    """Yield a card whose frames are datagrams to the switch (QEMU 7.2)."""
    local, remote = {"type": "unix", "path": f"{interface.name}.sock"}, {"type": "unix", "path": interface.peer}
    yield from ("-netdev", _json(type="dgram", id=interface.name, local=local, remote=remote))
    yield from ("-device", f"virtio-net-pci,id={interface.name}-card,netdev={interface.name},mac={interface.mac},host_mtu={interface.mtu}")


def _user_network(spec: MachineSpec) -> Iterator[str]:
    """Yield a card for forwarded ports, and for the way of a cloud image to package mirrors.

    `restrict` keeps every other guest from this machine and from other networks.
    """
    if spec.forwards or spec.cloud_image:
        rules = [f"hostfwd=tcp:{one.listen}:{one.port}-{FORWARD_ADDRESS.partition('/')[0]}:22" for one in spec.forwards]
        restrict = "off" if spec.cloud_image else "on"
        yield from ("-netdev", ",".join(("user,id=forward", f"restrict={restrict}", "ipv6=off", f"net={FORWARD_NETWORK}", *rules)))
        yield from ("-device", f"virtio-net-pci,netdev=forward,mac={FORWARD_MAC}")


def _json(**properties: Any) -> str:
    return json.dumps(properties)


def _escaped(text: str) -> str:
    return text.replace(",", ",,")
