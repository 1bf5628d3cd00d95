"""Target `lab` under mocks: exactly which resources a stack file becomes, with which inputs, and what each waits for."""

from __future__ import annotations

import pytest
import recording
from recording import built, committed

from rackwright.plan import Plan, expand
from rackwright.provider import registry
from rackwright.stackfile.load import load_cluster


def saving() -> Plan:
    """Return a small cluster whose workers may be suspended."""
    power = {"suspend_time": "5m", "suspend_timeout": "30s", "resume_timeout": "60s"}
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 2}}
    written = {
        "target": {"kind": "lab"},
        "network": {"cidr": "10.77.0.0/24"},
        "groups": groups,
        "scheduler": {"kind": "slurm", "power_saving": power},
    }
    loaded = load_cluster(written)
    assert loaded.cluster is not None
    return expand(loaded.cluster, "small")


@pytest.mark.parametrize("stack", ["lab", "lab-small", "lab-large"])
def test_lab_stack_registers_one_node_per_plan_node(stack: str) -> None:
    plan = committed(stack)
    names = {node.name for node in plan.nodes}
    expected = {
        "access-key": "rackwright:secret:SshKeyPair",
        "label": "rackwright:lab:StackMarker",
        "network": "rackwright:lab:Network",
        "image": "rackwright:lab:Image",
        **dict.fromkeys((volume.name for volume in plan.volumes), "rackwright:lab:Volume"),
        **{f"{name}-host-key": "rackwright:secret:SshKeyPair" for name in names},
        **dict.fromkeys(names, "rackwright:lab:Node"),
        "converge": "rackwright:ansible:Converge",
        "verification": "rackwright:test:Verification",
    }
    assert {name: typ for name, (typ, _) in built(plan).made.items()} == expected


@pytest.mark.parametrize(("workers", "asked"), [(9, {}), (62, {"stack": "many", "inotify_instances": 512})])
def test_many_nodes_raise_inotify_limit(workers: int, asked: dict[str, object]) -> None:
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "storage": {"count": 1}, "worker": {"count": workers}}
    written = {"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/24"}, "groups": groups, "scheduler": {"kind": "slurm"}}
    loaded = load_cluster(written)
    assert loaded.cluster is not None, loaded
    made = built(expand(loaded.cluster, "many"))
    assert made.of("rackwright:lab:InotifyLimits") == ({"limits": asked} if asked else {})
    assert all(("limits" in made.asked[name].after) is bool(asked) for name in made.of("rackwright:lab:Node"))


def test_lab_worker_has_exact_inputs() -> None:
    plan = committed("lab")
    worker = plan.node("worker1")
    given = {name: value for name, value in built(plan).of("rackwright:lab:Node")["worker1"].items() if value is not None}
    assert given == {
        "stack": "lab",
        "name": "lab-worker1",
        "hostname": "worker1",
        "image": "localhost/node:1",
        "network": "id-network",
        "address": worker.address,
        "mac": worker.mac,
        "gpus": 8,
        "volumes": {},
        "published": [],
        "host_key": "PRIVATE",
        "host_public_key": "ssh-ed25519 AAAA",
        "authorized_key": "ssh-ed25519 AAAA",
    }


def test_only_login_node_is_published_on_one_address() -> None:
    published = {name: inputs["published"] for name, inputs in built(committed("lab")).of("rackwright:lab:Node").items()}
    assert published == {"login0": ["127.0.0.1:2222:22"], "worker0": [], "worker1": [], "storage0": []}


def test_persistent_data_is_on_volumes() -> None:
    mounts = {name: inputs["volumes"] for name, inputs in built(committed("lab")).of("rackwright:lab:Node").items()}
    assert set(mounts["login0"].values()) == {"id-login0-accounting", "id-login0-scheduler"}
    assert set(mounts["storage0"].values()) == {"id-storage0-sharedfs", "id-storage0-metadata"}


def test_converge_receives_incarnation_of_each_host() -> None:
    plan = committed("lab")
    hosts = built(plan).made["converge"][1]["hosts"]
    assert {name: host["instance_uid"] for name, host in hosts.items()} == dict.fromkeys((node.name for node in plan.nodes), "life-1")
    assert {name: host["address"] for name, host in hosts.items()} == {node.name: node.address for node in plan.nodes}
    assert {host["baked"] for host in hosts.values()} == {True}


def test_converge_receives_hosts_of_older_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """The older image lacks packages that roles have added since."""
    monkeypatch.setitem(recording._MADE, "rackwright:lab:Node", {"instance_uid": "life-1", "image": "localhost/node:0"})
    hosts = built(committed("lab")).made["converge"][1]["hosts"]
    assert {host["baked"] for host in hosts.values()} == {False}


def test_verification_uses_generation_of_converge() -> None:
    assert built(committed("lab")).made["verification"][1]["generation"] == "g1"


def test_power_saving_stack_has_agent() -> None:
    agent = built(saving()).of("rackwright:lab:PowerManager")["power"]
    assert (agent["controller"], agent["nodes"]) == ("id-login0", ["worker0", "worker1"])


@pytest.mark.parametrize("plan", [committed("lab"), saving()], ids=["lab", "saving"])
def test_registered_resources_satisfy_provider(plan: Plan) -> None:
    for name, (token, inputs) in built(plan).made.items():
        served = registry.resource(token)
        assert served is not None, f"{name}: {token}"
        missing = [key for key in served.required if inputs.get(key) is None]
        assert not missing, f"{name} lacks {missing}"
