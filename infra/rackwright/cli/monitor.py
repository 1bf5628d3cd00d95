"""`rackwright monitor STACK`: boards in the browser, or one query."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rackwright.cli.progress import show_message
from rackwright.cli.standard_streams import end_if_unread
from rackwright.errors import InputError

if TYPE_CHECKING:
    from rackwright.operations.monitor.boards import BoardSession

SCHEMA: Final = "rackwright.query/1"


def monitor(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    query: Annotated[str | None, typer.Option("--query", "-q", metavar="PROMQL", help="Print what an expression evaluates to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=f"Print the result of --query as JSON (schema {SCHEMA}).")] = False,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Local port (default: a free one).")] = None,
) -> None:
    """Open metrics, alerts and boards of a running stack in the browser, through SSH; Ctrl-C ends it."""
    if query is not None and port is not None:
        raise InputError("cannot be combined with --port", path="--query", hint="a query opens no port")
    if as_json and query is None:
        raise InputError("needs --query", path="--json", hint="pass an expression, such as `--query up`")
    if query is not None:
        _print_result(stack, query, as_json=as_json)
    else:
        _serve(stack, port or 0)


def _print_result(stack: str, expression: str, *, as_json: bool) -> None:
    from rackwright.cli.render.table import table
    from rackwright.operations.monitor.query import query_stack

    found = query_stack(stack, expression)
    if as_json:
        print(json.dumps({"schema": SCHEMA, **found.data()}, indent=2))
    elif found.series:
        print(table(*found.rows()))
    else:
        show_message("no series")


def _serve(stack: str, port: int) -> None:
    from rackwright.operations.monitor.boards import open_boards

    closed = ""
    try:
        with open_boards(stack, port) as session:
            closed = f": the tunnel to {session.node} is closed"
            _print_addresses(session)
            session.serve()
    except KeyboardInterrupt:
        show_message(f"\nstopped{closed}")


def _print_addresses(session: BoardSession) -> None:
    rows = {"boards": session.addresses.page, "Prometheus": session.addresses.prometheus, "Alertmanager": session.addresses.alertmanager}
    print("\n".join(f"{name:<14}{address}" for name, address in rows.items()), flush=True)
    end_if_unread()
    show_message(f"Through an SSH session with {session.node}. Who has these addresses can read all metrics. Press Ctrl-C to close.")
