"""Devices that nodes and Podman open."""

from __future__ import annotations

from bootstrap.machine import Machine
from bootstrap.machine_checks.finding import Finding, Level, ok
from bootstrap.machine_checks.observation import open_device

_FUSE = ("/dev/fuse", "fuse", "nodes mount the shared file system with it")
_TUN = ("/dev/net/tun", "tun", "rootless Podman gives containers their network with it (slirp4netns, pasta)")


def check_devices(machine: Machine) -> list[Finding]:
    """Open each device that this user's containers need; root's containers need no /dev/net/tun for their network."""
    needed = (_FUSE,) if machine.is_root else (_FUSE, _TUN)
    return [judge_device(*device, open_device(machine, device[0])) for device in needed]


def judge_device(path: str, module: str, reason: str, error: str) -> Finding:
    """Judge the name of the error from opening the device; empty for none."""
    if not error:
        return ok(path, "opens for reading and writing")
    expected = f"expected read and write, found {error}"
    if error == "EPERM":
        then = f"A control group or a security module refuses it; a container gets it with --device {path}."
        return Finding(Level.ERROR, path, f"refused ({expected})", reason, then=then)
    if error == "EACCES":
        then = f'A restart undoes it; this udev rule keeps it: KERNEL=="{module}", MODE="0666"'
        return Finding(Level.ERROR, path, f"not accessible by this user ({expected})", reason, (f"sudo chmod 666 {path}",), then)
    found = "no such file" if error == "ENOENT" else error
    return Finding(
        Level.ERROR, path, f"missing or without its driver (expected a device, found {found})", reason, (f"sudo modprobe {module}",)
    )
