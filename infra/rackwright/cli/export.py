"""`rackwright export`: configuration of a stack for other systems of the site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

SCHEMA: Final = "rackwright.export/1"

export = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Write configuration of a stack for other systems of the site."
)
export.callback()(lambda: None)


@export.command("monitoring")
def monitoring(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Folder for the files; created if it does not exist.")],
    http_sd_url: Annotated[
        str | None,
        typer.Option("--http-sd-url", metavar="URL", help="URL at which you serve targets.json; adds a scrape configuration with http_sd."),
    ] = None,
    with_client_key: Annotated[
        bool, typer.Option("--with-client-key", help="Also write the client certificate and its private key, a secret (mode 0600).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help=f"Print JSON (schema {SCHEMA}).")] = False,
) -> None:
    """Write targets, scrape configuration, alert rules and routes for the site's Prometheus and Alertmanager.

    Only for `monitoring: {kind: external}`. Exit codes: 0 done, 2 invalid input.
    """
    from rackwright.operations.monitoring_export import export_monitoring

    written = export_monitoring(stack, to, http_sd_url=http_sd_url, with_client_key=with_client_key)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": stack, "files": [str(path) for path in written]}, indent=2))
        return
    for path in written:
        typer.echo(path)
    if with_client_key:
        typer.echo("client.key is a secret: each process that has it can read all metrics of the stack")


@export.command("dashboards")
def dashboards(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Folder for the files; created if it does not exist.")],
    as_json: Annotated[bool, typer.Option("--json", help=f"Print JSON (schema {SCHEMA}).")] = False,
) -> None:
    """Write the boards of `rackwright monitor` as dashboards of Grafana 11.6 and later, one JSON file each.

    The stack need not be up. Exit codes: 0 done, 2 invalid input.
    """
    from rackwright.cli.progress import show_warning
    from rackwright.operations.dashboards_export import export_dashboards

    name, written = export_dashboards(stack, to, show_warning)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "stack": name, "files": [str(path) for path in written]}, indent=2))
        return
    for path in written:
        typer.echo(path)
