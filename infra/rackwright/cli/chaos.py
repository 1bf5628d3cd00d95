"""`rackwright chaos`: inject failures into a running stack, and report what they cost."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rackwright.cli.progress import show_message, show_progress
from rackwright.errors import InputError


def chaos(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    mode: Annotated[str, typer.Option("--mode", help="What fails, or `random`; an unknown mode lists all.")] = "",
    interval: Annotated[str, typer.Option("--interval", help="Time from one event to the next.")] = "60s",
    duration: Annotated[str, typer.Option("--for", help="Duration of the run (default: one event).")] = "",
    hold: Annotated[
        str | None, typer.Option("--hold", help="Duration of each failure that has one (default: see docs/chaos.md), at most 1h.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of modes, nodes and times; repeats a run.")] = None,
    bandwidth: Annotated[str, typer.Option("--bandwidth-limit", help="network_slow: bandwidth, in units of tc(8).")] = "10mbit",
    target: Annotated[str | None, typer.Option("--target", metavar="NODE", help="Inject into this node only.")] = None,
    everybody: Annotated[bool, typer.Option("--include-jobs-of-users", help="Disturb jobs of other users, too.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo all that earlier commands left, and do nothing else.")] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Print the score of all recorded runs, after a new one if --mode is given.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.chaos/1); with --score a list.")] = False,
) -> None:
    """Inject failures into a running lab or virtual cluster, one at a time, and report detection, recovery and lost training steps.

    The stack file must contain `chaos: allowed`. Each failure is undone at its end, even if this command is killed.

    Exit codes: 0 all undone and recovered, 1 not so, 2 invalid input or not allowed, 3 undetermined.
    """
    from rackwright.cli.chaos_options import parse_bandwidth, parse_hold, parse_mode
    from rackwright.cli.duration_option import parse_duration
    from rackwright.cli.render.chaos import run_text, score_text
    from rackwright.operations.chaos import records
    from rackwright.operations.chaos.session import ChaosOptions, inject_failures, undo_all
    from rackwright.report.verdict import Verdict

    if undo:
        show_message(f"stack {stack}: {len(undo_all(stack, show_message))} failures undone")
        return
    code = 0
    if mode:
        every, whole = parse_duration("--interval", interval), parse_duration("--for", duration or interval)
        chosen = parse_mode(mode)
        lasts = parse_hold(chosen, hold)
        options = ChaosOptions(chosen, every, whole, seed, parse_bandwidth(bandwidth), target, everybody, lasts)
        found = inject_failures(stack, options, show_progress, show_message)
        code = Verdict(found["verdict"]["result"]).exit_code
        if not score:
            typer.echo(json.dumps(found, indent=2) if as_json else run_text(found))
    elif not score:
        raise InputError("is missing", path="--mode", hint="choose a mode, for example `--mode rank_kill`, or pass --score or --undo")
    if score:
        recorded = list(records.load_all(stack, show_message))
        typer.echo(json.dumps(recorded, indent=2) if as_json else score_text(stack, recorded))
    raise typer.Exit(code)
