"""(plan, hosts) -> inventory, SSH configuration, pinned keys: the contract with Ansible and testinfra. Pure, except `paths.prepare`.

Names are imported on first use, so that `from rackwright.inventory import paths` loads the standard library alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rackwright.inventory.contract import BAKED, baked_roles, inventory, is_baked, schema, schema_errors
    from rackwright.inventory.host import Host, SshEndpoint, ssh_endpoint
    from rackwright.inventory.reader import SCHEMA
    from rackwright.inventory.ssh_files import alias, known_hosts, ssh_config

__all__ = [
    "BAKED",
    "SCHEMA",
    "Host",
    "SshEndpoint",
    "alias",
    "baked_roles",
    "inventory",
    "is_baked",
    "known_hosts",
    "schema",
    "schema_errors",
    "ssh_config",
    "ssh_endpoint",
]

_MODULE_OF = {
    **dict.fromkeys(("Host", "SshEndpoint", "ssh_endpoint"), "host"),
    **dict.fromkeys(("BAKED", "baked_roles", "schema_errors", "inventory", "is_baked", "schema"), "contract"),
    "SCHEMA": "reader",
    **dict.fromkeys(("alias", "known_hosts", "ssh_config"), "ssh_files"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found
