"""Names of the nodes that a phase leaves out, because nodes that they need have failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase

from ansible_collections.rackwright.cluster.plugins.plugin_utils.failed_nodes import FAILED_NODES
from ansible_collections.rackwright.cluster.plugins.plugin_utils.prerequisites import not_reached

DOCUMENTATION = """
name: not_reached
short_description: nodes that a phase leaves out
description:
  - Returns the nodes whose prerequisites have failed in this run, such as the only Slurm controller.
  - The variable C(unreachable_nodes) lists the nodes that were unreachable before the run and are not in its limit.
options:
  _terms: {type: list, elements: str, required: true, description: The phase.}
"""


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup `query('rackwright.cluster.not_reached', 'scheduler')`, in the main process: for the hosts of a play."""

    def run(self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **_: Any) -> list[str]:
        """Return the names, and keep the causes for the action rackwright.cluster.prerequisites."""
        given = variables or {}
        failed = FAILED_NODES.all(given.get("unreachable_nodes", ()))
        if not failed:
            return []
        groups = given["groups"]
        cluster = given["hostvars"][groups["nodes"][0]]["cluster"]  # A play has no variables of hosts.
        found = not_reached(terms[0], groups, cluster, failed)
        FAILED_NODES.not_reached.update(found)
        return list(found)
