"""The machine's limit of inotify instances, and the ledger of stacks that need a higher one."""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rackwright.errors import RackwrightError

SETTING: Final = Path("/proc/sys/fs/inotify/max_user_instances")
LEDGER: Final = Path("/run/rackwright/inotify.json")
"""The limit before the first change, and the stacks that need a higher one. Both are reset at boot."""


def forget(stack: str) -> None:
    """Record that a stack needs no higher limit. After the last such stack, restore the earlier limit."""
    if not LEDGER.exists():
        return
    with open_ledger() as ledger:
        ledger["stacks"] = [name for name in ledger.get("stacks", []) if name != stack]
        if not ledger["stacks"]:
            before = ledger.pop("before", None)
            if before is not None:
                set_limit(before)


def set_limit(value: int) -> None:
    """Set the limit. Raise RackwrightError if this process lacks the permission."""
    try:
        SETTING.write_text(f"{value}\n")
    except OSError as error:
        raise RackwrightError(
            f"{SETTING}: cannot be set to {value} ({error.strerror})", hint=f"run `sysctl -w fs.inotify.max_user_instances={value}` as root"
        ) from None


@contextlib.contextmanager
def open_ledger() -> Iterator[dict[str, Any]]:
    """Open the ledger, locked against other runs, and write it at the end."""
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
