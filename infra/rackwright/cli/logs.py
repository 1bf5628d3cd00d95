"""`rackwright logs`: log entries of a running stack's nodes, and why a job ended."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer


def logs(
    stack: Annotated[str, typer.Argument(help="Stack name.")],
    node: Annotated[list[str] | None, typer.Option(metavar="NODE", help="Node, group or pattern; repeatable (default: all nodes).")] = None,
    unit: Annotated[
        list[str] | None, typer.Option(metavar="UNIT", help="Unit or pattern, or `kernel`; repeatable (default: all units).")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Why this job of Slurm ended: 123, 123_4, 123+1, 123.0. With --since, --grep and --lines."),
    ] = None,
    pod: Annotated[str, typer.Option(metavar="NAMESPACE/NAME", help="Logs of this pod's containers; both may be patterns.")] = "",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Earliest time: an age such as 30m, or a date (default: 1h; with --job its time).")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Latest time.")] = None,
    grep: Annotated[str, typer.Option(metavar="PATTERN", help="Messages that match a regular expression; lower case ignores case.")] = "",
    priority: Annotated[str | None, typer.Option(metavar="NAME", help="Entries of this priority and worse: err, warning, info.")] = None,
    lines: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of entries; the newest are kept.")] = 1000,
    follow: Annotated[bool, typer.Option("--follow", help="Print new entries as they are written, until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON (schema rackwright.logs/1); with --follow an entry per line.")
    ] = False,
) -> None:
    """Print the log entries of all nodes in the order of time, one per line: time, node, unit, message.

    Entries are read from the nodes' journals and the log files of Slurm and MariaDB; nothing has to be installed for it.

    Exit codes: 0 all nodes answered, 2 invalid input, 3 a node did not answer, or Slurm has no record of the job.
    """
    from rackwright.cli.render import logs as show
    from rackwright.operations.job_logs import query_job
    from rackwright.operations.log_stream import follow_logs
    from rackwright.operations.logs import LogQuery, priority_of, query_logs, refuse_combinations
    from rackwright.report.logs.job_record import read_job_id
    from rackwright.report.logs.window import read_window

    names = {"--job": job, "--pod": pod, "--follow": follow, "--node": node, "--unit": unit, "--priority": priority}
    refuse_combinations({**names, "--until": until, "--since": since})
    window = read_window(since or (None if job or follow else "1h"), until, datetime.now().astimezone())
    if job is not None:
        found = query_job(stack, read_job_id(job), grep=grep, lines=lines, since=window.since)
        raise typer.Exit(show.print_job(found, as_json=as_json))
    query = LogQuery(
        nodes=tuple(node or ()),
        units=tuple(unit or ()),
        pod=pod,
        since=window.since,
        until=window.until,
        grep=grep,
        priority=priority_of(priority) if priority else None,
        lines=lines,
    )
    if follow:
        follow_logs(stack, query, show.entry_printer(as_json=as_json), show.print_remark)
        return
    raise typer.Exit(show.print_logs(query_logs(stack, query), as_json=as_json))
