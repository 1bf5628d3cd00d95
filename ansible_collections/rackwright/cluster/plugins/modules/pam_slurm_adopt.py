"""Admit ordinary users over SSH only while they have a job on the node.

sshd's PAM file belongs to the distribution, and the file of its session modules is written by pam-auth-update: both are read, and only the
lines that Slurm's module needs are changed. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.file_tree import PathError, Tree

DOCUMENTATION = r"""
module: pam_slurm_adopt
short_description: Admit ordinary users over SSH only while they have a job on the node
description:
  - C(present) adds C(pam_slurm_adopt.so) as the last account module of sshd's PAM file. A session joins the job's control group.
  - Administrators are admitted before Slurm's module is called, and need no job.
  - The session modules are those of C(common-session), but C(pam_systemd.so) runs for administrators only, because it would move a
    session out of the control group of the job.
  - C(absent) removes these lines and files. Other lines of sshd's PAM file are never changed.
options:
  state:
    description: Whether the node admits users by their jobs.
    type: str
    choices: [present, absent]
    default: present
  administrators:
    description: Users who need no job. Root is always one of them.
    type: list
    elements: str
    default: []
  folder:
    description: Folder of the PAM files.
    type: path
    default: /etc/pam.d
  administrators_file:
    description: File with the names of the administrators.
    type: path
    default: /etc/rackwright/ssh-administrators
notes:
  - Files of Debian and Ubuntu only.
  - C(community.general.pamd) edits rules of one file and does not follow C(@include). It cannot place a rule behind an included file
    or leave out a module of one.
"""

EXAMPLES = r"""
- name: Admit users by their jobs
  rackwright.cluster.pam_slurm_adopt:
    administrators: [root, admin]
"""

RETURN = r"""
changed_paths:
  description: Every path that was, or in check mode would be, altered.
  returned: always
  type: list
"""

MODULE_FILES = ("/lib/security/pam_slurm_adopt.so", "/lib/*/security/pam_slurm_adopt.so", "/usr/lib/*/security/pam_slurm_adopt.so")
"""Places of Slurm's module: Debian's PAM also searches /lib/security."""
_BEGIN = "# rackwright: ordinary users need a job on this node (pam_slurm_adopt(8)). Administrators do not."
_END = "# rackwright: end"
_SESSION = "rackwright-sshd-session"
_INCLUDED = re.compile(r"^@include[ \t]+common-session[ \t]*$", re.MULTILINE)
_ACCOUNT = re.compile(r"^(?:@include[ \t]+common-account|-?account[ \t].*)$", re.MULTILINE)
_OWN_INCLUDED = re.compile(rf"^@include[ \t]+{_SESSION}[ \t]*$", re.MULTILINE)
_OWN_LINES = re.compile(rf"^{re.escape(_BEGIN)}\n(?:.*\n)*?{re.escape(_END)}\n", re.MULTILINE)
_SYSTEMD = re.compile(r"^-?session[ \t].*\bpam_systemd\.so\b.*$", re.MULTILINE)


def without_rules(text: str) -> str:
    """Return sshd's PAM file without the lines of this module."""
    return _OWN_INCLUDED.sub("@include common-session", _OWN_LINES.sub("", text))


def with_rules(text: str, administrators_file: str) -> str:
    """Return sshd's PAM file with the rules of Slurm's module. Raise PathError if the file has not the form of Debian's."""
    plain = without_rules(text)
    accounts = list(_ACCOUNT.finditer(plain))
    if not accounts or not _INCLUDED.search(plain):
        raise PathError("sshd's PAM file: expected the lines `@include common-account` and `@include common-session`, as Debian has them")
    rules = [
        _BEGIN,
        f"account    sufficient   pam_listfile.so item=user sense=allow onerr=fail quiet file={administrators_file}",
        "account    required     pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny",
        _END,
    ]
    end = accounts[-1].end()
    return _INCLUDED.sub(f"@include {_SESSION}", plain[:end] + "\n" + "\n".join(rules) + "\n" + plain[end:].removeprefix("\n"))


def session_of(text: str, administrators_file: str) -> str:
    """Return the session modules of common-session, with pam_systemd for administrators only."""
    only = f"session [default=1 success=ignore] pam_listfile.so item=user sense=allow onerr=fail quiet file={administrators_file}"
    return "# Written by rackwright from common-session; local changes are lost.\n" + _SYSTEMD.sub(
        lambda found: f"{only}\n{found[0]}", text
    )


def tree_of(params: dict[str, Any]) -> dict[str, Any]:
    """Return the files of the wanted state, and those that must not exist. Raise PathError if a file of the distribution is missing."""
    folder, listed = Path(params["folder"]), params["administrators_file"]
    sshd, session = folder / "sshd", folder / _SESSION
    wanted: dict[str, Any] = {"files": [], "directories": [], "links": [], "absent": []}
    if params["state"] == "absent":
        if sshd.exists():
            wanted["files"] = [{"path": str(sshd), "content": without_rules(_read(sshd))}]
        return {**wanted, "absent": [str(session), listed]}
    if not any(glob.glob(pattern) for pattern in MODULE_FILES):
        # sshd would refuse every ordinary user.
        raise PathError("pam_slurm_adopt.so is not installed: install the package libpam-slurm-adopt, or create the node from a new image")
    names = sorted({"root", *params["administrators"]})
    # The list and the session file come first: sshd reads its PAM file at each login.
    files = {
        listed: "".join(f"{name}\n" for name in names),
        str(session): session_of(_read(folder / "common-session"), listed),
        str(sshd): with_rules(_read(sshd), listed),
    }
    return {**wanted, "files": [{"path": path, "content": content} for path, content in files.items()]}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PathError(f"{path} does not exist (expected the PAM file of Debian's openssh-server or libpam-runtime)") from None


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "administrators": {"type": "list", "elements": "str", "default": []},
            "folder": {"type": "path", "default": "/etc/pam.d"},
            "administrators_file": {"type": "path", "default": "/etc/rackwright/ssh-administrators"},
        },
        supports_check_mode=True,
    )
    tree = Tree(bool(module.check_mode))
    try:
        wanted = tree_of(module.params)
        for one in wanted["files"]:
            one.update({"mode": "0644", "owner": None, "group": None, "base64": False, "sensitive": False, "validate": None})
        tree.apply(wanted)
    except PathError as error:
        module.fail_json(msg=str(error), changed=bool(tree.changed_paths), changed_paths=tree.changed_paths)
    diff = {"diff": tree.diffs} if module._diff and tree.diffs else {}
    module.exit_json(changed=bool(tree.changed_paths), changed_paths=tree.changed_paths, **diff)


if __name__ == "__main__":
    main()
