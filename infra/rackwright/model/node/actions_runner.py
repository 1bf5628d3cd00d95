"""Self-hosted runner of GitHub Actions, on the nodes with the role `runner`. Its registration token is not part of the stack file."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import ConfigModel
from rackwright.model.targets.hosts import Processor
from rackwright.model.update_policy import UpdatePolicy

RunnerLabel = Annotated[str, StringConstraints(pattern=r"^[^\s,]([^,]*[^\s,])?$", max_length=256)]
"""At most 256 characters, and commas separate labels (actions/runner, Validators.LabelsValidator, CommandSettings.GetLabels)."""
RunnerVersion = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,3}\.[0-9]{1,4}\.[0-9]{1,4}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Visibility(StrEnum):
    """Who can read the repositories that send jobs to the runner, and thereby propose changes to them."""

    PRIVATE = "private"
    INTERNAL = "internal"
    PUBLIC = "public"


class RunnerLimits(ConfigModel):
    """Limits of all jobs together, enforced by systemd, so that the node stays reachable."""

    memory_percent: Annotated[int, UpdatePolicy.RESTART] = Field(
        default=90, ge=10, le=100, description="Memory, in percent of the node's. A job that needs more is killed."
    )
    cpu_percent: Annotated[int, UpdatePolicy.RESTART] = Field(default=100, ge=1, le=100, description="CPU time, in percent of all CPUs.")


class ActionsRunner(ConfigModel):
    """GitHub Actions runner. `up` installs it; `rackwright runner` registers it with a token that lives for an hour."""

    url: Annotated[str, UpdatePolicy.FORBIDDEN] = Field(
        min_length=1,
        max_length=500,
        description="URL of the repository, organization or enterprise whose jobs it runs, for example https://github.com/example/models.",
    )
    visibility: Annotated[Visibility | None, UpdatePolicy.RUN] = Field(
        default=None,
        description="Visibility of the repositories whose jobs it runs: `private`, `internal` or `public`. "
        "Pull requests from forks of a public repository can run code on the node.",
    )
    labels: Annotated[tuple[RunnerLabel, ...], UpdatePolicy.RUN] = Field(
        default=("gpu",), description="Labels for `runs-on`, in addition to self-hosted, Linux and X64 or ARM64, which GitHub adds."
    )
    group: Annotated[str | None, UpdatePolicy.RUN] = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Runner group of an organization or enterprise. Default: GitHub's default group.",
    )
    ephemeral: Annotated[bool, UpdatePolicy.RUN] = Field(
        default=False, description="Whether GitHub removes the runner after one job. The next job needs another registration."
    )
    version: Annotated[RunnerVersion | None, UpdatePolicy.RESTART] = Field(
        default=None, description='Release to install, in quotes, for example "2.337.0". Default: the newest of the catalogue.'
    )
    sha256: Annotated[dict[Processor, Sha256], UpdatePolicy.RUN] = Field(
        default={}, description="Digests of the archives by processor, for a release that the catalogue does not have."
    )
    auto_update: Annotated[bool, UpdatePolicy.RUN] = Field(
        default=True,
        description="Whether the runner replaces itself by GitHub's newest release. Without it, GitHub sends no jobs to a release "
        "that is older than 30 days.",
    )
    limits: RunnerLimits = Field(default=RunnerLimits(), description="Limits of all jobs together.")
