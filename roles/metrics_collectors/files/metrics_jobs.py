#!/usr/bin/python3
"""Which jobs hang or straggle: the judgement of `rackwright jobs STACK --suspicious` on the samples that all workers have written.

Prometheus on this node has the samples; slurmctld has the jobs. What could not be judged is no finding: it is
counted, and unread nodes are named.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from rackwright_metrics import PATIENCE, CollectError, Samples, run
from rank_series import Series, Taken, read_nodes

from rackwright.remote.programs import slurm_running
from rackwright.remote.programs.monitoring_api import Api
from rackwright.report.jobs.samples import RunningJob, read_jobs
from rackwright.report.jobs.suspicion import SETTLES, Diagnosis, Kind, diagnose

QUERY = '{__name__=~"rackwright_(ranks|rank|job)_.+",job="node"}'
APART = 5.0
"""Seconds by which the samples of the nodes of a job may differ: less than their window of 7.5 s, so that most of it is the same time."""
MOST_FINDINGS = 200
"""Findings that are written. Chosen: more tell of the cluster and not of jobs; `rackwright_jobs_suspicious` counts them all."""
VERDICTS = ("suspicious", "undetermined", "not suspicious")


def series_of(prometheus: Mapping[str, Any]) -> list[Series]:
    """Return the samples of all nodes, as Prometheus has them now."""
    try:
        answer = Api(prometheus["host"], prometheus["port"]).get(f"/api/v1/query?query={quote(QUERY)}")
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]
    except (OSError, ValueError, KeyError) as error:
        raise CollectError(f"Prometheus: {error}") from None


def unread(jobs: Sequence[RunningJob], taken: Mapping[str, Taken], now: float, period: float) -> dict[str, str]:
    """Return the nodes of jobs whose samples are missing, old, or older than those of other nodes, and why."""
    lost: dict[str, str] = {}
    newest = max((one.time for one in taken.values()), default=0.0)
    for name in dict.fromkeys(name for job in jobs for name in job.nodes):
        if name not in taken:
            lost[name] = "its collector `ranks` has written no samples"
        elif now - taken[name].time > 2 * period:
            lost[name] = f"its samples are {now - taken[name].time:.0f} s old"
        elif newest - taken[name].time > APART:
            lost[name] = "its samples are of another time than those of the other nodes"
    return lost


def add_findings(diagnoses: Sequence[Diagnosis], samples: Samples) -> None:
    """Add each finding with job, kind, node and rank."""
    samples.describe("rackwright_job_suspicious", "What is suspicious about a job, by node and rank")
    findings = [finding for one in diagnoses for finding in one.findings]
    for finding in findings[:MOST_FINDINGS]:
        rank = "unknown" if finding.rank is None else str(finding.rank)
        samples.set("rackwright_job_suspicious", 1, jobid=finding.job, kind=finding.kind.value, node=finding.node, rank=rank)
    samples.describe("rackwright_jobs_suspicious", "Findings about jobs, by kind")
    counts = Counter(finding.kind for finding in findings)
    for kind in Kind:
        samples.set("rackwright_jobs_suspicious", counts[kind], kind=kind.value)


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """Judge the running jobs. A job that has just started is left to its prologs and transfers of images."""
    answer = slurm_running.main({"job": "", "seconds": PATIENCE})
    if answer["error"]:
        raise CollectError(answer["error"])
    now = answer["now"]
    jobs = [one for one in read_jobs(answer) if one.started is None or now - one.started >= SETTLES]
    taken = read_nodes(series_of(configuration["prometheus"]))
    running = [one for one in jobs if one.state == "RUNNING"]
    lost = unread(running, taken, time.time(), configuration["prometheus"]["period_s"])
    nodes = {name: one.node for name, one in taken.items() if name not in lost}
    diagnoses = [diagnose(one, nodes, lost, now) for one in jobs]
    add_findings(diagnoses, samples)
    counts = Counter(one.verdict for one in diagnoses)
    samples.describe("rackwright_jobs_judged", "Running jobs by verdict, those of the first minute left out")
    for verdict in VERDICTS:
        samples.set("rackwright_jobs_judged", counts[verdict], verdict=verdict)
    samples.describe("rackwright_job_node_unread", "Whether the processes of jobs on a node could not be read")
    for name in dict.fromkeys(name for job in running for name in job.nodes):
        samples.set("rackwright_job_node_unread", name in lost, node=name)


if __name__ == "__main__":
    sys.exit(run("jobs", collect))
