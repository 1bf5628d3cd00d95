"""Probe of SSH by job: what sshd's PAM stack answers for an ordinary user without a job on the node, and with one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import NodeBusyError, Probe, ProbeContext, ProbeStage
from rackwright.checks.cluster.probes.smoke import parts
from rackwright.errors import UndeterminedError
from rackwright.remote.command import python_command
from rackwright.remote.programs.ssh_access import BY_SLUID

REFUSED: Final = "refused by pam_slurm_adopt: no job"
ADMITTED: Final = "admitted into the job"
_SECONDS: Final = 15
"""Maximum seconds for the jobs before to end, and for the job to start."""
_NO_JOBS: Final = re.compile(r"pam_slurm_adopt: you have no active jobs|No Slurm jobs found on node")
"""Messages of pam_slurm_adopt to a user without a job (contribs/pam_slurm_adopt/pam_slurm_adopt.c)."""


@dataclass(frozen=True)
class SshAccess:
    """Answers of PAM, in words."""

    without_job: str
    with_job: str


def parse_ssh_access(text: str) -> SshAccess:
    """Return the answers. Raise NodeBusyError where the user has jobs on the node, UndeterminedError where PAM could not be asked."""
    data: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    if not {"without", "with", "job", "state", "jobs", "error"} <= data.keys():
        raise ValueError("no answers of PAM")
    if data["jobs"]:
        raise NodeBusyError
    if data["error"]:
        raise UndeterminedError(f"access was not tested: {data['error']}")
    if data["with"] is None:
        raise UndeterminedError(f"the job that an SSH session would join did not run: {data['state'] or 'no state'}")
    return SshAccess(_refusal(_answer(data["without"])), _adoption(_answer(data["with"]), data["job"], data.get("sluid", "")))


def _answer(data: Mapping[str, Any]) -> Mapping[str, Any]:
    if data["error"]:
        raise UndeterminedError(f"PAM was not asked: {data['error']}")
    return data


def _refusal(answer: Mapping[str, Any]) -> str:
    said = "; ".join(answer["said"])
    if not answer["status"]:
        return "admitted"
    return REFUSED if _NO_JOBS.search(said) else f"refused: {said or answer['reason']}"


def _adoption(answer: Mapping[str, Any], job: str, sluid: str) -> str:
    if answer["status"]:
        return "refused: " + ("; ".join(answer["said"]) or answer["reason"])
    groups = [line.rpartition(":")[2] for line in answer["cgroup"].splitlines()]
    if {f"job_{job}", sluid} & {part for group in groups for part in group.split("/") if part}:
        return ADMITTED
    if not sluid and BY_SLUID.search(answer["cgroup"]):
        raise UndeterminedError(f"the session is in {', '.join(groups)}, and scontrol does not say of which job this is")
    return f"admitted into {', '.join(groups) or 'no control group'}"


def _command(context: ProbeContext) -> str:
    node, declared = context.node["name"], context.declared
    user = next((one["name"] for one in declared.cluster.get("users") or () if not one["admin"]), None)
    part = next((part for part in parts(context) if node in part["nodes"]), None)
    if user is None or part is None:
        raise UndeterminedError("the plan has no ordinary user, or no partition with this node")
    return python_command("ssh_access", {"user": user, "node": node, "partition": part["partition"], "seconds": _SECONDS})


SSH_ACCESS = Probe("ssh-access", on="@pam_slurm_adopt", command=_command, parse=parse_ssh_access, timeout=60, stage=ProbeStage.AFTER_JOBS)
