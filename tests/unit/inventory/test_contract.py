"""(plan, hosts) -> inventory and SSH files: the whole of it as golden files, the contract, and what the real ssh makes of it."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from goldens import Goldens, compact
from support.monitored import monitored

from rackwright import inventory as rackwright_inventory
from rackwright.inventory import Host, paths
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster, load_stack

HOME = "/home/alice/.local/state/rackwright"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk5tdQFZ8nOuT0aPYQ3mXrGqB7qk8pZVZ3oU5t9WnY"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same home for every user who runs this."""
    monkeypatch.setenv("RACKWRIGHT_HOME", HOME)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def lab() -> Plan:
    """The plan of the committed lab."""
    cluster = load_stack(paths.stack_file("lab")).cluster
    assert cluster is not None
    return expand(cluster, "lab")


def small(**more: Any) -> Plan:
    """A cluster of two login nodes and a worker."""
    groups = {"login": {"count": 2, "roles": ["login", "controller"]}, "worker": {"count": 1}}
    loaded = load_cluster({"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/24"}, "groups": groups, **more})
    assert loaded.cluster is not None
    return expand(loaded.cluster, "small")


def hosts(plan: Plan) -> dict[str, Host]:
    """Every node of the plan, existing."""
    return {node.name: Host(node.name, node.address, f"{KEY}{index} comment", f"id-{node.name}") for index, node in enumerate(plan.nodes)}


def test_the_inventory_and_the_ssh_files_are_as_they_were(goldens: Goldens) -> None:
    """Roles and checks are written against exactly this inventory; Ansible, testinfra and the person share the configuration of ssh."""
    plan = lab()
    inventory = compact(rackwright_inventory.inventory(plan, hosts(plan))) + "\n"  # JSON is YAML, too.
    config, known = rackwright_inventory.ssh_config(plan, hosts(plan)), rackwright_inventory.known_hosts(plan, hosts(plan))
    goldens.check_folder("inventory", {"inventory.yml": inventory, "ssh_config": config, "known_hosts": known})


def test_monitored_inventory_keeps_the_contract() -> None:
    receivers = {
        "ops": {"kind": "webhook", "url_file": "~/ops-url"},
        "mail": {
            "kind": "email",
            "to": ["ops@example.org"],
            "sender": "lab@example.org",
            "smarthost": "localhost:25",
            "require_tls": False,
        },
    }
    plan = monitored(monitoring={"kind": "builtin", "receivers": receivers, "deadman": {"url_file": "~/deadman-url", "interval": "5m"}})
    found = rackwright_inventory.inventory(plan, hosts(plan))
    assert rackwright_inventory.schema_errors(found) == []
    webhook, mail = found["all"]["vars"]["monitoring"]["receivers"]
    assert {key: value for key, value in webhook.items() if value is not None} == {
        "name": "ops",
        "kind": "webhook",
        "severity": "warning",
        "secret_file": "~/ops-url",
    }
    assert (mail["to"], mail["secret_file"], mail["require_tls"]) == (["ops@example.org"], None, False)
    assert found["all"]["vars"]["monitoring"]["deadman"] == {"secret_file": "~/deadman-url", "interval_s": 300}
    assert found["all"]["vars"]["monitoring"]["partitions"] == [one.name for one in plan.scheduler.partitions]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "more", [{"monitoring": {"kind": "builtin"}}, {"software": {"tools": ["fio"]}}, {"software": {"containers": ["podman"]}}]
)
def test_declared_software_is_in_no_image(more: dict[str, Any]) -> None:
    """Its install steps must not be skipped with those of the baked roles."""
    for plan, baked in ((monitored(**{"monitoring": None, **more}), False), (monitored(monitoring=None), True)):
        made = {name: dataclasses.replace(host, baked=True) for name, host in hosts(plan).items()}
        assert rackwright_inventory.is_baked(rackwright_inventory.inventory(plan, made)["all"]["vars"]["cluster"]) is baked


def test_image_of_debian_12_has_every_role_but_those_of_moosefs() -> None:
    plan = small(target={"kind": "lab", "os": "debian-12"})
    made = {name: dataclasses.replace(host, baked=True) for name, host in hosts(plan).items()}
    cluster = rackwright_inventory.inventory(plan, made)["all"]["vars"]["cluster"]
    assert set(rackwright_inventory.BAKED["slurm"]) - set(cluster["preinstalled_roles"]) == {"moosefs_server", "moosefs_client"}
    assert rackwright_inventory.is_baked(cluster)


def test_existing_storage_reaches_roles_and_checks() -> None:
    """The source comes from the stack file, and no check compares size and mode, or writes to the file system."""
    declared = {
        "home": {"kind": "existing-nfs", "mount": "/home", "source": "nas:/home", "nconnect": 4},
        "scratch": {"kind": "existing-lustre", "mount": "/mnt/scratch", "source": "10.0.0.1@tcp:/scratch", "user_folder": "a/b"},
    }
    plan = small(storage=declared, users={"alice": {"uid": 2001}})
    found = rackwright_inventory.inventory(plan, hosts(plan))
    assert rackwright_inventory.schema_errors(found) == []
    home, scratch = found["all"]["vars"]["cluster"]["storage"]
    assert (home["source"], home["size_mib"], home["mode"], home["nconnect"]) == ("nas:/home", None, None, 4)
    assert home["existing"] == {"read_only": False, "user_folder": "", "version": "4.2", "sec": "sys", "flock": None}
    assert (scratch["source"], scratch["existing"]["user_folder"], scratch["existing"]["flock"]) == ("10.0.0.1@tcp:/scratch", "a/b", True)


def test_options_of_partitions_reach_the_role() -> None:
    """slurm.conf is rendered from the inventory: an option that is not in it has no effect."""
    options: dict[str, Any] = {
        "max_time": "8h",
        "default_time": "1h",
        "max_nodes": 2,
        "priority_tier": 5,
        "exclusive": True,
        "allow_groups": ["alice"],
        "qos": "floating",
        "allow_qos": ["normal"],
        "preempt_mode": "off",
    }
    qos = {
        "grp_gpus": 8,
        "grp_jobs": 4,
        "max_gpus_per_job": 2,
        "usage_factor": 0.5,
        "flags": ["OverPartQOS", "DenyOnLimit"],
        "grace_time": "2m",
    }
    partitions = {"main": {"groups": ["worker"], "default": True, **options}}
    preemption = {"by": "partition_priority", "mode": "cancel", "exempt_time": "30m"}
    cluster = load_stack(paths.stack_file("lab")).cluster
    assert cluster is not None
    changed = load_cluster(
        cluster.model_dump(mode="json", exclude_unset=True)
        | {"scheduler": {"kind": "slurm", "partitions": partitions, "qos": {"floating": qos}, "preemption": preemption}}
    ).cluster
    assert changed is not None
    plan = expand(changed, "lab")
    found = rackwright_inventory.inventory(plan, hosts(plan))
    assert rackwright_inventory.schema_errors(found) == []
    (partition,) = found["all"]["vars"]["cluster"]["scheduler"]["partitions"]
    assert {key: partition[key] for key in options} == options | {"max_time": 28800, "default_time": 3600}
    scheduler = found["all"]["vars"]["cluster"]["scheduler"]
    assert scheduler["preemption"] == {"by": "partition_priority", "mode": "cancel", "gang": False, "exempt_time_s": 1800}
    assert (
        scheduler["qos"][0].items() >= {"gpus": 8, "running_jobs": 4, "gpus_per_job": 2, "usage_factor": 0.5, "grace_time_s": 120}.items()
    )
    assert scheduler["qos"][0]["flags"] == ["DenyOnLimit", "OverPartQOS"]


def test_slow_machine_waits_longer_for_connections() -> None:
    config = rackwright_inventory.ssh_config(lab(), hosts(lab()), slowness=7)
    assert "  ConnectTimeout 21\n" in config and "  ServerAliveCountMax 14\n" in config


def test_emulated_machine_is_waited_for_longer() -> None:
    cluster = load_stack(paths.stack_file("lab-vm")).cluster
    assert cluster is not None
    machines = expand(cluster, "lab-vm")
    assert "  ConnectTimeout 15\n" in rackwright_inventory.ssh_config(machines, hosts(machines))
    assert "  ConnectTimeout 3\n" in rackwright_inventory.ssh_config(lab(), hosts(lab()))


def test_the_inventory_keeps_the_contract() -> None:
    """The schema is what both sides agree on."""
    for plan in (lab(), small(nodes={"login1": {"state": "out", "reason": "disk", "until": "2026-12-01"}})):
        assert rackwright_inventory.schema_errors(rackwright_inventory.inventory(plan, hosts(plan))) == []


@pytest.mark.parametrize(
    ("path", "value", "breach"),
    [
        ("all.vars.handover.schema", "rackwright.inventory/1", "$.all.vars.handover.schema"),
        ("all.vars.cluster.level", "high", "$.all.vars.cluster.level"),
        ("all.vars.cluster.secrets", {"munge_key": "x"}, "$.all.vars.cluster"),
        ("all.hosts.worker0.node.mac", "52:54:00:00:00:01", "$.all.hosts.worker0.node.mac"),
        ("all.hosts.worker0.node.gpus.count", 0, "$.all.hosts.worker0.node.gpus.count"),
        ("all.hosts.worker0.ansible_port", 22, "$.all.hosts.worker0"),
        ("all.hosts.Worker9", {}, "$.all.hosts"),
        ("all.children.gpu.hosts.worker0.extra", 1, "$.all.children.gpu.hosts.worker0"),
    ],
)
def test_a_breach_of_the_contract_is_named(path: str, value: object, breach: str) -> None:
    """Where, so that it can be mended."""
    plan = lab()
    broken = copy.deepcopy(rackwright_inventory.inventory(plan, hosts(plan)))
    *parents, last = path.split(".")
    place: Any = broken
    for parent in parents:
        place = place[parent]
    place[last] = value
    assert breach in {said.split(": ")[0] for said in rackwright_inventory.schema_errors(broken)}


def test_a_missing_group_breaks_the_contract() -> None:
    """A play on a group that does not exist skips, and looks green."""
    plan = lab()
    broken = rackwright_inventory.inventory(plan, hosts(plan))
    del broken["all"]["children"]["gpu"]
    assert "'gpu' is a required property" in rackwright_inventory.schema_errors(broken)[0]


def test_each_host_has_one_variable_of_its_own() -> None:
    """The plan's record, unchanged; it is not computed again."""
    plan = lab()
    for name, host in rackwright_inventory.inventory(plan, hosts(plan))["all"]["hosts"].items():
        assert host == {"ansible_host": name, "ansible_user": "root", "node": {**plan.node(name).model_dump(mode="json"), "devices": {}}}


def test_a_node_without_a_host_is_nowhere() -> None:
    """While nodes come and go, the inventory names those that exist."""
    plan = lab()
    there = {name: host for name, host in hosts(plan).items() if name != "worker1"}
    inventory = rackwright_inventory.inventory(plan, there)["all"]
    assert "worker1" not in inventory["hosts"]
    assert all("worker1" not in group["hosts"] for group in inventory["children"].values())
    assert "worker1" not in rackwright_inventory.ssh_config(plan, there) + rackwright_inventory.known_hosts(plan, there)


def test_a_node_that_is_out_can_be_reached_but_is_in_no_other_group() -> None:
    """A person repairs it through the same configuration."""
    plan = small(nodes={"worker0": {"state": "out", "reason": "fan"}})
    children = rackwright_inventory.inventory(plan, hosts(plan))["all"]["children"]
    assert [name for name, group in children.items() if "worker0" in group["hosts"]] == ["out"]
    assert "Host worker0\n" in rackwright_inventory.ssh_config(plan, hosts(plan))


def test_a_node_from_an_older_image_has_the_roles_install_again() -> None:
    plan = lab()
    made = hosts(plan)
    assert rackwright_inventory.inventory(plan, made)["all"]["vars"]["cluster"]["preinstalled_roles"] == list(
        rackwright_inventory.BAKED["slurm"]
    )
    made["worker1"] = dataclasses.replace(made["worker1"], baked=False)
    assert rackwright_inventory.inventory(plan, made)["all"]["vars"]["cluster"]["preinstalled_roles"] == []


def test_preinstalled_roles_are_what_the_image_holds() -> None:
    """An image that was pulled bare holds none."""
    plan = lab()
    assert rackwright_inventory.inventory(plan, hosts(plan), preinstalled_roles=["base"])["all"]["vars"]["cluster"][
        "preinstalled_roles"
    ] == ["base"]


def resolved(config: Path, name: str) -> dict[str, str]:
    """What the real ssh would do for a host."""
    told = subprocess.run(["ssh", "-G", "-F", str(config), name], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in told.splitlines() if " " in line)


def test_the_real_ssh_reads_it_so(tmp_path: Path) -> None:
    """A misspelt option would be an error at the first connection."""
    plan = small(access={"port": 3333, "bind_address": "0.0.0.0"})
    config = tmp_path / "ssh_config"
    config.write_text(rackwright_inventory.ssh_config(plan, hosts(plan)))
    login, second, worker = (resolved(config, name) for name in ("login0", "login1", "worker0"))
    assert (login["hostname"], login["port"], login.get("proxyjump")) == ("127.0.0.1", "3333", None)
    assert (second["hostname"], second["port"], second.get("proxyjump")) == ("127.0.0.1", "3334", None)
    assert (worker["hostname"], worker["port"], worker["proxyjump"]) == ("10.77.0.24", "22", "login0")
    for options in (login, second, worker):
        assert options["user"] == "root"
        assert options["stricthostkeychecking"] == "true"
        assert options["userknownhostsfile"] == f"{HOME}/small/known_hosts"
        assert options["globalknownhostsfile"] == "/dev/null"
        assert options["identityfile"] == f"{HOME}/small/id_ed25519"
        assert options["identitiesonly"] == "yes"
        assert options["controlmaster"] == "auto"
        assert (options["serveraliveinterval"], options["serveralivecountmax"], options["connecttimeout"]) == ("2", "2", "3")
    assert worker["hostkeyalias"] == "small-worker0"
    assert worker["controlpath"] == f"{paths.socket_folder('small')}/worker0"


def test_keys_are_pinned_without_their_comments() -> None:
    """One line each, under a name no other stack uses."""
    plan = small()
    lines = rackwright_inventory.known_hosts(plan, hosts(plan)).splitlines()
    assert lines == [f"small-{name} {KEY}{index}" for index, name in enumerate(["login0", "login1", "worker0"])]


class TestKeysOfNodesThatCannotBeGivenThemBeforeTheyStart:
    """They are born with another key, and given their own at the first converge."""

    BORN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBorn"

    def pinned(self, *settled: str) -> list[str]:
        """Pinned keys of worker0, in order."""
        plan = small()
        known = hosts(plan)
        known["worker0"] = dataclasses.replace(known["worker0"], boot_public_key=f"{self.BORN} until it is converged")
        lines = rackwright_inventory.known_hosts(plan, known, rotated=settled).splitlines()
        return [line.removeprefix("small-worker0 ") for line in lines if line.startswith("small-worker0 ")]

    def test_until_then_either_is_accepted(self) -> None:
        assert self.pinned() == [f"{KEY}2", self.BORN]

    def test_from_then_on_its_own_alone(self) -> None:
        assert self.pinned("id-login0", "id-worker0") == [f"{KEY}2"]

    def test_a_node_made_anew_is_born_again(self) -> None:
        assert self.pinned("id-worker0-of-last-year") == [f"{KEY}2", self.BORN]


def test_the_way_in_passes_through_a_login_node_that_is_in() -> None:
    """With login0 out, its sibling serves."""
    plan = small(nodes={"login0": {"state": "out", "reason": "disk"}})
    assert rackwright_inventory.ssh_endpoint(plan, hosts(plan)["worker0"]).jump == "login1"
    assert rackwright_inventory.ssh_endpoint(plan, hosts(plan)["login1"]).port == 2223


def test_a_home_with_blanks_and_percent_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other people's user names."""
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "a b%c"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "d e%f"))
    plan = small()
    config = tmp_path / "ssh_config"
    config.write_text(rackwright_inventory.ssh_config(plan, hosts(plan)))
    options = resolved(config, "worker0")
    assert options["controlpath"] == f"{tmp_path}/d e%f/{paths.socket_folder('small').name}/worker0"
    told = subprocess.run(["ssh", "-G", "-F", str(config), "worker0"], capture_output=True, text=True, check=True).stdout
    assert f"userknownhostsfile {tmp_path}/a b" in told


def test_every_public_name_is_there_in_any_order() -> None:
    """Names are resolved when they are requested; one request must not hide another."""
    for first in ("BAKED", "Host", "ssh_config"):
        script = (
            f"from rackwright import inventory as h; h.{first}; print([n for n in h.__all__ if not hasattr(h, n)], callable(h.inventory))"
        )
        assert fresh(script) == "[] True\n"
    with pytest.raises(AttributeError, match="inventry"):
        _ = rackwright_inventory.inventry


def test_the_paths_cost_the_standard_library_only() -> None:
    """The provider's drivers and the run's first steps need no more."""
    assert fresh("import sys; from rackwright.inventory import paths; print({'pydantic', 'yaml'} & set(sys.modules))") == "set()\n"


def fresh(script: str) -> str:
    """What a fresh interpreter prints."""
    environment = {**os.environ, "PYTHONPATH": str(paths.project_root() / "infra")}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment).stdout


def test_inventory_has_declared_adapters() -> None:
    """By node for its checks, and by cable end for those of the fabric; without declared adapters, the inventory has neither key."""
    adapter = {"port_guid": "0x946dae0300f01234", "pci": "0000:1a:00.0"}
    machines: dict[str, Any] = {name: {"address": f"10.77.0.{number}"} for number, name in enumerate(("login0", "worker0", "worker1"), 10)}
    machines["worker0"]["adapters"] = {"mlx5_0": adapter, "mlx5_1": {"mac": "94:6d:ae:f0:12:44"}}
    described = {
        "target": {"kind": "hosts", "os": "debian-13", "machines": machines},
        "groups": {
            "login": {"count": 1, "roles": ["login", "controller"], "cpus": 2},
            "worker": {"count": 2, "roles": ["worker"], "cpus": 8, "memory": "4GiB"},
        },
        "fabric": {"groups": ["worker"], "rails": 2},
    }
    loaded = load_cluster({"network": {"cidr": "10.77.0.0/24"}, **described})
    assert loaded.cluster is not None, loaded.findings
    plan = expand(loaded.cluster, "racks")
    made = rackwright_inventory.inventory(plan, hosts(plan))
    assert rackwright_inventory.schema_errors(made) == []
    nodes = {name: host["node"] for name, host in made["all"]["hosts"].items()}
    assert nodes["worker0"]["adapters"] == {"mlx5_0": adapter, "mlx5_1": {"mac": "94:6d:ae:f0:12:44"}}
    assert "adapters" not in nodes["worker1"]
    assert made["all"]["vars"]["fabric"]["guids"] == {"worker0/mlx5_0": "0x946dae0300f01234"}
    assert "guids" not in rackwright_inventory.inventory(lab(), hosts(lab()))["all"]["vars"]["fabric"]


def test_contract_takes_the_kernels_names_of_devices() -> None:
    """A PCI domain makes a capital letter: roceP2p1s0f0."""
    groups = {"login": {"count": 1, "roles": ["login", "controller"]}, "worker": {"count": 1, "gpus": {"model": "h100", "count": 2}}}
    plan = small(groups=groups, fabric={"hcas": ["ibP2p1s0f0", "mlx5_bond-0.1"], "subnet_manager": "login0"})
    inventory = rackwright_inventory.inventory(plan, hosts(plan))
    assert any("worker0/ibP2p1s0f0:1 " in cable for cable in inventory["all"]["vars"]["fabric"]["cables"])
    assert rackwright_inventory.schema_errors(inventory) == []


def test_playbooks_and_json_schema_name_the_version_that_is_written() -> None:
    version = rackwright_inventory.SCHEMA
    playbook = (Path(__file__).parents[3] / "playbooks/validate.yml").read_text(encoding="utf-8")
    assert f"        schema: {version}\n" in playbook
    assert rackwright_inventory.schema()["$id"] == version and f'{{"const": "{version}"}}' in json.dumps(rackwright_inventory.schema())
