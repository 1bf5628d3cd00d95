"""What keeps a node's package manager busy: a first boot that has not ended, or a process that holds a lock of apt or dpkg.

A separate module, so that the waiting is on the control machine, which says what it waits for. Standard library only, Python 3.9 or newer
on the node.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import struct
import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: busy_facts
short_description: What keeps the package manager of a node busy
description:
  - Returns cloud-init as long as the first boot has not ended, and the process that holds a lock of apt or dpkg.
  - The states are those that C(cloud-init status) prints. Its exit codes are not used, because 23.4 made 2 of 0 for warnings, and
    distributions took that back.
options: {}
notes:
  - C(ansible.builtin.apt) waits for locks by itself, for 60 s and without saying so.
"""

EXAMPLES = r"""
- name: Query what a first boot still does
  rackwright.cluster.busy_facts: {}
"""

RETURN = r"""
busy: {description: "Empty, or what is waited for, such as C(cloud-init) or C(unattended-upgr).", returned: always, type: str}
detail: {description: "Stage or data source of cloud-init, or process and lock.", returned: always, type: str}
hint: {description: Where to look if it does not end., returned: always, type: str}
package_lists: {description: Whether apt has package lists; a node image may have none., returned: always, type: bool}
"""

PACKAGE_LISTS = "/var/lib/apt/lists/*_Packages*"
"""Package lists as `apt-get update` writes them, also compressed (apt.conf(5), Acquire::GzipIndexes)."""
RESULT = "/run/cloud-init/result.json"
LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")
"""Write locks of fcntl(2), in the order in which apt takes them."""
FLOCK = "hhqqi4x"
"""struct flock on 64-bit Linux: l_type, l_whence, l_start, l_len, l_pid."""
RUNNING = ("running", "degraded running", "error - running")
"""States of a cloud-init that has not ended: `status`, or `extended_status` since 23.4."""
NOT_STARTED = ("not run", "not started", "error - not started")
"""`not run` until 24.1. cloud-init that was installed after the boot stays in it."""
BOOTING = ("initializing", "starting")
"""systemctl(1), is-system-running: until the last job of the boot has ended, of which cloud-final.service is one."""
BOOTED = ("running", "degraded")
"""cloud-init before 23.4 stays `running` for ever if its last stage fails."""


def first_boot(result: str = RESULT) -> str:
    """Return what cloud-init still does; empty if it has ended, is disabled or is not installed."""
    program = shutil.which("cloud-init")
    if os.path.exists(result) or program is None:
        return ""
    fields = parse_status(output(program, "status", "--long"))
    state = fields.get("extended_status") or fields.get("status", "")
    if state not in (*RUNNING, *NOT_STARTED):
        return ""
    manager = output("systemctl", "is-system-running").strip()
    waits = manager not in BOOTED if state in RUNNING else manager in BOOTING
    return (fields.get("detail") or state) if waits else ""


def parse_status(text: str) -> dict[str, str]:
    """Return the fields of `cloud-init status --long`. Versions before 22.4 print the detail on the line below its name."""
    lines = [line.strip() for line in text.splitlines()]
    fields = {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    if "detail" in fields and not fields["detail"]:
        fields["detail"] = next((line for line in lines[lines.index("detail:") + 1 :] if line), "")
    return fields


def output(*command: str) -> str:
    """Return the standard output of a command, whatever its exit code; empty after 30 s or if it cannot be run."""
    try:
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, encoding="utf-8", errors="replace", timeout=30
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def lock_holder(path: str) -> int:
    """Return the process that holds a lock; 0 if none does, or the file does not exist."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    finally:
        os.close(file)
    return 0 if kind == fcntl.F_UNLCK else pid


def process_name(pid: int) -> str:
    """Return the name of a process, as apt prints it; its number if it has ended."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return f"process {pid}"


def busy() -> dict[str, str]:
    """Return what is waited for."""
    stage = first_boot()
    if stage:
        return {"busy": "cloud-init", "detail": stage, "hint": "/var/log/cloud-init-output.log on the node"}
    for path in LOCKS:
        pid = lock_holder(path)
        if pid:
            name = process_name(pid)
            return {"busy": name, "detail": f"process {pid} holds {path}", "hint": f"`ps -fp {pid}` on the node"}
    return {"busy": "", "detail": "", "hint": ""}


def main() -> None:
    """Run the module."""
    module = AnsibleModule({}, supports_check_mode=True)
    module.exit_json(changed=False, package_lists=bool(glob.glob(PACKAGE_LISTS)), **busy())


if __name__ == "__main__":
    main()
