"""Record every module call with its node and arguments and a digest of its result; the next drift scan replays the calls.

Mitogen's planner calls modules in forked workers, so each worker writes one line per call. Other calls to a node are recorded as well,
because the reader must know that the recording is incomplete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

from ansible.plugins.callback import CallbackBase

from rackwright import layout
from rackwright.remote.programs.module_replay import digest

DOCUMENTATION = """
name: module_recorder
type: aggregate
short_description: records calls and results of modules
description: Writes to the file in RACKWRIGHT_MODULE_RECORDING.
"""

_FILE: Final = "RACKWRIGHT_MODULE_RECORDING"
_MODULE_FOLDERS: Final = (("ansible", "modules"), Path(layout.MODULES).parts)
"""Ansible's modules and those of this collection. The replay does not know what other collections import."""


def module_name(path: str) -> str:
    """Return the import name of a module; empty if it is neither one of Ansible's nor one of the project's."""
    file = Path(path)
    packages = [".".join(folder) for folder in _MODULE_FOLDERS if file.parent.parts[-len(folder) :] == folder]
    return f"{packages[0]}.{file.stem}" if packages and file.suffix == ".py" else ""


def note(file: str, what: dict[str, Any]) -> None:
    """Append one line with a single write, because many workers write at the same time."""
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(out, json.dumps(what).encode() + b"\n")
    finally:
        os.close(out)


def called(call: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the record of one module call."""
    connection, task = call.connection, call.action._task
    play = connection._play_context
    return {
        "node": connection.delegate_to_hostname or call.task_vars["inventory_hostname"],
        "task": task.get_name(include_role_fqcn=False),
        "module": "" if call.wrap_async or connection.transport.endswith("local") else module_name(call.module_path),
        "user": (play.become_user or "root") if play.become else "",
        "arguments": {name: value for name, value in call.module_args.items() if name != "_ansible_tmpdir"},
        "environment": dict(call.env or {}),
        "answer": digest(answer),
    }


def listen(file: str) -> None:
    """Patch Mitogen so that every worker forked from now on records its calls."""
    import ansible_mitogen.connection as connections
    import ansible_mitogen.planner as planner

    invoke = planner.invoke
    ask = connections.CallChain.call

    def noted(call: Any) -> Any:
        answer = invoke(call)
        note(file, called(call, dict(answer)))
        return answer

    @wraps(ask)
    def heard(self: Any, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if function.__name__ != "run_module":
            note(file, {"other": function.__name__})
        return ask(self, function, *arguments, **named)

    planner.invoke = noted
    connections.CallChain.call = heard


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Start recording at the first task; Mitogen is not loaded earlier."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rackwright.cluster.module_recorder"
    CALLBACK_NEEDS_ENABLED = True

    _listening = False

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Start recording at the first task."""
        if not CallbackModule._listening and os.environ.get(_FILE):
            CallbackModule._listening = True
            listen(os.environ[_FILE])
