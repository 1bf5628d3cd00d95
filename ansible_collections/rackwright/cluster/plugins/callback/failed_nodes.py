"""Remember which nodes failed in which phase, for the phases that need them."""

from __future__ import annotations

from typing import Any

from ansible.plugins.callback import CallbackBase

from ansible_collections.rackwright.cluster.plugins.plugin_utils.failed_nodes import FAILED_NODES

DOCUMENTATION = """
name: failed_nodes
type: aggregate
short_description: remembers failed nodes for later phases
description: The lookup rackwright.cluster.not_reached reads them.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Remember plays and unreachable nodes."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rackwright.cluster.failed_nodes"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Remember the play."""
        FAILED_NODES.begin_play(play)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Remember the node."""
        FAILED_NODES.add_unreachable(result._host.get_name())
