"""Record which tasks with hidden results changed something.

ansible-runner removes the complete result of such a task, including its changed flag.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: no_log_changes
type: aggregate
short_description: records changed tasks with hidden results
description: Writes host and task, without the result, to the file in RACKWRIGHT_NO_LOG_CHANGES.
"""

_FILE: Final = "RACKWRIGHT_NO_LOG_CHANGES"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Write one line per changed task."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rackwright.cluster.no_log_changes"
    CALLBACK_NEEDS_ENABLED = True

    _play = ""

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Remember the play, which identifies the phase."""
        self._play = play.get_name()

    def v2_runner_on_ok(self, result: Any) -> None:
        """Record a changed task with a hidden result."""
        details, task, file = result._result, result._task, os.environ.get(_FILE)
        if file and details.get("changed") and (task.no_log is True or details.get("_ansible_no_log")):
            role = task._role.get_name(include_role_fqcn=False) if task._role else ""
            note = {"host": result._host.get_name(), "play": self._play, "role": role, "task": task.name or task.action}
            with open(file, "a", encoding="utf-8") as notes:
                notes.write(json.dumps(note) + "\n")
