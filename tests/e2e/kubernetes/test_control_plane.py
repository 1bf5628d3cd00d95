"""Three controllers: up and verified, one stopped, one lost, all restored, a majority lost, fewer and more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.command import CommandResult
from support.kubernetes import kubectl as query_kubectl
from support.kubernetes import verify_until_passed
from support.project import Project

from rackwright.catalog.kubernetes import own_image
from rackwright.time_limits import slowness

STACK = "lab-k8s-ha"
CONTROLLERS = ("controller0", "controller1", "controller2")
MOVES_WITHIN = 20.0
"""Seconds: three missing adverts of a second, or two failed checks of two seconds; the rest is for a busy machine."""
_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: goes-on, namespace: research}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{{name: it, image: "{image}", args: [sleep, "3600"]}}]
"""


def podman(*words: str) -> str:
    """Run podman to its end; return its output."""
    return subprocess.run(["podman", *words], check=True, capture_output=True, text=True, timeout=3000).stdout


kubectl = partial(query_kubectl, nodes=CONTROLLERS)
"""Through the virtual address, from a running controller."""


def address(lab: Project) -> str:
    """Return the control plane's address."""
    found: str = json.loads(lab.rackwright("inventory", lab.stack, "--json").output)["all"]["vars"]["cluster"]["scheduler"][
        "virtual_address"
    ]
    return found


def address_holders(lab: Project) -> list[str]:
    """Return controllers that have the address."""
    look = f"ip -oneline -4 address show to {address(lab)}/32"
    return [name for name in CONTROLLERS if (said := lab.ssh(name, look)).ok and said.output.strip()]


def etcd_members(lab: Project, asked: str = "controller0") -> list[str]:
    """Return etcd's members, as one of them lists them."""
    pki = "/etc/kubernetes/pki/etcd"
    trust = f"--cacert={pki}/ca.crt --cert={pki}/healthcheck-client.crt --key={pki}/healthcheck-client.key"
    said = lab.ssh(asked, f"etcdctl --endpoints=https://127.0.0.1:2379 {trust} member list --write-out=json")
    assert said.ok, said.end
    return sorted(one["name"] for one in json.loads(said.output)["members"])


def scale_controllers(lab: Project, controllers: int) -> CommandResult:
    """Run `up` with a number of controllers."""
    lab.edit(lambda cluster: cluster["groups"]["controller"].update(count=controllers))
    return lab.pulumi("up", timeout=3000)


def kill_restore(lab: Project, file: Path, reached: Callable[[], bool]) -> None:
    """Start a restore and kill it as soon as it has reached a stage."""
    words = ["-m", "rackwright.cli.main", "etcd", "restore", lab.stack, str(file), "--force"]
    child = lab.start([lab.environment["RACKWRIGHT_PYTHON"], *words])
    deadline = time.monotonic() + 3000
    while not reached():
        assert child.poll() is None and time.monotonic() < deadline, child.communicate()[0]
        time.sleep(0.005)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def root_of(lab: Project, name: str) -> Path:
    """Return the root directory of a controller, as this machine sees it."""
    return Path("/proc", podman("inspect", "--format", "{{.State.Pid}}", f"{lab.stack}-{name}").strip(), "root")


def restore_stage(root: Path) -> str:
    """Return the stage of a restore on the controller with this root. It may last for less time than `podman exec` needs."""
    try:
        return str(json.loads((root / "var/lib/etcd/rackwright-restore.json").read_text())["stage"])
    except (FileNotFoundError, json.JSONDecodeError):
        return ""


def test_up_passes_every_check_with_three_controllers(lab: Project) -> None:
    report = lab.report()
    assert (report["verdict"], report["level"]) == ("passed", "smoke")
    assert {check["id"].partition(".")[0] for check in report["checks"]} >= {"control_plane", "etcd", "vip"}
    assert etcd_members(lab) == list(CONTROLLERS) and address_holders(lab) == ["controller0"]
    assert "not found" in kubectl(lab, "-n kube-system get secret kubeadm-certs")


def test_second_up_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("up")
    assert "unchanged" in said.output and "created" not in said.output and "updated" not in said.output, said.output


def test_refresh_changes_nothing(lab: Project) -> None:
    said = lab.run_checked("refresh")
    assert "warning" not in said.output and "updated" not in said.output, said.output


def test_firewall_admits_only_controllers_to_etcd(lab: Project) -> None:
    """The worker, a node of the same cluster, reaches the API and not etcd."""
    knock = "timeout 3 bash -c 'exec 3<>/dev/tcp/{}/{}'"
    assert lab.ssh("worker0", knock.format("controller1", 6443)).ok
    assert not lab.ssh("worker0", knock.format("controller1", 2379)).ok and not lab.ssh("worker0", knock.format("controller1", 2380)).ok
    assert lab.ssh("controller0", knock.format("controller1", 2379)).ok


def test_virtual_address_moves_and_worker_stays_ready(lab: Project) -> None:
    assert "created" in kubectl(lab, "create --filename=-", stdin=_POD.format(image=own_image("probe")))
    assert "condition met" in kubectl(lab, "-n research wait --for=condition=Ready --timeout=280s pod/goes-on")
    known = address(lab)
    asked = f"curl --silent --fail --max-time 1 --cacert /etc/kubernetes/pki/ca.crt https://{known}:6443/readyz"
    podman("kill", f"{lab.stack}-controller0")
    try:
        stopped = time.monotonic()
        until = f"for _ in $(seq 60); do {asked} && exit; sleep 0.5; done; exit 1"
        assert lab.ssh("worker0", until).ok
        took = time.monotonic() - stopped
        print(f"the API answers from another controller after {took:.1f} s")
        assert took < MOVES_WITHIN * slowness() and address_holders(lab) == ["controller1"]
        time.sleep(60)  # Longer than the API waits for a kubelet that does not report.
        assert "condition met" in kubectl(lab, "wait node/worker0 --for=condition=Ready --timeout=1s")
        assert "Running 0" in kubectl(
            lab, "-n research get pod goes-on -o jsonpath='{.status.phase} {.status.containerStatuses[0].restartCount}'"
        )
    finally:
        podman("start", f"{lab.stack}-controller0")
    assert verify_until_passed(lab) == {} and address_holders(lab) == ["controller0"]


def test_up_recreates_lost_controller(lab: Project) -> None:
    assert "created" in kubectl(lab, "create configmap kept --from-literal=a=b")
    podman("rm", "--force", "--time", "0", f"{lab.stack}-controller0")
    lab.run_checked("up", "--refresh", timeout=3000)
    assert "kept" in kubectl(lab, "get configmap kept")
    assert etcd_members(lab) == list(CONTROLLERS) and lab.report()["verdict"] == "passed"


@pytest.fixture(scope="module")
def snapshot(lab: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a snapshot of the cluster before the object `after` was created."""
    file = tmp_path_factory.mktemp("snapshot") / "file"
    assert "created" in kubectl(lab, "create configmap before --from-literal=a=b")
    said = lab.rackwright("etcd", "backup", lab.stack, str(file))
    assert said.ok, said.end
    return file


def test_etcd_restore_covers_all_controllers(lab: Project, snapshot: Path) -> None:
    assert "created" in kubectl(lab, "create configmap after --from-literal=a=b")
    said = lab.rackwright("etcd", "restore", lab.stack, str(snapshot), "--force")
    assert said.ok, said.end
    assert "NotFound" in kubectl(lab, "get configmap after") and "before" in kubectl(lab, "get configmap before")
    assert [etcd_members(lab, name) for name in CONTROLLERS] == [list(CONTROLLERS)] * 3
    assert verify_until_passed(lab) == {}


def test_second_restore_completes_interrupted_one(lab: Project, snapshot: Path) -> None:
    assert "created" in kubectl(lab, "create configmap after --from-literal=a=b")
    roots = [root_of(lab, name) for name in CONTROLLERS]
    kill_restore(lab, snapshot, lambda: "restored" in map(restore_stage, roots))
    assert any(map(restore_stage, roots))
    said = lab.rackwright("etcd", "restore", lab.stack, str(snapshot), "--force")
    assert said.ok, said.end
    assert "NotFound" in kubectl(lab, "get configmap after") and list(map(restore_stage, roots)) == [""] * 3
    assert verify_until_passed(lab) == {}


def test_lost_majority_is_reported_and_remedy_works(lab: Project, tmp_path: Path) -> None:
    for name in ("controller0", "controller2"):
        podman("rm", "--force", "--time", "0", f"{lab.stack}-{name}")
    said = lab.pulumi("up", "--refresh", timeout=3000)
    assert not said.ok and "etcd has lost its majority: of controller0, controller1, controller2 only controller1 answers" in said.output
    backup = lab.rackwright("etcd", "backup", lab.stack, str(tmp_path / "left"))
    assert backup.ok, backup.end
    restore = lab.rackwright("etcd", "restore", lab.stack, str(tmp_path / "left"), "--force")
    assert restore.ok, restore.end
    lab.run_checked("up", timeout=3000)
    assert etcd_members(lab) == list(CONTROLLERS) and "before" in kubectl(lab, "get configmap before")
    assert lab.report()["verdict"] == "passed"


def test_two_controllers_are_removed_and_added(lab: Project) -> None:
    said = scale_controllers(lab, 1)
    assert said.ok, said.end
    assert etcd_members(lab) == ["controller0"] and "controller1" not in kubectl(lab, "get nodes")
    assert set(lab.incarnations()) & {*CONTROLLERS} == {"controller0"}
    said = scale_controllers(lab, 3)
    assert said.ok, said.end
    assert etcd_members(lab) == list(CONTROLLERS) and "before" in kubectl(lab, "get configmap before")
    assert lab.report()["verdict"] == "passed"


def test_even_controllers_and_changed_address_are_refused(lab: Project) -> None:
    assert "use 1 or 3" in scale_controllers(lab, 2).output
    lab.edit(lambda cluster: (cluster["groups"]["controller"].update(count=3), cluster["scheduler"].pop("control_plane_vip")))
    assert "require a common address" in lab.pulumi("up").output
    lab.edit(lambda cluster: cluster["scheduler"].update(control_plane_vip=address(lab)))


def test_destroy_leaves_nothing(lab: Project) -> None:
    lab.run_checked("destroy")
    assert lab.leftovers() == []
