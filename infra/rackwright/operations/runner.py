"""Registration and removal of the GitHub Actions runners of a running stack. The token is in no file, argument, report or state."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.drivers import ansible, ssh_connections
from rackwright.errors import InputError, RackwrightError, UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.running_stack import RunningStack
from rackwright.operations.stack_lock import StackLock

TOKEN_ENV: Final = "RACKWRIGHT_RUNNER_TOKEN"
"""Environment variable with the token."""
_CONNECT_TIMEOUT: Final = 15.0
"""Seconds for the SSH connections to all runners; chosen."""
_LONGEST: Final = 1024
"""Bytes of a token; chosen. GitHub's have some 30."""
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_WHERE: Final = {
    "register": "create a registration token at GitHub: Settings, Actions, Runners, New self-hosted runner",
    "remove": "create a removal token at GitHub: Settings, Actions, Runners, the runner's menu, Remove",
}

Progress = Callable[[str], Awaitable[None]]


def register(stack: str, token_file: Path | None, on_progress: Progress) -> tuple[str, ...]:
    """Register the stack's runners, start their services and return their names.

    Raises InputError without a token or a runner, UndeterminedError if a node is not reachable, RackwrightError if the playbook fails.
    """
    return _run(stack, "register", token_file, on_progress)


def remove(stack: str, token_file: Path | None, on_progress: Progress) -> tuple[str, ...]:
    """Remove the stack's runners from GitHub and from their nodes; raises as `register`."""
    return _run(stack, "remove", token_file, on_progress)


def _run(stack: str, action: str, token_file: Path | None, on_progress: Progress) -> tuple[str, ...]:
    nodes = RunningStack.of(stack).inventory.members("role_runner")
    if not nodes:
        raise InputError("has no runner", path=f"stack {stack}", hint="declare `runner` and a group with the role runner in its stack file")
    token = read_token(token_file, os.environ, action)
    os.environ.pop(TOKEN_ENV, None)  # ssh keeps its connection, and with it its environment, for minutes.
    with _in_memory(token) as file:
        try:
            asyncio.run(_play(stack, nodes, f"{action}-runner.yml", file, on_progress))
        except KeyboardInterrupt:
            raise UndeterminedError(f"interrupted during `{action}`", path=f"stack {stack}", hint="run the same command again") from None
    return nodes


def read_token(token_file: Path | None, environment: Mapping[str, str], action: str) -> str:
    """Return the token of the file, or else of the environment variable. Raise InputError that does not quote it."""
    text, path = (_read(token_file), str(token_file)) if token_file else (environment.get(TOKEN_ENV, ""), TOKEN_ENV)
    token = text.strip()
    if not token:
        hint = f"{_WHERE[action]}; pass it in {TOKEN_ENV}, or in a file of mode 0600 with `--token-file FILE`"
        raise InputError("holds no token" if token_file else "is not set", path=path, hint=hint)
    if len(token) > _LONGEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError("is not a token (expected one word)", path=path, hint=_WHERE[action])
    return token


def _read(file: Path) -> str:
    try:
        with file.expanduser().open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            content = stream.read(_LONGEST + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=str(file), hint="name a file that holds only the token") from None
    if mode & _OF_OTHERS:
        cause = f"can be read by other users (expected mode 0600, found {mode:04o})"
        raise InputError(cause, path=str(file), hint=f"run `chmod 600 {file}`, and create a new token")
    return content.decode("ascii", errors="replace")


@contextmanager
def _in_memory(token: str) -> Iterator[str]:
    """Yield the path of a file in memory with the token. It has no name in any folder, and ends with this process."""
    descriptor = os.memfd_create("rackwright-runner-token", os.MFD_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, token.encode())
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


async def _play(stack: str, nodes: tuple[str, ...], playbook: str, token: str, on_progress: Progress) -> None:
    """Run the playbook while holding the stack's lock."""
    lock = StackLock(stack)
    await lock.hold()
    try:
        applied = await _play_locked(stack, nodes, playbook, token, on_progress)
    finally:
        lock.release()
    if applied.reasons:
        raise RackwrightError("\n".join(applied.reasons))


async def _play_locked(stack: str, nodes: tuple[str, ...], playbook: str, token: str, on_progress: Progress) -> ansible.PlaybookResult:
    lost = await ssh_connections.connect_all(stack, nodes, within=_CONNECT_TIMEOUT)
    if lost:
        causes = "\n".join(f"{name}: {reason}" for name, reason in lost.items())
        hint = f"check the machine; `rackwright verify {stack}` reports its state"
        raise UndeterminedError(f"aborted before any change: a runner's node is not reachable\n{causes}", hint=hint)
    return await ansible.play(
        layout.product_root(),
        playbook,
        inventory=paths.inventory(stack),
        values={"actions_runner_token_file": token},
        limit=nodes,
        on_progress=on_progress,
    )
