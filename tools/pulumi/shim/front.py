"""Execution of one command: defaults, creation on first use, cleanup after the last run, then the engine."""

from __future__ import annotations

import os
import sys

from shim import PACKAGE, engine, environment, interruption, login, project, selection, stack
from shim.child import Child
from shim.command import Command
from shim.file_backend import PREFIX, FileBackend
from shim.stack_file import StackFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_TYPES_SAFE_TO_REPEAT = "rackwright:"
"""Type prefix of the product's own resources: an interrupted create adopts or replaces what it finds, so no confirmation is needed."""


def main(venv: str, arguments: list[str]) -> NoReturn:
    """Run the engine with the user's arguments; does not return."""
    venv = os.path.abspath(venv)
    tools = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environ = {**os.environ, **environment.for_every_project(os.environ, venv, tools)}
    path = engine.find(environ, venv)
    command = Command(arguments)
    found = project.find(os.path.join(os.getcwd(), command.folder or ""))
    if found is None or found.name != project.OURS or command.changes_login:
        _exec_engine(path, arguments, environ)
    Front(path, arguments, command, found, environ).go()


class Front:
    """A command on the product's own project."""

    def __init__(self, engine_path: str, arguments: list[str], command: Command, of: project.Project, environ: dict[str, str]) -> None:
        self._engine = engine_path
        self._arguments = arguments
        self._command = command
        self._project = of
        self._environ = environ
        self._homes = _state_directory_module()
        self._home = self._homes.StateDirectory.of(environ)

    def go(self) -> NoReturn:
        """Prepare and start the engine."""
        chosen = login.chosen_backend(self._environ)
        self._home.create()
        self._homes.link(self._project.root, self._home)
        self._environ.update(environment.for_our_project(self._environ, self._home, chosen))
        self._environ["RACKWRIGHT_PROJECT"] = os.path.abspath(self._project.root)
        address = self._environ.get("PULUMI_BACKEND_URL") or chosen or ""
        if self._command.asks_for_help:
            _exec_engine(self._engine, self._arguments, self._environ)
        name = self._stack(address)
        if not address.startswith(PREFIX):
            self._operate(name, None)
        backend = FileBackend(address, self._project.name, os.getcwd())
        file = self._first_use(name, backend) if name else None
        if self._command.may_write_stack_file:
            self._run_and_save(name or "", file, backend)
        self._operate(name, backend)

    def _stack(self, address: str) -> str | None:
        """Return the bare name of the command's stack."""
        named = self._command.stack or self._environ.get("PULUMI_OPTION_STACK") or self._environ.get("PULUMI_STACK")
        full = named or selection.selected_stack(self._environ, self._project.name, self._project.root, address) or ""
        *owner, name = full.split("/")
        return name if name and (len(owner) < 2 or owner[-1] == self._project.name) else None

    def _first_use(self, name: str, backend: FileBackend) -> StackFile | None:
        """Create a stack that has a file but no state, remove leftovers of a killed run, and write the salted copy."""
        file = StackFile(self._project.stack_file(name), self._home.stack_config(name))
        if not backend.has(name):
            if not file.exists or self._command.makes_or_removes_a_stack:
                return None
            stack.create(name, self._project.name, backend, self._engine, self._environ, self._home.engine)
            _say(f"stack {name} is new; its state is kept in {self._home.root}")
        for pid in backend.remove_dead_locks(name):
            _say(f"stack {name} was locked by process {pid}, which is gone; the lock is removed")
        for urn in backend.forget_interrupted(name, _TYPES_SAFE_TO_REPEAT):
            _say(f"a killed run left {urn.rpartition('::')[2]} unfinished; it is settled by the next up or destroy")
        salt = backend.salt(name)
        if salt is None:
            return None
        file.drop_salt(salt)
        if file.keeps_its_own_secrets or self._command.names_config_file or self._environment_names_config_file():
            return None
        file.write_copy(salt)
        if self._command.words[:2] not in (["config", "cp"], ["config", "copy"]):  # copies between two stack files
            self._environ["PULUMI_OPTION_CONFIG_FILE"] = file.copy
        return file

    def _environment_names_config_file(self) -> bool:
        """Return whether the user sets PULUMI_OPTION_CONFIG_FILE. The value of an outer shim, for any stack, does not count."""
        file = self._environ.get("PULUMI_OPTION_CONFIG_FILE", "")
        return bool(file) and os.path.dirname(file) != os.path.dirname(self._home.stack_config("x"))

    def _operate(self, name: str | None, backend: FileBackend | None) -> NoReturn:
        """Run the engine; for an operation on a stack, wait for it, and print how to continue an interrupted run."""
        operation = interruption.verb(self._command.subcommand)
        if not operation or not name:
            _exec_engine(self._engine, self._arguments, self._environ)
        mark = os.path.join(self._home.engine, f"cancelled.{os.getpid()}")
        interruption.was_cancelled(mark)  # A killed process with the same id may have left a mark.
        child = Child(self._engine, self._arguments, {**self._environ, interruption.MARK: mark})
        status = child.wait()
        cancelled = interruption.was_cancelled(mark) or status == interruption.ENGINE_CANCELLED << 8
        # A cancelled destroy exits with 0, reports that everything was deleted, and leaves the remaining resources in the state.
        cancelled |= operation == "destroy" and not status and self._command.is_about_all and bool(backend and backend.has_resources(name))
        if child.interrupted_by or cancelled:
            _say(interruption.message(operation, name, self._environ))
            os._exit(interruption.exit_code(child.interrupted_by))
        _exit_as(status)

    def _run_and_save(self, name: str, file: StackFile | None, backend: FileBackend) -> NoReturn:
        """Run the engine as a child, save its changes to the committed file, and exit as it exited."""
        status = Child(self._engine, self._arguments, self._environ).wait()
        complaint = file.bring_home() if file else None
        if file and self._command.subcommand != "config":
            file.undo_salting(backend.salt(name) or "-")
        self._drop_salts(backend)
        if complaint:
            _say(complaint)
        _exit_as(status)

    def _drop_salts(self, backend: FileBackend) -> None:
        """Remove salts from committed files: `stack init` and similar commands write one next to Pulumi.yaml, for any stack."""
        try:
            names = os.listdir(self._project.stack_files)
        except OSError:
            return
        for name in (n[len("Pulumi.") : -len(".yaml")] for n in names if n.startswith("Pulumi.") and n.endswith(".yaml")):
            file = StackFile(self._project.stack_file(name), self._home.stack_config(name))
            salt = backend.salt(name) if file.keeps_its_own_secrets else None
            if salt:
                file.drop_salt(salt)


def _exec_engine(path: str, arguments: list[str], environ: dict[str, str]) -> NoReturn:
    os.execve(path, ["pulumi", *arguments], environ)


def _exit_as(status: int) -> NoReturn:
    """Exit as the engine exited."""
    if os.WIFSIGNALED(status):
        import signal

        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _state_directory_module() -> Any:
    """Load rackwright.operations.state.directory by path: importing it by name would run the package's own imports."""
    from importlib.util import module_from_spec, spec_from_file_location

    file = os.path.join(PACKAGE, "operations", "state", "directory.py")
    spec = spec_from_file_location("state_directory", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(text: str) -> None:
    import contextlib

    with contextlib.suppress(OSError):  # The terminal may be closed.
        print(f"rackwright: {text}", file=sys.stderr, flush=True)
