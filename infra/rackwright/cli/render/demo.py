"""A demo run as text: verdict, figures, and what they apply to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rackwright.cli.render.table import table
from rackwright.report.serving_html import stage_rows
from rackwright.report.training_html import tuned_figures

_ROWS: Final = 10
"""Rows of the loss curve, the last step included."""


def text(document: Mapping[str, Any]) -> str:
    """Return the result of a run."""
    return "\n".join(_lines(document))


def finetuning_text(document: Mapping[str, Any]) -> str:
    """Return the result of a fine-tuning run."""
    verdict = document["verdict"]
    figures = [*tuned_figures(document), *((f"{name}: files", document[name] and document[name]["path"]) for name in ("adapter", "merged"))]
    parts = [f"{verdict['result']}: {verdict['reason']}"]
    parts += [f"error: {document['error']}"] if document["error"] else []
    parts += [f"evidence: {'; '.join(document['evidence']) or 'none'}", f"folder: {document['folder']}", ""]
    if document["loss"]:
        parts += [table(("step", "loss on new text"), [(one["step"], f"{one['loss']:.4f}") for one in _curve(document["loss"])]), ""]
    return "\n".join([*parts, table(("result", "value"), figures)])


def serving_text(document: Mapping[str, Any]) -> str:
    """Return the result of a serving run."""
    verdict, settings, totals = document["verdict"], document["settings"], document["totals"]
    parts = [f"{verdict['result']}: {verdict['reason']}"]
    parts += [f"error: {document['error']}"] if document["error"] else []
    parts += [f"evidence: {'; '.join(document['evidence']) or 'none'}", f"folder: {document['folder']}"]
    parts += [f"clients: {settings['retry']}", f"autoscaler: {settings['autoscaler']}"]
    parts += [", ".join(f"{name} {totals[name]}" for name in ("sent", "completed", "refused", "lost")), ""]
    parts += [table(*stage_rows(document["stages"])), ""]
    scalings = [(f"{one['at']:.0f} s", one["stage"], one["from"], one["to"], sum(one["waiting"])) for one in document["scalings"]]
    parts += [table(("after", "stage", "replicas", "to", "waiting requests"), scalings)]
    parts += [f"lost in {one['stage']}: {one['lost']}" for one in document["lost"]]
    return "\n".join(parts)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    verdict, settings, time = document["verdict"], document["settings"], document["time"]
    yield f"{verdict['result']}: {verdict['reason']}" + (f" ({verdict['reference']})" if verdict["reference"] else "")
    if verdict["result"] == "unknown":
        yield f"  run `rackwright demo {document['stack']} train --mode {settings['mode']} --steps {settings['steps']}` for a baseline"
    if document["error"]:
        yield f"error: {document['error']}"
    yield f"evidence: {'; '.join(document['evidence']) or 'none'}"
    yield f"{settings['mode']}, {settings['ranks']} ranks on {settings['nodes']} nodes, {settings['steps']} steps"
    yield f"folder: {document['folder']}"
    yield ""
    yield table(("step", "loss"), [(one["step"], f"{one['loss']:.4f}") for one in _curve(document["loss"])])
    yield ""
    yield table(("result", "value"), list(_figures(document)))
    yield ""
    yield table(
        ("attempt", "job", "nodes", "outcome", "resumed from"),
        [(one["number"], one["job"], one["nodes"], one["outcome"], one["resumed_from"]) for one in document["attempts"]],
    )
    yield ""
    yield table(("time", "seconds"), [(name, f"{seconds:.1f}") for name, seconds in time.items()])


def _curve(loss: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return at most that many points, evenly spaced, with the last one."""
    every = max(1, -(-len(loss) // _ROWS))
    return [one for position, one in enumerate(loss, start=1) if position % every == 0 or position == len(loss)]


def _figures(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    rank = "GPU" if (document["environment"] or {}).get("backend") == "nccl" else "rank"
    yield "final loss", "unknown" if document["final_loss"] is None else f"{document['final_loss']:.6f} (bits {document['final_bits']})"
    for name, key in (("tokens/s", "tokens_s"), (f"tokens/s per {rank}", "tokens_s_per_rank")):
        yield name, "unknown" if document[key] is None else f"{document[key]:,.0f}"
    for one in document["efficiency"]:
        yield f"scaling efficiency, {one['ranks']} ranks", f"{one['value']:.2f}"
    for one in document["failures"]:
        lost = "unknown" if one["seconds"] is None else f"{one['seconds']:.1f} s"
        yield f"failure after step {one['step']}", f"{lost}, {one['steps_lost']} steps; restarted by {one['restarted_by']}"
    yield "goodput", f"{document['goodput']:.1%}"


TEXTS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {"train": text, "finetune": finetuning_text, "serve": serving_text}
"""How the result of each kind is printed."""
