"""Findings about the site's catalogue: invalid files, names of the product's rows, GPUs that no catalogue has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rackwright import layout
from rackwright.catalog import gpus, rows, site
from rackwright.model.finding import Finding, Severity, did_you_mean_model

_COLUMN = {"gpus": "model", "switches": "model", "instances": "name"}


def site_findings() -> tuple[Finding, ...]:
    """Return all findings. They concern every stack of the project, because every stack can use the rows."""
    return (*site.catalog().findings, *_duplicate_names(), *_unknown_gpus())


def _duplicate_names() -> Iterator[Finding]:
    """Yield a finding for each row with the name of a product's row, because two figures for one name would be ambiguous."""
    for kind, column in _COLUMN.items():
        added: Iterable[str] = getattr(site.catalog().rows, kind)
        if added:
            product = {row[column] for row in rows(kind)}
            for name in product.intersection(added):
                hint = "choose another name for the row; the product's rows cannot be changed"
                yield _finding(f"{kind}.{name}", "the product's catalogue has a row of this name", hint)


def _unknown_gpus() -> Iterator[Finding]:
    for name, row in site.catalog().rows.instances.items():
        if row.gpu_model is not None and row.gpu_model not in gpus():
            hint = did_you_mean_model(row.gpu_model, gpus(), site.hint_to_add("gpus", row.gpu_model))
            yield _finding(f"instances.{name}.gpu_model", f"GPU model `{row.gpu_model}` is not in the catalogue", hint)


def _finding(path: str, cause: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, site.RULE, f"{layout.SITE_CATALOG}: {path}", cause, hint)
