"""The command line of QEMU: what every machine has, and what must never be on it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from rackwright.drivers.vm.command_line import command_line, guest_memory
from rackwright.drivers.vm.machine_spec import Disk, Forward, Interface, MachineSpec

INTERFACE = Interface(name="eth0", mac="02:00:00:00:00:01", mtu=1500, peer="../../network/login0.eth0.sock")
SPEC = MachineSpec(
    stack="lab-vm",
    name="login0",
    id="5a3d2c6e-2f0e-4a52-8d0c-1f5b8f1f3a10",
    image="/cache/image",
    acceleration="tcg",
    cpus=2,
    memory_mib=1024,
    interfaces=(INTERFACE,),
    forwards=(Forward(listen="127.0.0.1", port=2237),),
    disks=(Disk(file="/state/a,b.raw", serial="rw-0123456789abcdef"),),
    credentials=("system.hostname",),
)


def values(option: str, spec: MachineSpec = SPEC) -> list[str]:
    """Return the values of an option."""
    line = command_line(spec, "max")
    return [value for name, value in pairwise(line) if name == option]


def test_kernel_is_booted_directly_from_the_image() -> None:
    assert values("-kernel") == ["/cache/image/vmlinuz"]
    assert values("-initrd") == ["/cache/image/initrd.img"]


@pytest.mark.parametrize(
    ("acceleration", "accelerator", "processor"), [("tcg", "tcg,thread=single,tb-size=128", "max"), ("kvm", "kvm", "host")]
)
def test_processor_follows_acceleration(acceleration: str, accelerator: str, processor: str) -> None:
    spec = MachineSpec(**{**SPEC.__dict__, "acceleration": acceleration})
    assert (values("-accel", spec), values("-cpu", spec)) == ([accelerator], [processor])


def test_console_shows_what_systemd_starts_on_a_quiet_kernel() -> None:
    [kernel] = values("-append")
    assert {"quiet", "systemd.show_status=yes", "console=ttyS0"} <= set(kernel.split())


def test_frames_travel_over_unix_sockets() -> None:
    card = json.loads(values("-netdev")[0])
    assert card["local"] == {"type": "unix", "path": "eth0.sock"}
    assert card["remote"] == {"type": "unix", "path": "../../network/login0.eth0.sock"}


def test_forwarded_port_reaches_nothing_else() -> None:
    assert values("-netdev")[1] == "user,id=forward,restrict=on,ipv6=off,net=192.0.2.0/24,hostfwd=tcp:127.0.0.1:2237-192.0.2.15:22"


def test_machine_without_published_port_has_no_forwarding() -> None:
    spec = MachineSpec(**{**SPEC.__dict__, "forwards": ()})
    assert not [value for value in values("-netdev", spec) if value.startswith("user")]


def test_disk_has_its_serial_number_and_a_path_with_a_comma() -> None:
    assert json.loads(values("-blockdev")[1])["file"]["filename"] == "/state/a,b.raw"
    assert "virtio-blk-pci,drive=disk0,serial=rw-0123456789abcdef" in values("-device")


CLOUD = MachineSpec(**{**SPEC.__dict__, "cloud_image": True, "credentials": ()})


def test_cloud_image_boots_from_its_disk() -> None:
    assert not {"-kernel", "-initrd", "-append"} & set(command_line(CLOUD, "max"))
    assert "virtio-blk-pci,drive=root,serial=root,bootindex=0" in values("-device", CLOUD)


def test_cloud_image_finds_its_identity_on_the_last_disk() -> None:
    seed = json.loads(values("-blockdev", CLOUD)[-1])
    assert (seed["driver"], seed["dir"], seed["label"], seed["read-only"]) == ("vvfat", "seed", "cidata", True)
    assert not [value for value in values("-smbios", CLOUD) if value.startswith("type=11")]


@pytest.mark.parametrize("forwards", [SPEC.forwards, ()])
def test_cloud_image_reaches_package_mirrors(forwards: tuple[Forward, ...]) -> None:
    spec = MachineSpec(**{**CLOUD.__dict__, "forwards": forwards})
    [network] = [value for value in values("-netdev", spec) if value.startswith("user")]
    assert "restrict=off" in network and ("hostfwd" in network) is bool(forwards)


def test_reboot_of_the_guest_does_not_end_the_machine() -> None:
    assert "-no-reboot" not in command_line(SPEC, "max")


def test_panic_pauses_the_machine() -> None:
    assert values("-action") == ["panic=pause"] and "pvpanic-pci" in values("-device")


def test_credentials_are_files() -> None:
    assert "type=11,path=credentials/system.hostname" in values("-smbios")


@pytest.mark.parametrize("declared", [512, 1024, 16384])
def test_guest_has_more_memory_than_declared(declared: int) -> None:
    assert declared + 64 <= guest_memory(declared) <= declared * 1.05 + 64
