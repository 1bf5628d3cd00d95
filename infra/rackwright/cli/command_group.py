"""The commands of the table as Typer runs them. A command's module is imported only when the command runs, to keep start-up fast."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from rackwright.cli.commands import COMMANDS


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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names; suggest one for a misspelt name."""
        near = [] if args[0] in COMMANDS else get_close_matches(args[0], COMMANDS, n=1)
        if near:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Typer validates arguments with pydantic, whose prefix (`Value error,`) is of no use to a user."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as wrong:
            wrong.message = wrong.message.removeprefix("Value error, ")
            raise

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
