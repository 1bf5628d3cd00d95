"""Run on the node: call the modules that the phases called, with the same arguments, and return a digest of each answer.

Input, on stdin because arguments of modules hold secrets: {"modules": an archive of them in base64, "calls": [{module, arguments,
environment, answer}], "seconds": limit of all calls, or null}. Output: {"answers": [digest], "late": whether the limit ended the run}.
The first digest that is not the call's `answer` ends the run: the phases run then, whatever the other answers are.
Each call runs in a process of its own, as under Ansible; temporary files are removed at the end of the run.
Python 3.9, standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import site
import sys
import tempfile
import time
from types import CodeType
from typing import Any

PASSING = ("invocation", "start", "end", "delta", "stdout_lines", "stderr_lines", "warnings", "deprecations", "exception")
"""Keys of an answer that differ between runs or repeat another key: times of a command, and its output as lines."""

POLL = 0.02
"""Seconds between two checks of whether a call has ended, where the calls have a limit."""

IMPORTED = re.compile(r"^(?:from|import) (ansible(?:\.module_utils|_collections)\.[\w.]+)", re.MULTILINE)
"""Imports of a module from Ansible's and the project's module code."""


def digest(answer: dict[str, object]) -> str:
    """Return the digest of an answer, without the parts that differ between equal answers."""
    kept = {name: value for name, value in answer.items() if name not in PASSING and not name.startswith("_ansible")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def read(text: str) -> str:
    """Return the digest of what a module printed; empty if that is no answer."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return digest(json.loads(line))
            except ValueError:
                return ""
    return ""


def prepared(modules: set[str]) -> dict[str, CodeType]:
    """Return the compiled code of the modules, with their imports of Ansible loaded: an archive holds nothing compiled, and each call would
    load them again."""
    found = {}
    for name in sorted(modules):
        loader: Any = importlib.util.find_spec(name).loader  # type: ignore[union-attr]
        source = loader.get_source(name)
        for utility in IMPORTED.findall(source):
            with contextlib.suppress(ImportError):  # The call itself reports the error.
                importlib.import_module(utility)
        found[name] = compile(source, name, "exec", dont_inherit=True)
    return found


def run(call: dict[str, object], code: CodeType, folder: str) -> None:
    """Run one module in a process of its own, as its last action."""
    import ansible.module_utils.basic as basic  # From the archive: Ansible need not be installed on the node.

    arguments = dict(call["arguments"], _ansible_tmpdir=folder)  # type: ignore[call-overload]
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
    basic._ANSIBLE_PROFILE = "legacy"
    os.environ.update(call["environment"])  # type: ignore[call-overload]
    sys.argv = [""]
    try:
        exec(code, {"__name__": "__main__", "__file__": str(call["module"])})
    except SystemExit:
        pass
    finally:
        sys.stdout.flush()


def answered(call: dict[str, object], code: CodeType, folder: str, deadline: float | None) -> str | None:
    """Return the digest of one module's answer; None if it did not answer before the deadline, on the monotonic clock."""
    file = os.path.join(folder, "answer")
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setsid()
            out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(out, 1)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            run(call, code, folder)
            status = 0
        finally:
            os._exit(status)
    if not ended(child, deadline):
        return None
    with open(file, encoding="utf-8", errors="replace") as printed:
        return read(printed.read())


def ended(child: int, deadline: float | None) -> bool:
    """Wait for a child. After the deadline, kill it and its children, and return False."""
    if deadline is None:
        os.waitpid(child, 0)
        return True
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() >= deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            return False  # A process that waits for a file system in the kernel may not end: it is not waited for.
        time.sleep(POLL)
    return True


def replay(calls: list[dict[str, Any]], code: dict[str, CodeType], folder: str, deadline: float | None) -> dict[str, Any]:
    """Run the calls in order, up to the first answer that differs from the expected one, or the deadline."""
    answers: list[str] = []
    for call in calls:
        answer = answered(call, code[call["module"]], folder, deadline)
        if answer is None:
            return {"answers": answers, "late": True}
        answers.append(answer)
        if answer != call["answer"]:
            break
    return {"answers": answers, "late": False}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Run the calls and return their answers."""
    # Modules import what the system's Python has (python3-apt, dnf), as they do under Ansible; this Python was started without (-I -S).
    site.ENABLE_USER_SITE = True
    site.main()
    folder = tempfile.mkdtemp(prefix="rackwright-")
    try:
        archive = os.path.join(folder, "modules.zip")
        with open(archive, "wb") as file:
            file.write(base64.b64decode(request["modules"]))
        sys.path.insert(0, archive)
        sys.dont_write_bytecode = True
        import ansible.module_utils.basic  # noqa: F401  Once for all calls.

        code = prepared({call["module"] for call in request["calls"]})
        deadline = None if request["seconds"] is None else time.monotonic() + request["seconds"]
        return replay(request["calls"], code, folder, deadline)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
