"""The limit of inotify instances for containers that run kubelets or systemd; lowered again with the last stack that needs it.

All of root's containers share one number of inotify instances. A node of Kubernetes takes 15 to 30, any other 6 (`find /proc/*/fd -lname
anon_inode:inotify`), distributions allow 128, and a kubelet that gets none ends with "too many open files".
"""

from __future__ import annotations

from typing import ClassVar

from rackwright.drivers import inotify_limits
from rackwright.provider.protocol.diff import DiffResult
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource


class InotifyLimits(Resource):
    """Inputs: stack, inotify_instances. Outputs: the same."""

    token: ClassVar[str] = "rackwright:lab:InotifyLimits"
    required: ClassVar[tuple[str, ...]] = ("stack", "inotify_instances")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack"})

    async def add_live_changes(self, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        """Add the setting where the machine allows less than the stack needs: a reboot resets it."""
        allowed, needed = int(inotify_limits.SETTING.read_text()), int(state.inputs["inotify_instances"])
        return found.with_change("inotify_instances") if allowed < needed and not found.changes else found

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Raise the limit if it is too low."""
        wanted = int(news["inotify_instances"])
        with inotify_limits.open_ledger() as ledger:
            allowed = int(inotify_limits.SETTING.read_text())
            if allowed < wanted:
                ledger.setdefault("before", allowed)
                await operation.info(f"fs.inotify.max_user_instances is raised from {allowed} to {wanted} for as long as this stack is up")
                inotify_limits.set_limit(wanted)
            ledger["stacks"] = sorted({*ledger.get("stacks", []), news["stack"]})
        return LiveResource(operation.name, dict(news))

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the current limit as a live input where it is below the wanted one."""
        allowed = int(inotify_limits.SETTING.read_text())
        if allowed >= int(state.inputs["inotify_instances"]):
            return LiveResource(state.id, state.outputs)
        return LiveResource(state.id, state.outputs, inputs={**state.inputs, "inotify_instances": allowed})

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Raise the limit again."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Restore the earlier limit, unless another stack needs the higher one or the setting has been changed since."""
        inotify_limits.forget(state.inputs["stack"])
