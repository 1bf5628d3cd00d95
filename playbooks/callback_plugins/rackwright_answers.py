"""Notes which module was called on which node with what, and a digest of the answer: what nodes are asked the next time somebody looks.

Modules are called in forked workers through Mitogen's planner, so the note is taken there, one line per call. Whatever else is asked of a
node by the way is noted, too: who plays the notes back then knows that they are not all.
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
from rackwright.provider.answers.side import digest

DOCUMENTATION = """
name: rackwright_answers
type: aggregate
short_description: notes what modules were asked and answered
description: Writes to the file that RACKWRIGHT_ANSWERS names.
"""

_FILE: Final = "RACKWRIGHT_ANSWERS"
_MODULE_FOLDERS: Final = (("ansible", "modules"), Path(layout.MODULES).parts)


def module_name(path: str) -> str:
    """How a module is imported from an archive of modules; nothing where it is not one of Ansible's own or the project's."""
    file = Path(path)
    known = file.suffix == ".py" and any(file.parent.parts[-len(folder) :] == folder for folder in _MODULE_FOLDERS)
    return f"ansible.modules.{file.stem}" if known else ""


def note(file: str, what: dict[str, Any]) -> None:
    """One line, whole: many workers write at the same time."""
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(out, json.dumps(what).encode() + b"\n")
    finally:
        os.close(out)


def called(call: Any, answer: dict[str, Any]) -> dict[str, Any]:
    """One call of a module, as it is noted."""
    connection, task = call.connection, call.action._task
    play = connection._play_context
    return {
        "node": connection.delegate_to_hostname or call.task_vars["inventory_hostname"],
        "task": task.get_name(),
        "module": "" if call.wrap_async or connection.transport.endswith("local") else module_name(call.module_path),
        "user": (play.become_user or "root") if play.become else "",
        "arguments": {name: value for name, value in call.module_args.items() if name != "_ansible_tmpdir"},
        "environment": dict(call.env or {}),
        "answer": digest(answer),
    }


def listen(file: str) -> None:
    """From now on every worker that is forked takes notes."""
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
    """Listens from the first task on: before it, Mitogen is not set up."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rackwright_answers"
    CALLBACK_NEEDS_ENABLED = True

    _listening = False

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Once."""
        if not CallbackModule._listening and os.environ.get(_FILE):
            CallbackModule._listening = True
            listen(os.environ[_FILE])
