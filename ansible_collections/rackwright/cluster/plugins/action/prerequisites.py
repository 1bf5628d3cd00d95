"""Leave a node out of the rest of a run, if nodes that it needs have failed."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.rackwright.cluster.plugins.plugin_utils.failed_nodes import FAILED_NODES


class ActionModule(ActionBase):  # type: ignore[misc]
    """The task `rackwright.cluster.prerequisites:`, in a play whose hosts come from the lookup rackwright.cluster.not_reached."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fail with the cause on a node that the lookup named; change nothing elsewhere."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        why = FAILED_NODES.not_reached.get((task_vars or {})["inventory_hostname"])
        return {**result, "changed": False, **({"failed": True, "not_reached": True, "msg": f"not reached, because {why}"} if why else {})}
