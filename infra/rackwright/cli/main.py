"""`rackwright`: the table of commands. A command's module is imported only when the command runs, to keep start-up fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from rackwright import __version__
from rackwright.errors import RackwrightError

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "new": ("rackwright.cli.new:new", "Create a project folder with a stack file, for clusters of one repository."),
    "validate": ("rackwright.cli.validate:validate", "Check a stack file offline and report every error."),
    "plan": ("rackwright.cli.plan:plan", "Show the nodes, addresses, storage and queues that a stack file expands to."),
    "impact": ("rackwright.cli.impact:impact", "Preview what an edited stack file will change."),
    "fabric": ("rackwright.cli.fabric:fabric", "Plan the GPU network: switches, cables, growth; compare it with a real one."),
    "workloads": ("rackwright.cli.workloads:workloads", "Print Kubernetes manifests of jobs, queues and services for a stack."),
    "cost": ("rackwright.cli.cost:cost", "Show the cost of a running stack."),
    "pin-images": ("rackwright.cli.pin_images:pin", "Write the ids of the newest machine images into a stack file (target aws)."),
    "up": ("rackwright.cli.up_down:up", "Create, configure and verify a stack (pulumi up)."),
    "rolling-update": ("rackwright.cli.rolling_update:roll", "Update or reboot workers in batches: drain, apply, verify, resume."),
    "verify": ("rackwright.cli.verify:verify", "Check a running stack against its plan."),
    "acceptance": ("rackwright.cli.acceptance:accept", "Run the acceptance test: jobs of an unprivileged user, phase by phase."),
    "drift": ("rackwright.cli.drift:drift", "Compare a running stack with its declaration."),
    "drift-history": ("rackwright.cli.drift:history", "Show the history of drift: first seen, still open, resolved."),
    "drift-schedule": ("rackwright.cli.drift_schedule:schedule", "Schedule a nightly drift scan (systemd, cron or GitHub Actions)."),
    "hardware": ("rackwright.cli.hardware:hardware", "Show each node's hardware and compare it with the plan."),
    "status": ("rackwright.cli.status:status", "Show the last verdict, its level and its age."),
    "ssh": ("rackwright.cli.connect:ssh", "Log in to a node, or run a command on it."),
    "inventory": ("rackwright.cli.connect:inventory", "Print the Ansible inventory of a running stack."),
    "down": ("rackwright.cli.up_down:down", "Delete a stack (pulumi destroy), or all resources with its label."),
    "hosts": ("rackwright.cli.hosts:hosts", "Import existing machines and run preflight checks on them."),
    "destroy-expired": ("rackwright.cli.destroy_expired:reap", "Destroy all stacks whose TTL has expired."),
    "etcd": ("rackwright.cli.etcd:etcd", "Back up or restore etcd."),
    "state": ("rackwright.cli.state:state", "Back up, restore or migrate the state and keys of all stacks."),
    "schema": ("rackwright.cli.validate:schema", "Print the JSON schema of stack files, for editors."),
}
"""Command -> (module:function, one line of help), in the order of the help text."""

_DEFECT_HINT: Final = "this is a bug in rackwright: run the command again with RACKWRIGHT_TRACEBACK=1 and report the output"
_COULD_NOT_TELL: Final = 3
"""Exit code "undetermined" (`app`): a defect says nothing about the cluster."""


class Commands(TyperGroup):
    """The commands of the table, each created on first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all command names, for completion and suggestions."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with this name, or None."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, function = entry[0].split(":")
        return _command(cmd_name, getattr(import_module(module), function))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands in the help text without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _command(name: str, function: Callable[..., Any]) -> Any:
    if isinstance(function, typer.Typer):  # A command with subcommands.
        function.info.name = name
        return typer.main.get_command(function)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, context_settings=getattr(function, "settings", None))(function)
    return typer.main.get_command(single)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Create, configure and verify a GPU cluster from one typed stack file."""


def _program() -> Any:
    root = typer.Typer(name="rackwright", cls=Commands, add_completion=False, rich_markup_mode=None, no_args_is_help=True)
    root.callback()(_root)
    return typer.main.get_command(root)


def app() -> None:
    """Run the program. Exit codes: 0 success, 1 not as declared, 2 invalid input or usage, 3 undetermined."""
    try:
        _program()(prog_name="rackwright")
    except RackwrightError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _be_silent()
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # Typer turns a broken pipe into exit code 1.
            raise
        _be_silent()
    except Exception as defect:
        if os.environ.get("RACKWRIGHT_TRACEBACK"):
            raise
        print(f"{type(defect).__name__}: {defect}\n  {_DEFECT_HINT}", file=sys.stderr)
        sys.exit(_COULD_NOT_TELL)


def _be_silent() -> NoReturn:
    """Exit without output: the reader closed the pipe (`| head`), and Python would report it again while closing stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    sys.exit(0)


if __name__ == "__main__":
    app()
