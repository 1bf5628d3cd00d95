"""docs/troubleshooting.md, made from the symptoms and the checks of the catalogue."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from rackwright import layout
from rackwright.catalog.checks import CheckSpec, Kind, acceptance, checks
from rackwright.catalog.symptoms import Symptom, symptoms

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "troubleshooting.md"
_CHECKS: Final = ROOT / layout.CLUSTER_CHECKS
_HEAD: Final = """# When something is wrong

Made by `make docs` from the catalogue of checks; a change here is lost. By symptom: what is noticed, where to look first, and which
checks know more. A check that failed or could not tell prints its own "what now"; `rackwright verify STACK` runs the passive ones in
seconds, on a busy cluster too. STACK and NODE are names to fill in.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_contents(), *(line for symptom in symptoms() for line in _section(symptom))])


def _contents() -> Iterator[str]:
    for symptom in symptoms():
        yield f"- [{symptom.title}](#{_anchor(symptom.title)})"
    yield ""


def _anchor(title: str) -> str:
    """As GitHub makes it."""
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")


def _section(symptom: Symptom) -> Iterator[str]:
    yield from (f"## {symptom.title}", "", symptom.notice, "", "Look first at:", "")
    yield from (f"{number}. {_named(step)}" for number, step in enumerate(symptom.look_first, 1))
    yield ""
    rows = [row for subject in symptom.checks for row in _rows(spec for spec in checks().values() if spec.subject == subject)]
    if rows:
        yield from ("| check | why | what now |", "|---|---|---|", *rows, "")
    jobs = [spec for phase in symptom.acceptance for spec in acceptance().values() if spec.subject == phase]
    if jobs:
        rows = [f"| `{spec.key}` | {_cell(spec.remedy)}{_in_pods(spec)} |" for spec in jobs]
        yield from ("| check of `rackwright accept` | what now |", "|---|---|", *rows, "")


def _rows(specs: Iterable[CheckSpec]) -> Iterator[str]:
    for spec in specs:
        job = " (a job)" if spec.kind is Kind.JOB else ""
        yield f"| `{spec.key}`{job} | {_cell(reasons(spec.subject)[spec.name])} | {_cell(spec.remedy)} |"


def _in_pods(spec: CheckSpec) -> str:
    """What else there is to do where Kubernetes runs the jobs."""
    return f". On Kubernetes: {_cell(spec.remedy_in_pods)}" if spec.remedy_in_pods else ""


def _named(step: str) -> str:
    return step.replace("{node}", "NODE").replace("{stack}", "STACK")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{node}", "the node").replace("{stack}", "STACK")


def reasons(subject: str) -> Mapping[str, str]:
    """Why each check of a subject exists, in its own words."""
    tree = ast.parse((_CHECKS / f"test_{subject}.py").read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    return {function.name.removeprefix("test_"): (ast.get_docstring(function) or "").splitlines()[0] for function in functions}
