"""`rackwright demo STACK train`: train a small model on a running stack, and report loss, speed and time lost."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from rackwright.cli.progress import show_message, show_progress


class Kind(StrEnum):
    """What can be demonstrated."""

    TRAIN = "train"


class Mode(StrEnum):
    """How gradients and weights are shared between ranks."""

    DDP = "ddp"
    FSDP2 = "fsdp2"


def demo(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    kind: Annotated[Kind, typer.Argument(help="What to run.")],
    steps: Annotated[int, typer.Option(min=10, max=100_000, help="Training steps.")] = 200,
    mode: Annotated[Mode, typer.Option(help="How ranks share gradients (ddp), or gradients and weights (fsdp2).")] = Mode.DDP,
    nodes: Annotated[int | None, typer.Option(min=1, help="Workers to train on (default: all).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of text, weights and batches.")] = 1,
    kill_worker: Annotated[
        bool, typer.Option("--kill-worker", help="Kill a worker at a random step and start it again after 20 s (targets lab and vm).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.demo/1).")] = False,
) -> None:
    """Train a small transformer on all workers as an ordinary user, with checkpoints and restarts; print loss, speed and time lost.

    The first undisturbed run with the same settings is the baseline. On CPUs the last loss of a later run must be bit-identical to the
    baseline's; on GPUs the mean of the last ten losses must be within 5 %.

    Exit codes: 0 passed, 1 failed, 2 invalid input or a missing prerequisite, 3 undetermined.
    """
    from rackwright.cli.render.demo import text
    from rackwright.operations.demo.training import TrainingOptions, train
    from rackwright.report.verdict import Verdict

    options = TrainingOptions(mode.value, steps, seed, nodes, kill_worker)
    found = train(stack, options, show_progress, show_message)
    typer.echo(json.dumps(found, indent=2) if as_json else text(found))
    raise typer.Exit(Verdict(found["verdict"]["result"]).exit_code)
