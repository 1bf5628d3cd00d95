"""Stands in for the module of the same name: nothing reaches a node, and the result is what the module was asked to do."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]
    """Records the task's arguments."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The arguments, as the module would have been given them."""
        return {**super().run(tmp, task_vars), "recorded": self._task.args}
