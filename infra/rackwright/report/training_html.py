"""The section "Training" of the report page: the last demo runs, with the loss as a drawing, beside published figures of other clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from rackwright.report.verdict import Verdict

STYLE: Final = """
.curve{width:100%;max-width:40rem;display:block;font-size:12px}.curve polyline{fill:none;stroke:var(--ok);stroke-width:1.5}
.curve line{stroke:var(--dim);stroke-width:.5}.curve .lost{stroke:var(--bad);stroke-width:1;stroke-dasharray:3 3}
.curve text{fill:currentColor}
h3{font-size:1rem;margin:1.2rem 0 .4rem}.wide{overflow-x:auto;margin:.6rem 0}
.wide th{text-align:left;font-weight:normal;color:var(--dim);padding:.15rem .5rem .15rem 0}
.wide th:last-child{text-align:right}.wide td{overflow-wrap:normal}
"""
_WIDTH, _HEIGHT = 400, 200
"""Size of the drawing in its own units, which are pixels on a phone."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 8, 20
"""Margins of the drawing, for the labels of its axes."""
_POINTS: Final = 400
"""Points of the drawing, one for each unit of its width; a run may have 100,000 steps."""
_SIMULATED: Final = "simulated: "
"""Start of an entry of a record's evidence that names a simulated part of the stack."""

_ONE_NODE: Final = "github.com/drmysore/nebius-h100-8gpu-benchmark, 7b3b53f, exercise2/results"
_TWO_NODES: Final = "github.com/drmysore/nebius-h100-16gpu-benchmark, 7401874, exercise2/results/benchmark_16gpu_new.json"
REFERENCE: Final = (
    ("matrix product, BF16, one GPU", "730.97 TFLOPS", f"{_ONE_NODE}/benchmark_single_new.json"),
    ("memory bandwidth, one GPU", "3.02 TB/s", f"{_ONE_NODE}/benchmark_single_new.json"),
    ("NCCL all-reduce, 8 GPUs", "442.28 GB/s", f"{_ONE_NODE}/benchmark_distributed_new.json"),
    ("NCCL all-reduce, 16 GPUs", "435.91 GB/s", _TWO_NODES),
    ("training, 8 GPUs", "331,842 tokens/s", f"{_ONE_NODE}/benchmark_distributed_new.json"),
    ("training, 16 GPUs", "136,970 tokens/s", _TWO_NODES),
    ("loss after LoRA of Qwen2-7B, 16 GPUs", "0.39 (goal: below 0.5)", "github.com/drmysore/nebius-h100-16gpu-benchmark, 7401874, DEMO.md"),
)
"""Quantity, value and source: what others published of NVIDIA H100 80GB HBM3, 8 and 2 x 8, PyTorch 2.3.0, NCCL 2.20.5, 2025-12-16."""


def training_section(records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the section as HTML with all texts escaped, empty without a record. `records`: the newest of each kind."""
    trained, tuned = records.get("train"), records.get("finetune")
    parts = [*(_trained(trained) if trained else ()), *(_tuned(tuned) if tuned else ())]
    return ["<h2>Training</h2>", *parts, *_reference()] if parts else []


def _trained(record: Mapping[str, Any]) -> Iterator[str]:
    yield head(record)
    if record["loss"]:
        yield curve(record["loss"], [(one["step"], one["resumed_from"]) for one in record["failures"]])
    yield pairs(_figures(record))
    yield table_of(("attempt", "job", "outcome", "resumed from"), [_attempt(one) for one in record["attempts"]])
    if record["failures"]:
        heads = ("interrupted after", "cause", "restarted by", "steps lost", "seconds lost")
        yield table_of(heads, [_failure(one, record["injected"]) for one in record["failures"]])


def head(record: Mapping[str, Any]) -> str:
    """Return the verdict, and to what the figures apply: simulated hardware and CPUs are named first."""
    verdict = record["verdict"]
    simulated = [text.removeprefix(_SIMULATED) for text in record["evidence"] if text.startswith(_SIMULATED)]
    rest = "; ".join(text for text in record["evidence"] if not text.startswith(_SIMULATED))
    label = f"<b>SIMULATED: {escape(', '.join(simulated))}</b>. " if simulated else ""
    line = f"<b class={escape(verdict['result'])}>{escape(verdict['result'])}</b>: {escape(verdict['reason'])}"
    error = f"<br>{escape(record['error'])}" if record["error"] else ""
    about = f"{escape(record['run'])}, started {escape(record['started'])}<br>{label}{escape(rest)}"
    return f"<p>{line}{error}<br><span class=dim>{about}</span></p>"


def _figures(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    settings, environment = record["settings"], record["environment"] or {}
    rank = "GPU" if environment.get("backend") == "nccl" else "rank"
    yield "ranks, nodes, mode", f"{settings['ranks']}, {settings['nodes']}, {settings['mode']}"
    yield "tokens/s, all ranks", _number(record["tokens_s"], ",.0f")
    yield f"tokens/s per {rank}", _number(record["tokens_s_per_rank"], ",.0f")
    for one in record["efficiency"]:
        yield f"scaling efficiency, {one['ranks']} ranks", f"{one['value']:.2f} ({one['tokens_s']:,.0f} tokens/s)"
    yield "loss after the last step", _number(record["final_loss"], ".4f")
    yield "goodput", f"{record['goodput']:.1%} of {record['time']['wall']:.0f} s"
    yield "attempts", str(len(record["attempts"]))


def _attempt(one: Mapping[str, Any]) -> tuple[str, ...]:
    steps = ", ".join(str(step) for step in one["resumed_from"])
    return str(one["number"]), f"{one['job']} on {one['nodes']}", one["outcome"], steps or "-"


def _failure(one: Mapping[str, Any], injected: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the row of an interruption. Its cause is the fault that the command injected before ranks resumed, if there is one."""
    seconds = one["seconds"]
    faults = [fault for fault in injected if seconds is None or fault["at"] <= one["at"] + seconds]
    cause = _cause(faults[-1]) if faults else "not injected"
    return f"step {one['step']}", cause, one["restarted_by"], str(one["steps_lost"]), _number(seconds, ".1f")


def _cause(fault: Mapping[str, Any]) -> str:
    what = f"a rank on {fault['node']}" if fault["kind"] == "kill-rank" else fault["node"]
    return f"{what} killed by --{fault['kind']}"


def _tuned(record: Mapping[str, Any]) -> Iterator[str]:
    yield "<h3>Fine-tuning (LoRA)</h3>"
    yield head(record)
    yield pairs(tuned_figures(record))


def tuned_figures(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each figure of a fine-tuning run."""
    adapter, loss = record["adapter"], record["evaluation"]
    yield "base", f"{record['base']['run']}, step {record['base']['step']}" if record["base"] else "unknown"
    if adapter:
        yield "adapter", f"{adapter['parameters']:,} of {adapter['total']:,} weights, {adapter['bytes']:,} bytes"
    if loss:
        for text in ("new", "old"):
            yield f"loss on {text} text", f"{loss[text]['before']:.3f} -> {loss[text]['after']:.3f}"
        yield "merged model, difference", f"{loss['merged_difference']:.1e} (limit {loss['limit']:.0e})"
    yield "tokens/s", _number(record["tokens_s"], ",.0f")


def curve(loss: Sequence[Mapping[str, Any]], interruptions: Sequence[tuple[int, int]]) -> str:
    """Return the loss by step as inline SVG, with a dashed line where training was interrupted."""
    every = -(-len(loss) // _POINTS)
    shown = [one for position, one in enumerate(loss) if position % every == 0 or position == len(loss) - 1]
    first, last = int(loss[0]["step"]), max(int(loss[-1]["step"]), int(loss[0]["step"]) + 1)
    high: float = max(one["loss"] for one in shown) or 1.0

    def x(step: int) -> float:
        return _LEFT + (step - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - value / high * (_HEIGHT - _TOP - _BOTTOM)

    points = " ".join(f"{x(one['step']):.1f},{y(one['loss']):.1f}" for one in shown)
    grid = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        f'<text x="{_LEFT - 4}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.1f}</text>'
        for value in (0.0, high / 2, high)
    )
    lost = "".join(
        f'<line class="lost" x1="{x(step):.1f}" x2="{x(step):.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}">'
        f"<title>interrupted after step {step}, resumed from step {resumed}</title></line>"
        for step, resumed in interruptions
        if first <= step <= last
    )
    bottom, right = f'y="{_HEIGHT - 4}"', f'x="{_WIDTH - _RIGHT}"'
    ends = f'<text x="{_LEFT}" {bottom}>step {first}</text><text {right} {bottom} text-anchor="end">{last}</text>'
    title = f"Loss by step, from {loss[0]['loss']:.2f} to {loss[-1]['loss']:.2f}"
    shapes = f'<title>{title}</title>{grid}{lost}<polyline points="{points}"/>{ends}'
    return f'<svg class=curve viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img aria-label="{title}">{shapes}</svg>'


def _reference() -> Iterator[str]:
    rows = [(f"{escape(name)}<br><span class=dim>{escape(source)}</span>", escape(value)) for name, value, source in REFERENCE]
    body = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in rows)
    title = "<b>Reference: figures that others published of 8 and 16 H100</b> <span class=dim>not of this stack</span>"
    yield f"<details open><summary>{title}</summary>"
    yield f"<table>{body}</table></details>"


def pairs(rows: Iterator[tuple[str, str]]) -> str:
    return "<table>" + "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows) + "</table>"


def table_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><tr>{head}</tr>{body}</table></div>"


def _number(value: float | None, form: str) -> str:
    return Verdict.UNKNOWN.value if value is None else format(value, form)
