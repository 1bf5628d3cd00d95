"""Output of `rackwright validate` without a stack: one line for each step, and its findings below it."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.cli.standard_streams import end_if_unread
from rackwright.operations.project_validation import ValidationStep, errors_of


def step_lines(step: ValidationStep) -> Iterator[str]:
    """Yield the lines of one step."""
    verdict = "skipped" if step.skipped else "ok" if step.ok else "FAILED"
    yield f"{step.name:<10} {verdict:<8} {step.summary}".rstrip()
    for finding in step.findings:
        yield from (f"  {line}" for line in str(finding).splitlines())


def print_step(step: ValidationStep) -> None:
    """Print one step at once; exit when the reader has closed: the steps that follow take minutes and change nothing."""
    print("\n".join(step_lines(step)), flush=True)
    end_if_unread()


def summary(project: str, steps: tuple[ValidationStep, ...]) -> str:
    """Return the last line: the verdict, and what to do."""
    errors = errors_of(steps)
    if not errors:
        return f"project {project}: valid"
    return f"project {project}: {errors} error{'s' if errors > 1 else ''}; correct the files above, then run `rackwright validate` again"
