"""What dpkg has on record of some packages: asked by the action `rackwright.cluster.apt`, which installs only what is missing.

A module of its own, so that what nodes are asked is all asked by modules. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import subprocess

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: dpkg_facts
short_description: What dpkg has on record of some packages
options:
  names:
    description: Packages, without versions.
    type: list
    elements: str
    required: true
notes:
  - C(ansible.builtin.package_facts) lists every package of the node, which takes longer than the role.
"""

EXAMPLES = r"""
- name: Query the versions of installed packages
  rackwright.cluster.dpkg_facts:
    names: [slurmd, munge]
"""

RETURN = r"""
told:
  description: A line for each known package, with its name, its state and its version; empty where there is no dpkg.
  returned: always
  type: str
"""

FORMAT = "${Package} ${db:Status-Status} ${Version}\n"


def recorded(names: list[str]) -> str:
    """What dpkg-query says; it fails where one was never known, and tells the others all the same."""
    try:
        asked = ["dpkg-query", "--show", "--showformat", FORMAT, "--", *names]
        return subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def main() -> None:
    """One question."""
    module = AnsibleModule({"names": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True)
    module.exit_json(changed=False, told=recorded(module.params["names"]))


if __name__ == "__main__":
    main()
