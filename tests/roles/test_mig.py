"""When the MIG instances of a node are changed, and when the change waits for a drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

DEFER, CREATE = "Defer the change of the MIG instances until the node is drained", "Create the MIG instances now and at boot"
MIG = [[{"profile": "3g.40gb", "start": 0}, {"profile": "3g.40gb", "start": 4}]]
NODE = {"name": "w0", "os": "debian-13", "roles": ["worker"], "gpus": {"model": "h100", "count": 1, "driver": "580.1", "simulated": False}}


@pytest.mark.parametrize(
    ("status", "slurmd", "drained", "waits"),
    [
        (1, "active", False, True),
        (1, "active", True, False),
        (1, "inactive", False, False),
        (0, "active", False, False),
        (3, "active", False, False),
    ],
)
def test_change_waits_while_jobs_can_start(steps: Callable[..., Any], status: int, slurmd: str, drained: bool, waits: bool) -> None:
    """Instances as planned need no drain; the service reports what cannot be read."""
    variables = {"node": {**NODE, "gpus": {**NODE["gpus"], "mig": MIG}}, "cluster": {"preinstalled_roles": []}}  # type: ignore[dict-item]
    variables["nodes_in_maintenance"] = ["w0"] if drained else []  # type: ignore[assignment]
    tools = {"python3": f"cat > /dev/null; echo 'GPU 0: MIG is disabled'; exit {status}", "systemctl": f"echo {slurmd}"}
    done = steps("gpu", "mig", variables=variables, tools=tools)
    assert done.good, done.said
    assert (done.told[DEFER] != "skipped", done.told[CREATE] == "skipped") == (waits, waits)
    assert bool(done.recorded) is not waits
    if not waits:
        files = {file["path"]: file for file in done.recorded[0]["files"]}
        assert files["/etc/rackwright/mig.json"]["content"].strip() == str(MIG).replace("'", '"')


def test_nodes_without_mig_are_left_alone(steps: Callable[..., Any]) -> None:
    variables = {"node": {**NODE, "gpus": {**NODE["gpus"], "mig": []}}, "cluster": {"preinstalled_roles": []}}  # type: ignore[dict-item]
    done = steps("gpu", "mig", variables=variables, tools={"python3": "cat > /dev/null; exit 9", "systemctl": "exit 9"})
    assert done.good, done.said
    assert done.recorded == [] and done.told[CREATE] == "skipped"
