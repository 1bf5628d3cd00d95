"""`rackwright demo STACK train|finetune|serve`: train, fine-tune or serve a small model on a running stack, and report the result."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from rackwright.cli.progress import show_message, show_progress
from rackwright.errors import InputError


class Kind(StrEnum):
    """What can be demonstrated."""

    TRAIN = "train"
    FINETUNE = "finetune"
    SERVE = "serve"


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
    clients: Annotated[int | None, typer.Option(min=16, max=200, help="serve: most clients at a time (default: 40).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schemas rackwright.demo/1, finetune/1, serve/1).")] = False,
) -> None:
    """Train a small transformer on all workers, fine-tune it on one, or serve it, as an ordinary user; print what was measured.

    train: with checkpoints and restarts. The first undisturbed run with the same settings is the baseline. On CPUs the last loss of a later
    run must be bit-identical to the baseline's; on GPUs the mean of the last ten losses must be within 5 %.

    finetune: LoRA adapters for the newest checkpoint of train, on text with another spelling. The loss on that text must fall, and the
    merged model must be the base with its adapters.

    serve (Kubernetes): the newest checkpoint of train behind a Service, under load through a scale-up, a rolling update and a scale-down.
    No request may be lost.

    At Ctrl-C the jobs are cancelled, the server is deleted, and a killed worker is started again.

    Exit codes: 0 passed, 1 failed, 2 invalid input or a missing prerequisite, 3 undetermined or interrupted.
    """
    from rackwright.cli.render import demo as render
    from rackwright.operations.demo import finetuning, serving, training
    from rackwright.report.verdict import Verdict

    own = {"mode": mode and mode.value, "nodes": nodes, "seed": seed, "kill_worker": kill_worker or None, "kill_rank": kill_rank or None}
    if kind is Kind.SERVE:
        found = serving.serve(stack, serving.ServingOptions.of(clients, steps=steps, **own), show_progress, show_message)
    elif clients is not None:
        raise InputError(f"is an option of serve (found {kind.value})", path="--clients", hint=f"run {kind.value} without --clients")
    elif kind is Kind.TRAIN:
        found = training.train(stack, training.TrainingOptions.of(steps=steps, **own), show_progress, show_message)
    else:
        found = finetuning.finetune(stack, finetuning.FinetuneOptions.of(steps=steps, **own), show_progress, show_message)
    typer.echo(json.dumps(found, indent=2) if as_json else render.TEXTS[kind.value](found))
    raise typer.Exit(Verdict(found["verdict"]["result"]).exit_code)
