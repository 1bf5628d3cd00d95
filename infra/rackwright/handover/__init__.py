"""(plan, hosts) -> inventory, SSH configuration, pinned keys: the contract with Ansible and testinfra. Pure, but for `paths.prepare`."""

from rackwright.handover.host import Host, Reach, reach
from rackwright.handover.inventory import BAKED, SCHEMA, breaches, inventory, schema
from rackwright.handover.ssh import alias, known_hosts, ssh_config

__all__ = ["BAKED", "SCHEMA", "Host", "Reach", "alias", "breaches", "inventory", "known_hosts", "reach", "schema", "ssh_config"]
