"""The limit of inotify instances for containers that run kubelets or systemd; lowered again with the last stack that needs it.

All of root's containers share one number of inotify instances. A node of Kubernetes takes 15 to 30, any other 6 (`find /proc/*/fd -lname
anon_inode:inotify`), distributions allow 128, and a kubelet that gets none ends with "too many open files".
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from rackwright.errors import RackwrightError
from rackwright.provider.protocol.diff import DiffResult
from rackwright.provider.protocol.property_values import Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource

SETTING: Final = Path("/proc/sys/fs/inotify/max_user_instances")
LEDGER: Final = Path("/run/rackwright/inotify.json")
"""The machine's earlier limit, and the stacks that need more. A boot removes both the file and the raised limit."""


class InotifyLimits(Resource):
    """Inputs: stack, inotify_instances. Outputs: the same."""

    token: ClassVar[str] = "rackwright:lab:InotifyLimits"
    required: ClassVar[tuple[str, ...]] = ("stack", "inotify_instances")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack"})

    async def add_live_changes(self, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        """Add the setting where the machine allows less than the stack needs: a reboot resets it."""
        allowed, needed = int(SETTING.read_text()), int(state.inputs["inotify_instances"])
        return found.with_change("inotify_instances") if allowed < needed and not found.changes else found

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Raise the limit if it is too low."""
        wanted = int(news["inotify_instances"])
        with _ledger() as ledger:
            allowed = int(SETTING.read_text())
            if allowed < wanted:
                ledger.setdefault("before", allowed)
                await operation.info(f"fs.inotify.max_user_instances is raised from {allowed} to {wanted} for as long as this stack is up")
                _set(wanted)
            ledger["stacks"] = sorted({*ledger.get("stacks", []), news["stack"]})
        return LiveResource(operation.name, dict(news))

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the current limit as a live input where it is below the wanted one."""
        allowed = int(SETTING.read_text())
        if allowed >= int(state.inputs["inotify_instances"]):
            return LiveResource(state.id, state.outputs)
        return LiveResource(state.id, state.outputs, inputs={**state.inputs, "inotify_instances": allowed})

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Raise the limit again."""
        return await self.create(operation, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Restore the earlier limit, unless another stack needs the higher one or the setting has been changed since."""
        forget(state.inputs["stack"])


def forget(stack: str) -> None:
    """Remove a stack from the ledger; restore the earlier limit after the last one."""
    if not LEDGER.exists():
        return
    with _ledger() as ledger:
        ledger["stacks"] = [name for name in ledger.get("stacks", []) if name != stack]
        if not ledger["stacks"]:
            before = ledger.pop("before", None)
            if before is not None:
                _set(before)


def _set(value: int) -> None:
    try:
        SETTING.write_text(f"{value}\n")
    except OSError as error:
        raise RackwrightError(
            f"{SETTING}: cannot be set to {value} ({error.strerror})", hint=f"run `sysctl -w fs.inotify.max_user_instances={value}` as root"
        ) from None


@contextlib.contextmanager
def _ledger() -> Iterator[dict[str, Any]]:
    """Yield the ledger, locked against other runs; write it at the end."""
    LEDGER.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with LEDGER.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        found: dict[str, Any] = json.loads(text) if text else {}
        yield found
        file.seek(0)
        file.truncate()
        if found.get("stacks"):
            file.write(json.dumps(found))
