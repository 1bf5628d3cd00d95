"""Probes of a GitHub Actions runner: its registration, and the GPUs that its user sees. GitHub is not queried."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from rackwright.checks.cluster.harness.probe import Probe, gpu_tool_seconds
from rackwright.checks.cluster.harness.tool_output import is_cut, quoted

FOLDER: Final = "/opt/actions-runner"
USER: Final = "actions-runner"
"""Defaults of the role actions_runner, which no stack file changes."""
NONE: Final = "not registered"


@dataclass(frozen=True)
class Registration:
    """What a runner is registered as; its labels are known to GitHub only."""

    url: str
    name: str

    @property
    def described(self) -> str:
        """Return the text of a result."""
        return f"{self.name} at {self.url}"


def parse_registration(text: str) -> Registration | None:
    """Return the registration from the runner's settings, JSON with a byte order mark; None if the runner is not registered.

    >>> parse_registration('{"agentName": "ci-runner0", "gitHubUrl": "https://github.com/example/models"}')
    Registration(url='https://github.com/example/models', name='ci-runner0')
    """
    if text.strip() == NONE:
        return None
    settings = json.loads(text.removeprefix("\ufeff"))
    return Registration(str(settings.get("gitHubUrl") or settings["serverUrl"]).rstrip("/"), str(settings["agentName"]))


REGISTRATION = Probe(
    "runner-registration",
    on="role_runner",
    command=f"if [ -e {FOLDER}/.runner ]; then cat {FOLDER}/.runner; else echo '{NONE}'; fi",
    parse=parse_registration,
)


def parse_visible_gpus(text: str) -> int:
    """Return the number of GPUs from `nvidia-smi -L`. Instances of MIG are not counted.

    >>> parse_visible_gpus("GPU 0: NVIDIA GB10 (UUID: GPU-5f0d5f4e-0000-0000-0000-000000000000)\\n")
    1
    """
    if text.strip() == "No devices found.":
        return 0
    if is_cut(text):
        raise ValueError(f'the list ends without a line end: "{quoted(text)}"')
    lines = [line for line in text.splitlines() if line.strip()]
    unread = [line for line in lines if not re.fullmatch(r"GPU \d+: .+ \(UUID: GPU-[0-9a-f-]+\)|\s+MIG .+", line)]
    if unread or not lines:
        raise ValueError(f'no GPU: "{quoted(unread[0] if unread else text)}"')
    return sum(line.startswith("GPU ") for line in lines)


VISIBLE_GPUS = Probe(
    "runner-gpus",
    on="role_runner",
    command=f"runuser -u {USER} -- nvidia-smi -L",
    parse=parse_visible_gpus,
    planned_timeout=gpu_tool_seconds,
    statuses=frozenset({0, 6}),
)
"""Status 6: no device (nvidia-smi(1), RETURN VALUE)."""
