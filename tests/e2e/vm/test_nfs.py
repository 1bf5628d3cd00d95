"""NFS between kernels of the nodes: verified, mounted once more as an existing server, and a job that waits for a stopped server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.project import Project
from support.virtual_machines import folder, virtual_machines

from rackwright.drivers.vm import qmp

UP = 7200
"""Seconds in which `up` may create, configure and verify three emulated machines."""
SERVED, EXISTING = "/mnt/data", "/mnt/images"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a login node, a worker and a storage node with NFS, up and verified."""

    def describe(cluster: dict[str, Any]) -> None:
        del cluster["fabric"]
        cluster["groups"]["worker"] = {"count": 1, "cpus": 1, "memory": "1GiB"}
        cluster["groups"]["storage"] |= {"cpus": 1}
        cluster["storage"] = {"data": {"kind": "nfs", "mount": SERVED, "size": "2GiB", "nconnect": 4}}

    with virtual_machines(tmp_path_factory.mktemp("nfs") / "checkout", "lab-vm", up=UP, change=describe) as project:
        yield project


def passed(project: Project, check: str) -> set[str]:
    """Return the nodes on which a check passed."""
    checks = project.report()["checks"]
    return {one["id"].partition("[")[2].rstrip("]") for one in checks if one["verdict"] == "passed" and one["id"].startswith(f"{check}[")}


def test_up_ends_with_verified_mounts(stack: Project) -> None:
    report = stack.report()
    assert report["verdict"] == "passed", report["totals"]
    assert {"login0", "worker0"} <= passed(stack, "storage.nfs_transport_matches_plan"), report["totals"]
    connections = stack.ssh("worker0", f"sed -n '\\|mounted on {SERVED} |,/^device/p' /proc/self/mountstats | grep -c xprt:")
    assert connections.output.split()[-1] == "4", connections.end


def test_second_up_changes_nothing(stack: Project) -> None:
    said = stack.run_checked("up", timeout=UP)
    assert "unchanged" in said.output and "updated" not in said.output


def test_job_waits_for_a_stopped_server_and_goes_on(stack: Project) -> None:
    made = stack.ssh("storage0", "install -d -m 1777 /srv/rackwright/data/shared")
    assert made.ok, made.end
    write = " && ".join(f"echo {row} >> {SERVED}/shared/rows && sync {SERVED}/shared/rows && sleep 5" for row in range(1, 9))
    said = stack.as_user(f"sbatch --parsable -o /dev/null -J rows --wrap '{write}'")
    job = said.output.split()[-1]
    qmp.execute(folder(stack, "nodes", "storage0"), "stop")
    try:
        state = stack.as_user(f"sleep 60; squeue -h -j {job} -o %T", timeout=400)
        assert state.output.split()[-1] == "RUNNING", state.end
    finally:
        qmp.execute(folder(stack, "nodes", "storage0"), "cont")
    # Its clock stood still with the machine, which a later verification reports. That of its board did not.
    set_clock = stack.ssh("storage0", "date -s @$(cat /sys/class/rtc/rtc0/since_epoch)")
    assert set_clock.ok, set_clock.end
    stack.as_user(f"while squeue -h -j {job} -o %T | grep -q .; do sleep 2; done", timeout=600)
    rows = stack.ssh("storage0", "cat /srv/rackwright/data/shared/rows")
    assert rows.output.split()[-8:] == [str(row) for row in range(1, 9)], rows.end


def test_same_server_is_mounted_as_an_existing_one(stack: Project) -> None:
    def describe(cluster: dict[str, Any]) -> None:
        cluster["storage"]["images"] = {
            "kind": "existing-nfs",
            "mount": EXISTING,
            "source": "storage0:/srv/rackwright/data",  # By another name of the server, the kernel would still print the first mount's.
            "nconnect": 4,
            "user_folder": "shared",
            "clients": ["worker"],
        }

    stack.edit(describe)
    stack.run_checked("up", timeout=UP)
    assert stack.report()["verdict"] == "passed", stack.report()["totals"]
    assert stack.ssh("worker0", f"cat {EXISTING}/shared/rows").output.split()[-1] == "8"

    stack.edit(lambda cluster: cluster["storage"].pop("images"))
    stack.run_checked("up", timeout=UP)
    # A file system that is removed from the stack file stays mounted until it is unmounted by hand (docs/impact.md).
    unmounted = stack.ssh("worker0", "systemctl disable --now mnt-images.mount")
    assert unmounted.ok, unmounted.end
    assert not stack.ssh("worker0", f"mountpoint -q {EXISTING}").ok
    assert stack.ssh("worker0", f"cat {SERVED}/shared/rows").output.split()[-1] == "8"
