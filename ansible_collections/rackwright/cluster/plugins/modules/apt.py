"""Documentation of an action, which runs on the control machine: plugins/action/apt.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt
short_description: Install packages with apt where one is missing
description:
  - Reads the record of installed packages (M(rackwright.cluster.dpkg_facts)) and calls M(ansible.builtin.apt) only if a package is missing.
  - Before that it waits until cloud-init has ended and no process holds a lock of apt or dpkg, and says what it waits for.
  - The wait ends after 600 s with a failure.
  - All options are passed to M(ansible.builtin.apt), which has more than those listed here.
options:
  name: {type: list, elements: str, required: true, description: "Names of packages, each with an optional version: C(name=1.2*)."}
  update_cache: {type: bool, default: false, description: Fetches the package lists before an installation.}
  cache_valid_time: {type: int, default: 0, description: Age in seconds up to which package lists are not fetched again.}
  install_recommends: {type: bool, description: Installs recommended packages too. Default is the setting of the node.}
  policy_rc_d: {type: int, description: "Exit status of policy-rc.d during the installation; 101 starts no daemon."}
  allow_downgrade: {type: bool, default: false, description: Installs an older version in place of the present one.}
  allow_change_held_packages: {type: bool, default: false, description: Changes the version of held packages.}
notes:
  - M(ansible.builtin.apt) opens apt's database in each task, also if all packages are installed.
"""

EXAMPLES = r"""
- name: Install MUNGE
  rackwright.cluster.apt:
    name: munge
    update_cache: true
    cache_valid_time: 3600
"""

RETURN = r"""
stdout: {description: Output of apt., returned: if a package was missing, type: str}
"""
