"""Return dpkg's records of packages. The action `rackwright.cluster.apt` uses them to install missing packages only.

A separate module, so that the recorder sees every query of a node. Standard library only, Python 3.9 or newer on the node.
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
dpkg_output:
  description: A line for each known package, with its name, its state and its version; empty where there is no dpkg.
  returned: always
  type: str
"""

FORMAT = "${Package} ${db:Status-Status} ${Version}\n"


def recorded(names: list[str]) -> str:
    """Return the output of dpkg-query. It fails for an unknown package, but still lists the others."""
    try:
        asked = ["dpkg-query", "--show", "--showformat", FORMAT, "--", *names]
        return subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule({"names": {"type": "list", "elements": "str", "required": True}}, supports_check_mode=True)
    module.exit_json(changed=False, dpkg_output=recorded(module.params["names"]))


if __name__ == "__main__":
    main()
