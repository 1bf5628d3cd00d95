"""docs/reference/checks.md: every check of `rackwright verify` and `rackwright acceptance`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.catalog.checks import CheckSpec, Feature, Kind, Level, acceptance, checks
from reference.markdown import cell, head, table

_CHECKS: Final = Path(__file__).parents[2] / layout.CLUSTER_CHECKS
_TEXT: Final = """`rackwright verify STACK` runs the checks of kind `passive`. They only read, and are safe on a busy cluster.
`rackwright acceptance STACK` runs jobs. [Troubleshooting](../troubleshooting.md) lists the same checks by symptom.

- **on**: the nodes for which a check has one result: a group of the inventory, or `@entry` (jump hosts), `@insiders` (all other
  nodes), `@submit` (nodes that submit jobs), `@existing_machines` (all nodes of target hosts), `@bonds` and `@vlans` (nodes that declare
  some). `job on`: the check runs through the scheduler.
- **level**: the lowest verification level that includes the check. Without a note: `checks`.
- **needs**: a check is absent only if the plan lacks one of these parts.
- **node health**: each compute node also runs the check every minute and before a job, and is drained if the check fails.
- **evidence of**: the evidence is `simulated` if the target simulates this subsystem.
"""


def page() -> str:
    """Return the whole page."""
    head_ = head("Checks", "`catalog/checks.yml`, `catalog/acceptance.yml` and the checks themselves", _TEXT)
    verified = (line for subject, specs in _by_subject(checks()) for line in _section(subject, specs, reasons(subject)))
    accepted = (line for phase, specs in _by_subject(acceptance()) for line in _phase(phase, specs))
    return "\n".join([head_, *verified, "## Acceptance", "", "Phases of `rackwright acceptance`, in the order of the run.", "", *accepted])


def _by_subject(specs: Mapping[str, CheckSpec]) -> Iterator[tuple[str, list[CheckSpec]]]:
    for subject, found in groupby(specs.values(), key=lambda spec: spec.subject):
        yield subject, list(found)


def _section(subject: str, specs: Iterable[CheckSpec], why: Mapping[str, str]) -> Iterator[str]:
    yield from (f"## {subject}", "")
    yield from table(
        ("check", "scope", "reason", "remedy"),
        ((f"`{spec.key}`", _scope(spec), cell(why[spec.name]), _remedy(spec)) for spec in specs),
    )


def _phase(phase: str, specs: Iterable[CheckSpec]) -> Iterator[str]:
    yield from (f"### Phase {phase}", "")
    yield from table(("check", "scope", "remedy"), ((f"`{spec.key}`", _scope(spec), _remedy(spec)) for spec in specs))


def _scope(spec: CheckSpec) -> str:
    """Return where and when the check runs."""
    needs = [f"`{need}`" for need in spec.needs if need is not Feature.ALWAYS]
    parts = [
        f"{'job ' if spec.kind is Kind.JOB else ''}on `{spec.group}`",
        "" if spec.level is Level.CHECKS else f"level `{spec.level}`",
        f"needs {', '.join(needs)}" if needs else "",
        "node health" if spec.health else "",
        f"evidence of `{spec.hardware}`" if spec.hardware else "",
        "real hardware only" if spec.real_only else "",
    ]
    return "; ".join(filter(None, parts))


def _remedy(spec: CheckSpec) -> str:
    pods = f". On Kubernetes: {cell(spec.remedy_in_pods)}" if spec.remedy_in_pods else ""
    return f"{cell(spec.remedy)}{pods}"


@cache
def reasons(subject: str) -> Mapping[str, str]:
    """Return the reason of each check of a subject: the first line of its docstring."""
    tree = ast.parse((_CHECKS / f"test_{subject}.py").read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    return {function.name.removeprefix("test_"): (ast.get_docstring(function) or "").splitlines()[0] for function in functions}
