"""What a launcher is: it turns a phase's job into what the submitting node is asked for, and what came back into `Output`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rackwright.checks.acceptance.phase import Job, Output, Program


class Launcher(Protocol):
    """Slurm's, or that of Kubernetes; the rest of the harness and all phases know neither."""

    def sent(self, program: Program) -> str:
        """The text that a job's tasks run."""

    def request(self, job: Job, run: str, phase: str) -> dict[str, Any]:
        """A job as the submitting node is asked for it: `name`, `label` for cancelling it, `argv`, `seconds`, and what its side needs."""

    def files(self, request: Mapping[str, Any]) -> dict[str, str]:
        """What is kept of a job beside its program, by place in the run's folder."""

    def output(self, job: Job, came: Mapping[str, Any]) -> Output:
        """What came back of a job."""

    def heads(self, text: str) -> list[dict[str, Any]]:
        """What the tasks of a job said of themselves, by rank."""

    def whole_lines(self, text: str) -> list[tuple[int, str]]:
        """Lines of tasks with the rank of who said them."""
