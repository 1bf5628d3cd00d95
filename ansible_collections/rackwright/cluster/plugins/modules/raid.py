"""Assemble disks of a node into one device with a file system, or create the array from empty disks if that is allowed.

Data is never overwritten: if one disk has any signature, no disk is changed.
Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.block_device import (
    DiskError,
    arrays_of,
    call,
    hides,
    is_block_device,
    signatures,
)

DOCUMENTATION = r"""
module: raid
short_description: Assemble disks of a node into one device with a file system
options:
  name: {description: Name of the array; its device is C(/dev/md/<name>)., type: str, required: true}
  devices: {description: Disks of the array., type: list, elements: path, required: true}
  level: {description: RAID level; 0 stripes and 1 mirrors. A single disk with 0 needs no array., type: int, choices: [0, 1], default: 0}
  file_system: {description: File system of a new array., choices: [ext4, xfs], default: ext4}
  mount: {description: Mount point; it must not contain files., type: path, required: true}
  format_empty_disks: {description: Whether empty disks may be formatted; other disks are never changed., type: bool, default: false}
notes:
  - C(community.general.filesystem) and C(ansible.posix.mount) cover the file system. No module creates an array and refuses disks
    that are not empty.
"""

EXAMPLES = r"""
- name: Stripe the instance store of a GPU node
  rackwright.cluster.raid:
    name: scratch
    devices: [/dev/disk/by-id/nvme-eui.0001, /dev/disk/by-id/nvme-eui.0002]
    level: 0
    file_system: xfs
    mount: /scratch
    format_empty_disks: true
"""

RETURN = r"""
device: {description: The device to mount., returned: always, type: str}
changes: {description: "What was, or in check mode would be, done, in words.", returned: always, type: list}
"""

ARGUMENTS = {
    "name": {"type": "str", "required": True},
    "devices": {"type": "list", "elements": "path", "required": True},
    "level": {"type": "int", "choices": [0, 1], "default": 0},
    "file_system": {"type": "str", "choices": ["ext4", "xfs"], "default": "ext4"},
    "mount": {"type": "path", "required": True},
    "format_empty_disks": {"type": "bool", "default": False},
}
MEMBER = "linux_raid_member"
HOME_HOST = "any"
"""Host in the array's name with which any machine assembles it under its own name: mdadm(8), --homehost."""
MAKE = {"ext4": ("mkfs.ext4", "-q"), "xfs": ("mkfs.xfs", "-q")}
"""Without a force option: both refuse a device that is in use, and xfs one that holds anything."""


class Array:
    """Manage the disks of one task, and record the changes."""

    def __init__(self, wanted: dict[str, Any], check: bool) -> None:
        self.wanted = wanted
        self.check = check
        self.changes: list[str] = []

    @property
    def joined(self) -> bool:
        """Return whether there is an array; a single disk is used without one."""
        return len(self.wanted["devices"]) > 1 or bool(self.wanted["level"])

    @property
    def device(self) -> str:
        """Return the device to mount."""
        return f"/dev/md/{self.wanted['name']}" if self.joined else str(self.wanted["devices"][0])

    def apply(self) -> None:
        """Create or assemble the array, and format it. All disks are inspected before the first is written to."""
        if self.joined and not is_block_device(self.device):
            self.assemble_or_make()
            if self.check:
                return
        found = signatures(self.device)
        if not found:
            self.give_file_system()
        elif found != [self.wanted["file_system"]]:
            raise DiskError(
                f"{self.device}: expected empty or {self.wanted['file_system']}, found {', '.join(found)} - nothing was written"
            )

    def assemble_or_make(self) -> None:
        """Assemble the existing array, or create one."""
        held = {device: self.content(device) for device in self.wanted["devices"]}
        if all(kinds == [MEMBER] for kinds in held.values()) and (hosts := self.home_hosts()):
            self.stop_running()
            # An array of another host name gets another device at each boot: md127, or /dev/md/HOST:NAME (mdadm(8), --homehost).
            renamed = [] if hosts == {HOME_HOST} else [f"--homehost={HOME_HOST}", "--update=homehost"]
            self.do("assemble", ("mdadm", "--assemble", self.device, *renamed, *self.wanted["devices"]))
            return
        for device, kinds in held.items():
            if kinds:
                raise DiskError(
                    f"{device}: expected an empty disk, found {', '.join(kinds)} - nothing was written to any disk; "
                    f"if that data is not needed, run `wipefs --all {device}` on the node, then apply again"
                )
        self.refuse_unasked()
        words = ("mdadm", "--create", self.device, "--run", "--metadata=1.2", f"--homehost={HOME_HOST}", f"--name={self.wanted['name']}")
        shape = (f"--level={self.wanted['level']}", f"--raid-devices={len(held)}")
        self.do("create", (*words, *shape, *self.wanted["devices"]))

    def content(self, device: str) -> list[str]:
        """Return the signatures of a disk. Raise DiskError if it is missing."""
        if not is_block_device(device):
            there = "not a block device" if os.path.exists(device) else "device not found"
            raise DiskError(f"{device}: {there} - run `lsblk` on this node and correct `scratch.devices`")
        return signatures(device)

    def home_hosts(self) -> set[str]:
        """Return the hosts in the array's name; none unless all disks are members of one array of this name."""
        told = [call("mdadm", "--examine", "--export", device) for device in self.wanted["devices"]]
        names = [name_of(output) for output in told]
        if len({uuid_of(output) for output in told}) != 1 or any(name[-1:] != [self.wanted["name"]] for name in names):
            return set()
        return {name[0] if len(name) > 1 else "" for name in names}

    def stop_running(self) -> None:
        """Stop the array that udev assembled under another device. mdadm refuses if it is in use."""
        running = {array for device in self.wanted["devices"] for array in arrays_of(device)}
        for array in sorted(running):
            self.changes.append(f"stop {array}")
            if not self.check:
                call("mdadm", "--stop", array)

    def give_file_system(self) -> None:
        """Format an empty device."""
        if not self.joined:
            self.content(self.device)
        self.refuse_unasked()
        if hides(self.wanted["mount"]):
            raise DiskError(
                f"{self.wanted['mount']}: contains files that mounting {self.device} would hide - move the files away, then apply again"
            )
        self.do(f"create {self.wanted['file_system']} on", (*MAKE[self.wanted["file_system"]], self.device))

    def refuse_unasked(self) -> None:
        """Raise DiskError unless empty disks may be formatted."""
        if not self.wanted["format_empty_disks"]:
            raise DiskError(
                f"{', '.join(self.wanted['devices'])}: empty, and the stack file does not permit formatting - "
                "set `format_empty_disks: true`"
            )

    def do(self, what: str, command: tuple[str, ...]) -> None:
        """Record a change, and apply it outside check mode."""
        self.changes.append(f"{what} {self.device}")
        if not self.check:
            call(*command)


def name_of(output: str) -> list[str]:
    """Return host and name of an array, or the name alone, from the output of `mdadm --examine --export`.

    >>> name_of("MD_LEVEL=raid0\\nMD_NAME=any:scratch")
    ['any', 'scratch']
    """
    return next((line.partition("=")[2].split(":") for line in output.splitlines() if line.startswith("MD_NAME=")), [])


def uuid_of(output: str) -> str:
    """Return the UUID of an array from the output of `mdadm --examine --export`; empty if there is none."""
    return next((line.partition("=")[2] for line in output.splitlines() if line.startswith("MD_UUID=")), "")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    array = Array(module.params, bool(module.check_mode))
    try:
        array.apply()
    except DiskError as error:
        module.fail_json(msg=str(error), changed=bool(array.changes) and not array.check, device=array.device, changes=array.changes)
    result: dict[str, Any] = {"changed": bool(array.changes), "device": array.device, "changes": array.changes}
    if module._diff and array.changes:
        result["diff"] = {"prepared": "".join(f"{change}\n" for change in array.changes)}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
