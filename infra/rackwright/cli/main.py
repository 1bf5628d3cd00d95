"""`rackwright`: the program, its exit codes and what it prints for an error."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from rackwright import __version__
from rackwright.cli.command_group import Commands
from rackwright.cli.error_output import report_defect, report_system_error
from rackwright.cli.interruption import end_like_ctrl_c
from rackwright.cli.standard_streams import outlive_readers
from rackwright.errors import OUTPUT_LOST, RackwrightError


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
    """Run the program.

    Exit codes: 0 success, 1 not as declared, 2 invalid input or usage, 3 undetermined, 141 the reader of standard output closed early.
    """
    with end_like_ctrl_c(), outlive_readers() as pipe:
        try:
            _run()
        except SystemExit:
            if pipe is not None and pipe.lost:
                sys.exit(OUTPUT_LOST)
            raise


def _run() -> None:
    try:
        _invoke()
    except RackwrightError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as ended:
        # Typer turns a broken pipe into exit code 1. It is none of this program's output, which `outlive_readers` writes.
        if isinstance(ended.__context__, BrokenPipeError):
            report_defect(ended.__context__)
        raise
    except OSError as refused:
        report_system_error(refused)
    except Exception as defect:
        report_defect(defect)


def _invoke() -> None:
    try:
        _program()(prog_name="rackwright")
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


if __name__ == "__main__":
    app()
