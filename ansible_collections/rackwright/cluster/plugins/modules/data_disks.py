"""Format the empty data disks of a node; refuse disks with anything but the expected file system.

Data is never overwritten: a disk counts as empty only if no tool finds a signature.
Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import os
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.block_device import DiskError, call, hides, is_block_device, signatures
from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks

DOCUMENTATION = r"""
module: data_disks
short_description: Format empty data disks of a node
options:
  disks:
    description: Disks and their mount points.
    type: list
    elements: dict
    required: true
    suboptions:
      device: {type: path, required: true, description: "Block device, preferably by a persistent name such as C(/dev/disk/by-id/…)."}
      mount: {type: path, required: true, description: "Mount point without files; a new file system gets its empty directories."}
  keep_files:
    description:
      - Whether files at a mount point are those of the node's image. A new file system then starts with a copy of them, and a disk with
        data is mounted over them. Otherwise such files are refused.
    type: bool
    default: false
  timeout: {type: int, default: 60, description: "Timeout for a device to appear, in seconds."}
notes:
  - C(community.general.filesystem) formats a disk with another signature if C(force) is set, and does not wait for a device that a
    cloud attaches late. This module formats empty disks only.
"""

EXAMPLES = r"""
- name: Format the data disk of the storage server
  rackwright.cluster.data_disks:
    disks:
      - device: /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0
        mount: /srv/storage
"""

RETURN = r"""
formatted: {description: "Devices that were, or in check mode would be, given an ext4 file system.", returned: always, type: list}
"""

DISK = {"device": {"type": "path", "required": True}, "mount": {"type": "path", "required": True}}
ARGUMENTS = {
    "disks": {"type": "list", "elements": "dict", "required": True, "options": DISK},
    "keep_files": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 60},
}
FILE_SYSTEM = "ext4"


class Disks:
    """Manage the disks of one task, and record the changes."""

    def __init__(self, check: bool, timeout: int, *, keep_files: bool) -> None:
        self.check = check
        self.keep_files = keep_files
        self.until = time.monotonic() + timeout
        self.timeout = timeout
        self.formatted: list[str] = []

    def apply(self, disks: list[dict[str, str]]) -> None:
        """Format the empty disks. All disks are inspected before the first is written to."""
        blank = [disk for disk in disks if self.is_blank(disk)]
        for disk in blank:
            self.formatted.append(disk["device"])
            if not self.check:
                self.format(disk["device"], disk["mount"])

    def is_blank(self, disk: dict[str, str]) -> bool:
        """Return whether the disk needs a file system. Raise DiskError if it has other content, or if mounting would hide files."""
        device, mount = disk["device"], disk["mount"]
        self.await_device(device)
        found = signatures(device)
        if found not in ([], [FILE_SYSTEM]):
            raise DiskError(
                f"{device}: disk of {mount}, expected empty or {FILE_SYSTEM}, found {', '.join(found)} - nothing was written; "
                f"if that data is not needed, run `wipefs --all {device}` on the node, then apply again"
            )
        if hides(mount) and not self.keep_files:
            raise DiskError(
                f"{mount}: contains files that mounting the disk {device} would hide - nothing was mounted; "
                "stop the processes that use them, move the files away, then apply again"
            )
        return not found

    def await_device(self, device: str) -> None:
        """Wait for the device: the disk is attached after its node has started, and udev creates its name with a delay."""
        for _ in ticks(self.until):
            if is_block_device(device):
                return
        there = "not a block device" if os.path.exists(device) else f"device not found after {self.timeout} s"
        raise DiskError(f"{device}: {there} - check that the disk is attached to this node and run `lsblk` there")

    def format(self, device: str, mount: str) -> None:
        """Format the disk, with the content of its mount point. Without -F, mkfs refuses a disk that is in use."""
        kept = ("-d", mount) if os.path.isdir(mount) and not os.path.ismount(mount) and os.listdir(mount) else ()
        call("mkfs.ext4", "-q", *kept, device)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    disks = Disks(bool(module.check_mode), module.params["timeout"], keep_files=module.params["keep_files"])
    result: dict[str, Any] = {}
    try:
        disks.apply(module.params["disks"])
    except DiskError as error:
        module.fail_json(msg=str(error), changed=bool(disks.formatted), formatted=disks.formatted)
    result.update(changed=bool(disks.formatted), formatted=disks.formatted)
    if module._diff and disks.formatted:
        result["diff"] = {"prepared": "".join(f"{device}: {FILE_SYSTEM}\n" for device in disks.formatted)}
    module.exit_json(**result)


if __name__ == "__main__":
    main()
