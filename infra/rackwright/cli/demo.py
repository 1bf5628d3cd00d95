"""`rackwright demo STACK train|finetune`: train or fine-tune a small model on a running stack, and report loss, speed and time lost."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from rackwright.cli.progress import show_message, show_progress


class Kind(StrEnum):
    """What can be demonstrated."""

    TRAIN = "train"
    FINETUNE = "finetune"


class Mode(StrEnum):
    """How gradients and weights are shared between ranks."""

    DDP = "ddp"
    FSDP2 = "fsdp2"


def demo(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    kind: Annotated[Kind, typer.Argument(help="What to run.")],
    steps: Annotated[int | None, typer.Option(min=10, max=100_000, help="Steps (default: train 200, finetune 150).")] = None,
    mode: Annotated[
        Mode | None, typer.Option(help="train: how ranks share gradients (ddp, the default), or gradients and weights (fsdp2).")
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="train: workers to train on (default: all).")] = None,
    seed: Annotated[int | None, typer.Option(help="train: seed of text, weights and batches (default: 1).")] = None,
    kill_worker: Annotated[
        bool,
        typer.Option("--kill-worker", help="train: kill a worker at a random step and start it again after 20 s (targets lab and vm)."),
    ] = False,
    kill_rank: Annotated[bool, typer.Option("--kill-rank", help="train: kill a rank at a random step.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schemas rackwright.demo/1, rackwright.finetune/1).")] = False,
) -> None:
    """Train a small transformer on all workers, or fine-tune it on one, as an ordinary user; print loss, speed and time lost.

    train: with checkpoints and restarts. The first undisturbed run with the same settings is the baseline. On CPUs the last loss of a later
    run must be bit-identical to the baseline's; on GPUs the mean of the last ten losses must be within 5 %.

    finetune: LoRA adapters for the newest checkpoint of train, on text with another spelling. The loss on that text must fall, and the
    merged model must be the base with its adapters.

    At Ctrl-C the jobs are cancelled and a killed worker is started again.

    Exit codes: 0 passed, 1 failed, 2 invalid input or a missing prerequisite, 3 undetermined or interrupted.
    """
    from rackwright.cli.render.demo import finetuning_text, text
    from rackwright.operations.demo.finetuning import FinetuneOptions, finetune
    from rackwright.operations.demo.training import TrainingOptions, train
    from rackwright.report.verdict import Verdict

    own = {"mode": mode and mode.value, "nodes": nodes, "seed": seed, "kill_worker": kill_worker or None, "kill_rank": kill_rank or None}
    if kind is Kind.TRAIN:
        found = train(stack, TrainingOptions.of(steps=steps, **own), show_progress, show_message)
    else:
        found = finetune(stack, FinetuneOptions.of(steps=steps, **own), show_progress, show_message)
    typer.echo(json.dumps(found, indent=2) if as_json else (text if kind is Kind.TRAIN else finetuning_text)(found))
    raise typer.Exit(Verdict(found["verdict"]["result"]).exit_code)
