"""docs/reference/cli.md: every command with its arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rackwright.cli.command_group import Commands
from rackwright.cli.commands import COMMANDS
from reference.markdown import cell, code, head, table

_TEXT: Final = """`rackwright --help` lists the commands, `rackwright COMMAND --help` prints one section of this page. STACK is the
name of a stack: `lab` is the file `stacks/Pulumi.lab.yaml`.

## Exit codes

| exit code | meaning |
|---|---|
| 0 | success; the cluster is as declared |
| 1 | the cluster is not as declared, or the command failed |
| 2 | invalid stack file, input or usage |
| 3 | undetermined: a part could not be queried |
| 141 | the reader of standard output closed before the last byte, like that of `head` |

A command that changes something completes its work even if its output has no reader; `rackwright status STACK` prints the verdict.
A command with other codes states them below.
"""


def page() -> str:
    """Return the whole page."""
    root = Commands(name="rackwright")
    return "\n".join(
        [head("Command line", "the definitions of the commands", _TEXT), *(line for name in COMMANDS for line in _section(root, name))]
    )


def _section(root: Commands, name: str) -> Iterator[str]:
    command = root.get_command(None, name)
    with command.make_context(f"rackwright {name}", [], resilient_parsing=True) as context:
        yield from _describe(command, context, "##")
        for child in _children(command, context):
            inner = command.get_command(context, child)
            with inner.make_context(child, [], parent=context, resilient_parsing=True) as below:
                yield from _describe(inner, below, "###")


def _children(command: Any, context: Any) -> list[str]:
    """Return the names of the subcommands; a plain command has none."""
    return list(command.list_commands(context)) if hasattr(command, "list_commands") else []


def _describe(command: Any, context: Any, level: str) -> Iterator[str]:
    yield from (f"{level} {_path(context)}", "")
    for paragraph in (command.help or "").split("\n\n"):
        yield from (cell(paragraph), "")
    usage = context.get_usage().removeprefix("Usage: ")
    yield from ("```text", " ".join(usage.split()), "```", "")
    records = [parameter.get_help_record(context) for parameter in command.params]
    yield from table(("argument or option", "meaning"), ((code(names), cell(text)) for names, text in filter(None, records)))


def _path(context: Any) -> str:
    """Return the words of a command without the arguments of the groups above it."""
    return " ".join(word for word in context.command_path.split() if not word.startswith("{"))
