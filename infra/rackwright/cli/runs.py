"""`rackwright runs`: the last converge runs of a stack, and the complete record of one."""

from __future__ import annotations

from typing import Annotated

import typer


def runs(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    number: Annotated[int | None, typer.Argument(help="Run to print (default: list all on record).")] = None,
    node: Annotated[list[str] | None, typer.Option(metavar="NODE", help="With NUMBER: task results of this node; repeatable.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="With NUMBER: failed and unreachable task results only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.runs/1, or rackwright.run/1).")] = False,
) -> None:
    """List the last ten runs that applied the playbooks, or print one: every task result of every node, with what the programs printed.

    Results of tasks with secrets are not on record, and secrets in other results are masked.

    Exit codes: 0 printed, 2 invalid input or no such run.
    """
    from rackwright.cli.render import runs as show
    from rackwright.errors import InputError
    from rackwright.operations.run_records import list_runs, read_run

    if number is None:
        if node or failed:
            raise InputError(
                "--node and --failed select results of one run", path="NUMBER", hint=f"run `rackwright runs {stack}` for a list"
            )
        typer.echo(show.list_as_json(stack, list_runs(stack)) if as_json else show.list_as_text(list_runs(stack)))
        return
    run = read_run(stack, number, nodes=node or (), failed=failed)
    typer.echo(show.run_as_json(stack, run) if as_json else show.run_as_text(run))
