"""Wait until the first boot of a node has ended and no other process uses its package manager."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.rackwright.cluster.plugins.plugin_utils.idle import TIMEOUT, wait_until_idle


class ActionModule(ActionBase):  # type: ignore[misc]
    """The task `rackwright.cluster.wait_until_idle: {timeout: 600}`."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fail if the node is still busy after the timeout. Check mode asks nothing: it changes nothing that the other process changes."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._task.check_mode:
            return {**result, "changed": False}

        def query() -> dict[str, Any]:
            found: dict[str, Any] = self._execute_module(module_name="rackwright.cluster.busy_facts", module_args={}, task_vars=task_vars)
            return found

        timeout = float(self._task.args.get("timeout", TIMEOUT))
        waited, problem = wait_until_idle(str((task_vars or {}).get("inventory_hostname", "")), query, timeout=timeout)
        return {**result, "changed": False, "waited": round(waited, 1), **({"failed": True, "msg": problem} if problem else {})}
