"""`rackwright hosts`: import existing machines and run preflight checks on them."""

from __future__ import annotations

import typer

from rackwright.cli.hosts_import import import_machines
from rackwright.cli.hosts_scan import scan

hosts = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Import existing machines and run preflight checks on them.",
)
hosts.callback()(lambda: None)
hosts.command("import")(import_machines)
hosts.command("scan")(scan)
