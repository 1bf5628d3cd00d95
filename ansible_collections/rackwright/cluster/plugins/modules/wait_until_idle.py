"""Documentation of an action, which runs on the control machine: plugins/action/wait_until_idle.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_until_idle
short_description: Wait until a first boot has ended and no other process uses the package manager
description:
  - Queries the node every 5 s (M(rackwright.cluster.busy_facts)) and says what it waits for, such as cloud-init or unattended-upgrades.
  - Does nothing in check mode.
options:
  timeout: {type: int, default: 600, description: Seconds after which the task fails and names what has not ended.}
notes:
  - M(ansible.builtin.wait_for) and C(cloud-init status --wait) say nothing while they wait, and the latter has no limit.
"""

EXAMPLES = r"""
- name: Wait until the first boot has ended
  rackwright.cluster.wait_until_idle:
    timeout: 900
"""

RETURN = r"""
waited: {description: Seconds until the node was idle., returned: outside of check mode, type: float}
"""
