"""`rackwright`: the table of commands. A command's module is imported when the command runs, so that starting costs nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from rackwright.errors import RackwrightError

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "validate": ("rackwright.cli.validate:validate", "Everything that is wrong with a stack file, at once and offline."),
    "plan": ("rackwright.cli.plan:plan", "Nodes, addresses, storage and queues a stack file stands for."),
    "impact": ("rackwright.cli.impact:impact", "What an edit of the stack file will do, before it is done."),
    "fabric": ("rackwright.cli.fabric:fabric", "The network between the GPUs: switches, cables, growth, and whether a real one is so."),
    "workloads": ("rackwright.cli.workloads:workloads", "Jobs, queues and services for a stack's Kubernetes, as manifests to apply."),
    "cost": ("rackwright.cli.cost:cost", "What a stack costs while it is up."),
    "pin": ("rackwright.cli.pin:pin", "Write the newest machine images' ids into a stack file (target aws)."),
    "up": ("rackwright.cli.life:up", "Bring a stack up and prove it (pulumi up)."),
    "roll": ("rackwright.cli.roll:roll", "Reboot or apply a stack's workers a few at a time, each drained meanwhile and checked after."),
    "verify": ("rackwright.cli.verify:verify", "Check a live stack against its plan, now."),
    "accept": ("rackwright.cli.accept:accept", "Prove a live stack by jobs of an ordinary user, phase by phase."),
    "drift": ("rackwright.cli.drift:drift", "What differs from what was declared, now: resources, configuration, behaviour."),
    "history": ("rackwright.cli.drift:history", "What looks for drift found: since when, still there, healed when."),
    "schedule": ("rackwright.cli.schedule:schedule", "Look for drift every night: a systemd timer, a crontab line, a workflow."),
    "hardware": ("rackwright.cli.hardware:hardware", "What the nodes have, beside what was planned: CPUs, GPUs, fabric, storage."),
    "status": ("rackwright.cli.status:status", "The verdict on record, with its age and level."),
    "ssh": ("rackwright.cli.connect:ssh", "Log in to a node, or run a command there."),
    "inventory": ("rackwright.cli.connect:inventory", "The hand-over of a stack that is up."),
    "down": ("rackwright.cli.life:down", "Remove a stack (pulumi destroy), or whatever carries its label."),
    "hosts": ("rackwright.cli.hosts:hosts", "Machines that exist: take them over from a list, look at them before the first up."),
    "reap": ("rackwright.cli.reap:reap", "End every stack whose time is over."),
    "etcd": ("rackwright.cli.etcd:etcd", "Back up or restore what a stack's Kubernetes holds."),
    "state": ("rackwright.cli.state:state", "Back up, restore or move state and keys of all stacks."),
    "schema": ("rackwright.cli.validate:schema", "The JSON schema of stack files, for editors."),
}
"""Command -> (module:function, one line of help), in the order of the help text."""

_DEFECT_HINT: Final = "this is a defect of rackwright: run it again with RACKWRIGHT_TRACEBACK=1 and report what it prints"
_COULD_NOT_TELL: Final = 3


class Commands(TyperGroup):
    """The commands of the table, each made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, for completion and suggestions."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None when there is none."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, function = entry[0].split(":")
        return _command(cmd_name, getattr(import_module(module), function))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list in the help text, without importing a single command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _command(name: str, function: Callable[..., Any]) -> Any:
    if isinstance(function, typer.Typer):  # A command with commands of its own.
        function.info.name = name
        return typer.main.get_command(function)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, context_settings=getattr(function, "settings", None))(function)
    return typer.main.get_command(single)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("rackwright"))
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """One typed description of a GPU cluster: provisioned, converged and proven."""


def _program() -> Any:
    root = typer.Typer(name="rackwright", cls=Commands, add_completion=False, rich_markup_mode=None, no_args_is_help=True)
    root.callback()(_root)
    return typer.main.get_command(root)


def app() -> None:
    """The program. Exit codes: 0 good, 1 not as declared, 2 bad input or usage, 3 could not tell."""
    try:
        _program()(prog_name="rackwright")
    except RackwrightError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _be_silent()
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # Typer meets a broken pipe with exit code 1.
            raise
        _be_silent()
    except Exception as defect:
        if os.environ.get("RACKWRIGHT_TRACEBACK"):
            raise
        print(f"{type(defect).__name__}: {defect}\n  {_DEFECT_HINT}", file=sys.stderr)
        sys.exit(_COULD_NOT_TELL)


def _be_silent() -> NoReturn:
    """Whoever read the output has seen enough (`| head`); Python would complain once more while it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    sys.exit(0)


if __name__ == "__main__":
    app()
