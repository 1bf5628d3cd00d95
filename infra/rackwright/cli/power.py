"""`rackwright power`: power state of existing machines, and its change, through their BMCs."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from rackwright.errors import InputError


class PowerCommand(StrEnum):
    """What `rackwright power` does."""

    STATUS = "status"
    CERTIFICATES = "certificates"
    ON = "on"
    OFF = "off"
    CYCLE = "cycle"


_READING = (PowerCommand.STATUS, PowerCommand.CERTIFICATES)


def power(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    command: Annotated[PowerCommand, typer.Argument(help="What to do.")],
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes, or ranges like worker[0-3]. Required for on, off and cycle.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="off, cycle: accept jobs and nodes in service, and cut the power of a node that does not shut down."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.power/1).")] = False,
) -> None:
    """Query or change the power of existing machines through their BMCs (target hosts; Redfish or IPMI).

    `certificates` prints what BMCs present, to be compared and declared. `off` and `cycle` ask the operating system to shut down, and
    refuse nodes that run jobs or are not drained. `on` waits until the node answers over SSH.

    Exit codes: 0 success, 1 a node is not as requested, or refused, 2 invalid input, 3 a BMC or a state is undetermined.
    """
    from rackwright.cli.render import power as show
    from rackwright.operations.power.certificates import read_certificates
    from rackwright.operations.power.control import Action, control_power

    if command not in _READING and not nodes:
        raise InputError(f"`{command}` needs the names of nodes", path="NODE", hint=f"run `rackwright power {stack} {command} NODE`")
    if force and command not in (PowerCommand.OFF, PowerCommand.CYCLE):
        raise InputError(f"has no effect on `{command}`", path="--force", hint="remove it")
    if command is PowerCommand.CERTIFICATES:
        found = read_certificates(stack, nodes or ())
        typer.echo(json.dumps(show.certificates_data(found), indent=2) if as_json else show.certificates_text(found))
        raise typer.Exit(found.exit_code)
    done = control_power(stack, Action(command.value), nodes or (), _say, force=force)
    typer.echo(json.dumps(show.power_data(done), indent=2) if as_json else show.power_text(done))
    raise typer.Exit(done.exit_code)


async def _say(text: str) -> None:
    typer.echo(text, err=True)
