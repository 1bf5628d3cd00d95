"""Action plugin in place of each module of the collection: nothing reaches a node, and the result is what the module was asked to do."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.action import ActionBase

DONE: dict[str, Any] = {name: [] for name in ("changed_paths", "started", "restarted", "reloaded", "stopped")}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Records the task's arguments; also in the folder RECORDED, since the result of a task with secrets is hidden."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The arguments, as the module would have been given them."""
        if folder := os.environ.get("RECORDED"):
            with open(os.path.join(folder, (task_vars or {})["inventory_hostname"]), "a", encoding="utf-8") as stream:
                stream.write(json.dumps(self._task.args, default=str) + "\n")
        return {**super().run(tmp, task_vars), **DONE, "recorded": self._task.args}
