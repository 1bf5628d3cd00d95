"""`rackwright jobs`: the running jobs of a stack, and which of them hang or straggle."""

from __future__ import annotations

from typing import Annotated

import typer

from rackwright.errors import InputError


def jobs(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    suspicious: Annotated[
        bool, typer.Option("--suspicious", help="Sample the processes of all jobs, and name hung and straggling ranks.")
    ] = False,
    job: Annotated[str | None, typer.Option(metavar="ID", help="This job of Slurm only: 123, 123_4, 123+1.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=2.5, max=300.0, help="Seconds for which processes are sampled (7.5). With --suspicious.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON (schema rackwright.jobs/1).")] = False,
) -> None:
    """Print the jobs of Slurm that have nodes; with --suspicious, which of them hang, straggle or hold nodes without using them.

    Processes are read from outside, over SSH: nothing is installed, no process is stopped, and no code of users changes.

    Exit codes: 0 no job is suspicious, 1 a job is, 2 invalid input, 3 undetermined.
    """
    from rackwright.cli.render.jobs import print_jobs
    from rackwright.operations.running_jobs import query_jobs
    from rackwright.report.logs.job_record import read_job_id

    if seconds is not None and not suspicious:
        raise InputError("needs --suspicious", path="--seconds", hint="processes are sampled with --suspicious only")
    if job is not None and read_job_id(job).step:
        raise InputError(f"`{job}` is a step", path="--job", hint=f"pass the job: {read_job_id(job).job}")
    window = (seconds or 7.5) if suspicious else None
    found = query_jobs(stack, job=read_job_id(job).job if job is not None else "", seconds=window)
    raise typer.Exit(print_jobs(found, as_json=as_json))
