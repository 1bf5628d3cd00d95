"""`rackwright`: the program, its exit codes and what it prints for an error."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, Any, Final, NoReturn

import typer

from rackwright import __version__
from rackwright.cli.command_group import Commands
from rackwright.errors import RackwrightError

_DEFECT_HINT: Final = "this is a bug in rackwright: run the command again with RACKWRIGHT_TRACEBACK=1 and report the output"
_OF_THE_MACHINE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE})
"""Errors of the disk, of permissions and of limits: no defect of the program."""
_MACHINE_HINT: Final = "check free space, permissions and limits (`df`, `ls -ld`, `ulimit -a`), then run the command again"
_COULD_NOT_TELL: Final = 3
"""Exit code "undetermined" (`app`): a defect proves nothing about the cluster."""


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
    except OSError as refused:
        if refused.errno not in _OF_THE_MACHINE or os.environ.get("RACKWRIGHT_TRACEBACK"):
            _report_defect(refused)
        print(f"{refused.filename or 'standard output'}: {refused.strerror}\n  {_MACHINE_HINT}", file=sys.stderr)
        _be_silent(_COULD_NOT_TELL)
    except Exception as defect:
        _report_defect(defect)


def _report_defect(defect: Exception) -> NoReturn:
    """Exit with a report of an unexpected error, or raise it where the user asked for its traceback."""
    if os.environ.get("RACKWRIGHT_TRACEBACK"):
        raise defect
    print(f"{type(defect).__name__}: {defect}\n  {_DEFECT_HINT}", file=sys.stderr)
    sys.exit(_COULD_NOT_TELL)


def _be_silent(status: int = 0) -> NoReturn:
    """Exit without more output: the reader closed the pipe (`| head`) or the disk is full, and Python would report it again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    sys.exit(status)


if __name__ == "__main__":
    app()
