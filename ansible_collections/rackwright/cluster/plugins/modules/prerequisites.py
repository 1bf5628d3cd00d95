"""Documentation of an action, which runs on the control machine: plugins/action/prerequisites.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: prerequisites
short_description: Leave out nodes whose prerequisites have failed
description:
  - Fails on each node that the lookup C(rackwright.cluster.not_reached) named for the hosts of this play. The message names the failures
    that are the cause. Such a node takes no further part in the run.
  - The callback C(rackwright.cluster.failed_nodes) must be enabled; without it no node counts as failed.
options: {}
notes:
  - M(ansible.builtin.fail) in the play of the dependent nodes would end the run where it fails on all of them.
"""

EXAMPLES = r"""
- name: Leave out nodes whose controllers have failed
  rackwright.cluster.prerequisites: {}
"""

RETURN = r"""
not_reached: {description: Whether the node is left out., returned: if the node is left out, type: bool}
"""
