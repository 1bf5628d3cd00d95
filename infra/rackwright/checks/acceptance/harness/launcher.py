"""The interface of a launcher: it converts a phase's job to a request for the submitting node, and the result to `Output`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rackwright.checks.acceptance.phase import Job, Output, Program


class Launcher(Protocol):
    """The launcher of Slurm or of Kubernetes; the rest of the harness and all phases depend on neither."""

    def sent(self, program: Program) -> str:
        """Return the text that a job's tasks run."""

    def request(self, job: Job, run: str, phase: str) -> dict[str, Any]:
        """Return the request of a job: `name`, `label` for cancelling it, `argv`, `seconds`, and what its scheduler needs."""

    def files(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Return the files that are stored of a job in addition to its program, by path in the run's folder."""

    def output(self, job: Job, result: Mapping[str, Any]) -> Output:
        """Return the output of a job."""

    def heads(self, text: str) -> list[dict[str, Any]]:
        """Return the headers that the tasks of a job printed, by rank."""

    def whole_lines(self, text: str) -> list[tuple[int, str]]:
        """Return the lines of tasks with their ranks."""
