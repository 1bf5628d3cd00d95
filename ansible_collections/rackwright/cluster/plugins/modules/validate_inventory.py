"""Documentation of an action, which runs on the control machine: plugins/action/validate_inventory.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: validate_inventory
short_description: Validate the inventory before any node is changed
description:
  - Fails with all problems of the inventory, the plan and the secrets at once.
  - Compares variables of roles that the inventory or the command line sets with the argument specs of the roles.
  - Checks only what the roles read. C(rackwright inventory) writes inventories that follow the complete JSON schema.
options:
  schema: {type: str, required: true, description: "Version of the inventory's contract: C(rackwright.inventory/N)."}
notes:
  - M(ansible.builtin.validate_argument_spec) knows neither groups nor the variables of other hosts.
"""

EXAMPLES = r"""
- name: Validate the inventory, the plan and the secrets
  rackwright.cluster.validate_inventory:
    schema: rackwright.inventory/7
  run_once: true
"""

RETURN = r"""
msg: {description: All problems, returned: failure, type: str}
"""
