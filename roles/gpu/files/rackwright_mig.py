#!/usr/bin/python3
"""Create the MIG instances of the plan, and link their devices under names that do not change.

rackwright-mig apply [LAYOUT]   create what is missing; destroys the instances of a GPU that differs from the plan
rackwright-mig check [LAYOUT]    print what differs and exit with status 1; 0 without a difference

LAYOUT is a JSON list with a list for each GPU, in the order of the device files: its instances as
{"profile": …, "start": …}, in the order of their starts, none for a whole GPU.
Default: /etc/rackwright/mig.json. The driver loses instances at every boot, and gives each another number (NVIDIA MIG User Guide).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

LAYOUT = "/etc/rackwright/mig.json"
LINKS = "/run/rackwright/mig"
DRIVER = "/proc/driver/nvidia"
DEVICES = "/dev"
MONITORS = ("nvsm.service", "nvidia-dcgm.service")
"""Services that use the GPUs and keep MIG mode from being changed (NVIDIA MIG User Guide: Enable MIG Mode)."""
FIELDS = "index,pci.bus_id,mig.mode.current,mig.mode.pending"
MODES = {"Enabled": "Enabled", "Disabled": "Disabled", "[N/A]": "", "N/A": "", "[Not Supported]": ""}
"""Words for the mode (nvidia-smi(1), MIG Mode); empty where a GPU has no MIG: older and consumer cards, a virtual GPU."""
SECONDS = 120
"""For one call of nvidia-smi: a GPU is reset where its mode changes. Chosen."""

Place = tuple[str, int]
"""Profile, and the memory slice at which the instance begins."""


class MigError(Exception):
    """The instances cannot be read or created."""


class Instance(NamedTuple):
    """A GPU instance as the driver lists it."""

    gpu: int
    """Index of nvidia-smi."""
    profile: str
    start: int
    number: int


class Gpu(NamedTuple):
    """A GPU with its instances."""

    bus: str
    has_mig: bool
    enabled: bool
    pending: bool
    """Whether another mode waits for a reset."""
    instances: tuple[Instance, ...]
    whole: bool
    """Whether each instance has a compute instance of its whole size."""

    @property
    def ordered(self) -> list[Instance]:
        """Return the instances in the order of the plan."""
        return sorted(self.instances, key=lambda one: one.start)


def run(*command: str) -> str:
    """Return the output of a command; MigError where it fails."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MigError(f"{' '.join(command)}: {error}") from None
    if done.returncode:
        raise MigError(f"{' '.join(command)}: {' '.join(done.stdout.split()) or f'status {done.returncode}'}")
    return done.stdout


def read() -> list[Gpu]:
    """Return the GPUs in the order of their device files; MigError if a GPU is missing."""
    lines = [row.split(",") for row in run("nvidia-smi", "--query-gpu=" + FIELDS, "--format=csv,noheader").splitlines() if row.strip()]
    found, there = instances(listed("-lgi")), occupied(listed("-lci"))
    by_bus = {}
    for row in lines:
        cells = [cell.strip() for cell in row]
        if len(cells) != 4 or not cells[0].isdigit() or not set(cells[2:]) <= set(MODES):
            raise MigError(f"the MIG mode of a GPU cannot be read: {','.join(row)}")
        index, mode, pending = int(cells[0]), MODES[cells[2]], MODES[cells[3]]
        own = tuple(one for one in found if one.gpu == index)
        whole = sorted(number for gpu, number in there if gpu == index) == sorted(one.number for one in own)
        if not mode and (own or pending):
            raise MigError(f"the MIG mode of a GPU cannot be read, which has another one or instances: {','.join(row)}")
        by_bus[address(cells[1])] = Gpu(cells[1], bool(mode), mode == "Enabled", bool(pending) and mode != pending, own, whole)
    minors = device_files()
    if sorted(minors) != sorted(by_bus) or sorted(minors.values()) != list(range(len(minors))):
        raise MigError(f"nvidia-smi lists the GPUs {sorted(by_bus)}, the driver {sorted(minors)}")
    return [by_bus[bus] for bus in sorted(minors, key=lambda bus: minors[bus])]


def device_files() -> dict[str, int]:
    """Return the number of each GPU's device file, by its PCI address."""
    found, folder = {}, os.path.join(DRIVER, "gpus")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name, "information"), encoding="utf-8") as stream:
            minor = re.search(r"^Device Minor:\s+(\d+)\s*$", stream.read(), re.MULTILINE)
        if minor:
            found[address(name)] = int(minor[1])
    return found


def address(bus: str) -> str:
    """Return a PCI address in one spelling: nvidia-smi writes 00000000:4F:00.0, the kernel 0000:4f:00.0."""
    domain, _, rest = bus.lower().partition(":")
    return f"{int(domain, 16):x}:{rest}"


def listed(what: str) -> str:
    """Return a table of `nvidia-smi mig` of all GPUs; empty without instances, which nvidia-smi reports as an error."""
    try:
        text = run("nvidia-smi", "mig", what)
    except MigError as error:
        if re.search(r"No (GPU|compute) instances found: Not Found|No MIG-(enabled|supported) devices found", str(error)):
            return ""
        raise
    if not text.strip():
        raise MigError(f"nvidia-smi mig {what}: printed nothing")
    return text


def rows(text: str) -> list[str]:
    """Return the rows of a table of `nvidia-smi mig`; none for an empty text. MigError where a row may be missing.

    A line of `=` follows the titles, one of `-` each row. The GPU of a missing instance would be divided again.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith(("|", "+"))]
    shape = "".join("=" if re.fullmatch(r"\|=+\|", line) else "-" if re.fullmatch(r"\+-+\+", line) else "r" for line in lines)
    if text and not re.fullmatch(r"-?r*=(r+-)+", shape):
        raise MigError(f"the list of instances cannot be read: {' '.join(text.split())[:300]}")
    below = lines[shape.find("=") + 1 :]
    return [line for line in below if not re.fullmatch(r"\+-+\+", line)]


def instances(text: str) -> list[Instance]:
    """Return the rows `|   0  MIG 3g.40gb       9        1          4:4     |` of `nvidia-smi mig -lgi`."""
    found = [re.fullmatch(r"\|\s+(\d+)\s+MIG ([\w.+-]+)\s+\d+\s+(\d+)\s+(\d+):\d+\s*\|", row) for row in rows(text)]
    if None in found:
        raise MigError(f"the list of GPU instances cannot be read: {' '.join(text.split())[:300]}")
    return list(dict.fromkeys(Instance(int(one[1]), one[2], int(one[4]), int(one[3])) for one in found if one))


def compute_instances(text: str) -> list[tuple[int, int, str]]:
    """Return GPU, GPU instance and profile of the rows `|   0      1       MIG 3g.40gb    2    0    0:3 |` of `nvidia-smi mig -lci`."""
    found = [re.match(r"\|\s+(\d+)\s+(\d+)\s+MIG ([\w.+-]+)\s+\d+\s+\d+\s", row) for row in rows(text)]
    if None in found:
        raise MigError(f"the list of compute instances cannot be read: {' '.join(text.split())[:300]}")
    return [(int(one[1]), int(one[2]), one[3]) for one in found if one]


def occupied(text: str) -> list[tuple[int, int]]:
    """Return GPU and number of the instances with a compute instance of their whole size, from `nvidia-smi mig -lci`."""
    return [(gpu, number) for gpu, number, profile in compute_instances(text) if not re.match(r"\d+c\.", profile)]


def difference(gpu: Gpu, wanted: list[Place]) -> str:
    """Return what differs on a GPU, empty where nothing does. MigError where a GPU without MIG is to be divided."""
    if wanted and not gpu.has_mig:
        raise MigError(
            f"{gpu.bus}: the GPU has no MIG, and the plan divides it: remove `mig` from the group, or declare the model that it is"
        )
    if gpu.pending:
        return "MIG mode waits for a reset"
    if gpu.enabled != bool(wanted):
        return f"MIG is {'enabled' if gpu.enabled else 'disabled'}"
    if [(one.profile, one.start) for one in gpu.ordered] != wanted:
        return f"instances {', '.join(f'{one.profile} at {one.start}' for one in gpu.ordered) or 'none'}"
    return "" if gpu.whole else "instances without a compute instance of their size"


def divide(gpu: Gpu, wanted: list[Place]) -> None:
    """Create the instances of a GPU. Those that it has are destroyed; nvidia-smi refuses where a program uses one."""
    if gpu.instances:
        if any(number in [one.number for one in gpu.instances] for number in compute_owners(gpu)):
            run("nvidia-smi", "mig", "-i", gpu.bus, "-dci")
        run("nvidia-smi", "mig", "-i", gpu.bus, "-dgi")
    if gpu.enabled != bool(wanted):
        run("nvidia-smi", "-i", gpu.bus, "-mig", "1" if wanted else "0")
        now = next(one for one in read() if one.bus == gpu.bus)
        if now.pending or now.enabled != bool(wanted):
            raise MigError(f"{gpu.bus}: MIG mode changes with the next reset of the GPU: reboot the node")
    if wanted:
        run("nvidia-smi", "mig", "-i", gpu.bus, "-cgi", ",".join(f"{profile}:{start}" for profile, start in wanted), "-C")


def compute_owners(gpu: Gpu) -> list[int]:
    """Return the numbers of the GPU instances with any compute instance, also with one of a part of it."""
    return [number for index, number, _ in compute_instances(listed("-lci")) if index == gpu.instances[0].gpu]


def targets(gpus: list[Gpu]) -> dict[str, str]:
    """Return the device of each link: of GPU instance and compute instance, by GPU and place in the plan."""
    links = {}
    for minor, gpu in enumerate(gpus):
        for place, one in enumerate(gpu.ordered):
            folder = os.path.join(DRIVER, "capabilities", f"gpu{minor}", "mig", f"gi{one.number}")
            links[f"gpu-instance{minor}-{place}"] = capability(os.path.join(folder, "access"))
            links[f"compute-instance{minor}-{place}"] = capability(os.path.join(folder, "ci0", "access"))
    return links


def capability(file: str) -> str:
    """Return the device of a capability, from the line `DeviceFileMinor: 21` of its file."""
    try:
        with open(file, encoding="utf-8") as stream:
            minor = re.search(r"^DeviceFileMinor:\s*(\d+)\s*$", stream.read(), re.MULTILINE)
    except OSError as error:
        raise MigError(str(error)) from None
    if minor is None:
        raise MigError(f"{file}: names no device")
    device = os.path.join(DEVICES, "nvidia-caps", f"nvidia-cap{minor[1]}")
    if not os.path.exists(device):  # nvidia-modprobe(1): -f
        run("nvidia-modprobe", "-f", file)
    return device


def differences(layout: list[list[Place]]) -> list[str]:
    """Return what differs from the plan, links included."""
    gpus = counted(layout)
    found = [f"GPU {minor}: {words}" for minor, gpu in enumerate(gpus) if (words := difference(gpu, layout[minor]))]
    if not found and targets(gpus) != linked():
        found.append(f"{LINKS}: the links to the devices of the instances")
    return found


def counted(layout: list[list[Place]]) -> list[Gpu]:
    """Return the GPUs; MigError where they are not as many as planned."""
    found = read()
    if len(found) != len(layout):
        raise MigError(f"the node has {len(found)} GPUs, planned are {len(layout)}")
    return found


def linked() -> dict[str, str]:
    """Return the links that are there."""
    return {name: os.readlink(os.path.join(LINKS, name)) for name in os.listdir(LINKS)} if os.path.isdir(LINKS) else {}


def apply(layout: list[list[Place]]) -> None:
    """Bring the GPUs to the plan. Monitors stop while the mode of a GPU changes."""
    different = [(gpu, wanted) for gpu, wanted in zip(counted(layout), layout) if difference(gpu, wanted)]  # noqa: B905 - Python 3.9
    changing = any(gpu.enabled != bool(wanted) for gpu, wanted in different)
    stopped = [unit for unit in MONITORS if changing and subprocess.run(["systemctl", "is-active", "--quiet", unit]).returncode == 0]
    try:
        for unit in stopped:
            run("systemctl", "stop", unit)
        for gpu, wanted in different:
            divide(gpu, wanted)
    finally:
        for unit in stopped:
            run("systemctl", "start", unit)
    links = targets(read())
    os.makedirs(LINKS, exist_ok=True)
    for name in linked():
        os.unlink(os.path.join(LINKS, name))
    for name, device in links.items():
        os.symlink(device, os.path.join(LINKS, name))


def main(words: list[str]) -> int:
    """Run one of the two verbs; status 3 where the state cannot be read or brought about."""
    if len(words) not in (1, 2) or words[0] not in ("apply", "check"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        if len(words) == 2:
            said = words[1]
        else:
            with open(LAYOUT, encoding="utf-8") as stream:
                said = stream.read()
        layout = [[(str(one["profile"]), int(one["start"])) for one in gpu] for gpu in json.loads(said)]
        if words[0] == "apply":
            apply(layout)
        wrong = differences(layout)
    except (MigError, OSError) as error:
        print(error, file=sys.stderr)
        return 3
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
