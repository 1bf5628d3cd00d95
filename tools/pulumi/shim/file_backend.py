"""The engine's file backend, as far as the shim needs it: stacks, their salts and locks, and pending operations of a killed run."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "file://"

_SALT_FOLLOWS = '"secrets_providers":{"type":"passphrase","state":{"salt":"'

_CLOCK_SLACK = 2.0
"""Seconds: the boot time in /proc/stat has whole seconds."""


class FileBackend:
    """State of one project's stacks in a local folder (layout: pkg/backend/diy of the engine)."""

    def __init__(self, address: str, project: str, folder: str) -> None:
        path = os.path.expanduser(address[len(PREFIX) :].partition("?")[0])
        self._root = os.path.join(folder, path, ".pulumi")
        self._project = project

    def _state_file(self, stack: str) -> str:
        return os.path.join(self._root, "stacks", self._project, f"{stack}.json")

    def has(self, stack: str) -> bool:
        """Return whether the stack exists; compressed state counts, although the shim does not read it."""
        path = self._state_file(stack)
        return any(os.path.exists(path + end) for end in ("", ".gz", ".zst"))

    def _text(self, stack: str) -> str:
        try:
            with open(self._state_file(stack), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    def salt(self, stack: str) -> str | None:
        """Return the encryption salt of a stack whose secrets use a passphrase."""
        text = self._text(stack)
        _, found, rest = text.partition(_SALT_FOLLOWS)  # a quote inside a JSON string is escaped, so this is the key itself
        if found:
            return rest.partition('"')[0]
        secrets = _latest(_parsed(text)).get("secrets_providers") or {}
        return (secrets.get("state") or {}).get("salt") if secrets.get("type") == "passphrase" else None

    def has_resources(self, stack: str) -> bool:
        """Return whether resources of the stack are on record."""
        return bool(_latest(_parsed(self._text(stack))).get("resources"))

    def _locks(self, stack: str) -> list[str]:
        folder = os.path.join(self._root, "locks", "organization", self._project, stack)
        try:
            return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json")]
        except OSError:
            return []

    def remove_dead_locks(self, stack: str) -> list[int]:
        """Remove the locks of dead processes and return their process ids; keep locks of other hosts and of running processes."""
        removed = []
        for path in self._locks(stack):
            pid = _dead_holder(path)
            if pid is not None:
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    continue
                removed.append(pid)
        return removed

    def forget_interrupted(self, stack: str, type_prefix: str) -> list[str]:
        """Remove pending operations of a killed run, for resources of a provider that adopts or replaces; return their URNs.

        The engine keeps a pending create, and warns of it, until a user confirms it in an interactive refresh.
        """
        text = self._text(stack)
        if '"pending_operations"' not in text or self._locks(stack):
            return []
        state = _parsed(text)
        pending = _latest(state).get("pending_operations") or []
        ours = [entry for entry in pending if str((entry.get("resource") or {}).get("type", "")).startswith(type_prefix)]
        if not ours:
            return []
        state["checkpoint"]["latest"]["pending_operations"] = [entry for entry in pending if entry not in ours]
        _replace(self._state_file(stack), _compact(state))
        return [entry["resource"].get("urn", "") for entry in ours]


def _parsed(text: str) -> dict[str, Any]:
    import json  # 15 ms, which a run without pending operations does not need

    try:
        state = json.loads(text)
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _compact(state: dict[str, Any]) -> str:
    import json

    return json.dumps(state, separators=(",", ":"))


def _latest(state: dict[str, Any]) -> dict[str, Any]:
    return (state.get("checkpoint") or {}).get("latest") or {}


def _dead_holder(lock: str) -> int | None:
    """Return the lock's process id if that process ran on this host and has exited."""
    try:
        with open(lock, encoding="utf-8") as file:
            content = _parsed(file.read())
        pid = int(content["pid"])
        taken = os.stat(lock).st_mtime
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if content.get("hostname") != os.uname().nodename:
        return None
    started = _started(pid)
    if started is None:
        return pid
    return pid if started > taken + _CLOCK_SLACK and not _is_engine(pid) else None


def _is_engine(pid: int) -> bool:
    """Return whether the process is a Pulumi engine. A step of the clock shifts the start of every process, including a lock's holder."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() == "pulumi"
    except OSError:
        return False


def _started(pid: int) -> float | None:
    """Return the start of a process in seconds since the epoch; None without one. A later start means that the id was reused."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # from field 3 of proc(5) on: those after the command's name
        if fields[0] in "ZX":  # The process has ended; its parent has not reaped it yet.
            return None
        ticks = int(fields[19])
        with open("/proc/stat", encoding="utf-8") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith("btime "))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0.0
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def _replace(path: str, text: str) -> None:
    fresh = f"{path}.{os.getpid()}.tmp"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)
