"""Pods of acceptance jobs to which a site's webhooks added containers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rackwright.remote.programs import kubernetes_jobs

JOB = {"namespace": "research", "label": "accept-a", "pods": 1, "starts": 45}


def ended(name: str, code: int, reason: str = "") -> dict[str, Any]:
    """Return the status of a container that ended."""
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason}}}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"containerStatuses": [ended("task", 0, "Completed")]}, (0, "")),
        ({"containerStatuses": [ended("task", 137, "OOMKilled")]}, (137, "OOMKilled")),
        ({"containerStatuses": [ended("mesh-proxy", 0), ended("task", 3, "Error")]}, (3, "Error")),
        ({"containerStatuses": [ended("mesh-proxy", 1, "Error"), ended("task", 0)]}, (0, "")),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, (1, "Evicted: low on disk")),
    ],
    ids=["good", "out-of-memory", "proxy-beside-failure", "failed-proxy", "evicted"],
)
def test_exit_code_is_the_tasks(status, told):
    assert kubernetes_jobs.ending({"status": status}) == told


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses"])
def test_container_that_cannot_start_is_reported(kind):
    status = {"phase": "Pending", kind: [{"name": "any", "state": {"waiting": {"reason": "ErrImageNeverPull"}}}]}
    run = kubernetes_jobs.JobRun(dict(JOB), SimpleNamespace())
    assert run.blocked_reason({"status": status}, 1) == "ErrImageNeverPull"


def test_log_is_the_tasks(monkeypatch):
    """With several containers, the API refuses a request that names none."""
    asked = []
    monkeypatch.setattr(kubernetes_jobs, "api", lambda: SimpleNamespace(call=lambda method, path: asked.append(path) or "text"))
    assert kubernetes_jobs.JobRun(dict(JOB), SimpleNamespace()).log({"metadata": {"name": "p"}}) == "text"
    assert asked == ["/api/v1/namespaces/research/pods/p/log?container=task"]
