"""Helpers of the Kubernetes end-to-end tests: run kubectl, verify, wait for a state."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

from support import waiting
from support.command import CommandResult
from support.project import Project

WAIT_SECONDS: Final = 300.0
"""Longest wait for a state of the cluster. Only a state that never occurs is a failure."""


def run_on(lab: Project, command: str, *, stdin: str = "", nodes: Sequence[str] = ("login0",)) -> CommandResult:
    """Run a command as root on the first of `nodes` that responds over SSH."""
    for node in nodes:
        started = time.monotonic()
        words = ["ssh", "-F", str(lab.home / lab.stack / "ssh_config"), node, command]
        ended = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)
        if ended.returncode != 255:
            return CommandResult(command, ended.returncode, ended.stdout + ended.stderr, time.monotonic() - started)
    raise AssertionError(f"none of {', '.join(nodes)} answers over SSH")


def kubectl(lab: Project, arguments: str, *, stdin: str = "", nodes: Sequence[str] = ("login0",)) -> str:
    """Run the administrator's kubectl; return what it printed."""
    return run_on(lab, f"kubectl --request-timeout=60s {arguments}", stdin=stdin, nodes=nodes).output.strip()


def create_as(lab: Project, user: str, manifest: str) -> None:
    """Create an object as a user, who has the rights of their namespace only."""
    created = run_on(lab, f"runuser -l {user} -c 'kubectl create -f -'", stdin=manifest)
    assert created.ok, created.end


def failed_checks(lab: Project) -> dict[str, str]:
    """Verify the stack; return the reasons of the checks that are failed or unknown, by check id."""
    result = lab.rackwright("verify", lab.stack, "--json")
    report = json.loads(result.output[result.output.index("{") :])
    return {check["id"]: check["reason"] for check in report["checks"] if check["verdict"] in {"failed", "unknown"}}


def verify_until_passed(lab: Project) -> dict[str, str]:
    """Verify until every check has passed: a restarted kubelet registers its GPUs a moment later."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (failed := failed_checks(lab)) and time.monotonic() < deadline:
        time.sleep(1)
    return failed


def wait_for(query: Callable[[], str], wanted: Callable[[str], bool]) -> str:
    """Repeat a query until its result is as wanted; return it."""
    return waiting.wait_for(query, wanted, timeout=WAIT_SECONDS)
