"""What real GPUs get: packages in their order, and files, on every system that a profile serves, against the files kept under
tests/golden/gpu-software.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from goldens import Goldens, compact

from rackwright.catalog.compatibility import profiles
from rackwright.inventory import Host, inventory, schema_errors
from rackwright.plan import expand
from rackwright.stackfile.load import load_cluster

from .conftest import PROJECT, play, recorded_steps
from .written import Kept, Step, assert_nothing_is_lost

KERNEL = "6.8.0-1000-generic"
CHOSEN: dict[str, dict[str, Any]] = {
    "2026-lts": {
        "gpus": {"model": "h100", "count": 8},
        "nodes": {"worker0": {"gpus": {"model": "a100", "count": 8}}},
        "software": {"nccl": {"environment": {"NCCL_SOCKET_IFNAME": "eth0"}}},
    },
    "2026-lts-cuda12": {"gpus": {"model": "v100", "count": 4}, "software": {"gpudirect": "nvidia-peermem"}},
    "2026-lts-arm64": {"gpus": {"model": "gb200", "count": 4}, "software": {}},
    "2026-lts-canonical": {"gpus": {"model": "b200", "count": 8}, "software": {}},
    "debian-13": {"gpus": {"model": "a100", "count": 4}, "software": {}},
}


def described(profile: str) -> dict[str, Any]:
    """One machine for each system of the profile."""
    systems = profiles()[profile].systems
    machines = {
        f"worker{index}": {"address": f"192.0.2.{10 + index}", "os": system, "host_key": "ssh-ed25519 AAAA"}
        for index, system in enumerate(systems)
    }
    login = {"login0": {"address": "192.0.2.9", "os": "debian-13", "host_key": "ssh-ed25519 AAAA"}}
    chosen = CHOSEN[profile]
    return {
        "target": {"kind": "hosts", "os": "debian-13", "user": "root", "machines": {**login, **machines}},
        "network": {"cidr": "192.0.2.0/24"},
        "access": {"allowed_cidrs": ["198.51.100.0/24"]},
        "groups": {
            "login": {"count": 1, "roles": ["login", "controller"], "cpus": 8, "memory": "16GiB"},
            "worker": {"count": len(systems), "cpus": 64, "memory": "512GiB", "gpus": chosen["gpus"]},
        },
        "nodes": chosen.get("nodes", {}),
        "software": {"profile": profile, **chosen["software"]},
    }


def all_profiles() -> dict[str, Any]:
    """One inventory of every profile: hosts are named `<profile>.<system>` and carry what else the whole inventory would."""
    hosts: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {"gpu_software": {"hosts": {}}, "nvswitch": {"hosts": {}}}
    for profile in CHOSEN:
        loaded = load_cluster(described(profile), "rack")
        assert loaded.cluster is not None, loaded.findings
        plan = expand(loaded.cluster, "rack")
        made = {node.name: Host(node.name, node.address, "ssh-ed25519 AAAA", "life-1") for node in plan.nodes}
        handed_over = inventory(plan, made)
        assert schema_errors(handed_over) == []
        everything = handed_over["all"]
        for group, members in groups.items():
            for node in everything["children"][group]["hosts"]:
                record = everything["hosts"][node]["node"]
                hosts[f"{profile}.{record['os']}"] = {"node": record, "cluster": everything["vars"]["cluster"]}
                members["hosts"][f"{profile}.{record['os']}"] = {}
    return {"all": {"hosts": hosts, "children": groups}}


@pytest.fixture(scope="module")
def steps_of_all(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """What the modules were asked, in order."""
    folder = tmp_path_factory.mktemp("runner")
    (folder / "inventory.yml").write_text(yaml.safe_dump(all_profiles()))
    events = play(folder, "gpu_software.yml", folder / "inventory.yml", {"nvidia_driver_kernel": KERNEL}, "--skip-tags download")
    return recorded_steps(events)


@pytest.fixture(scope="module")
def recorded(steps_of_all: list[Step]) -> dict[str, list[dict[str, Any]]]:
    """The same by host."""
    found: dict[str, list[dict[str, Any]]] = {}
    for step in steps_of_all:
        found.setdefault(step.node, []).append(step.asked)
    return found


def test_every_system_gets_what_it_got(steps_of_all: list[Step], goldens: Goldens) -> None:
    """Return each file once, although several systems get it, and one manifest of the other steps."""
    kept = Kept()
    manifest = kept.manifest(steps_of_all)
    assert_nothing_is_lost(kept, manifest, steps_of_all)
    goldens.check_folder("gpu-software", {"manifest.json": compact(manifest) + "\n", **kept.files})


def test_every_profile_on_every_system_was_recorded(recorded: dict[str, list[dict[str, Any]]]) -> None:
    assert set(recorded) == {f"{name}.{system}" for name, profile in profiles().items() for system in profile.systems}


def test_versions_are_held_before_their_packages_come(recorded: dict[str, list[dict[str, Any]]]) -> None:
    """Every version that is asked for by number is one that upgrades keep to."""
    for host, asked in recorded.items():
        held: set[str] = set()
        for step in asked:
            for file in step.get("files", []):
                held.update(line.removeprefix("Package: ") for line in file["content"].splitlines() if line.startswith("Package: "))
            for package in step.get("name", []) if isinstance(step.get("name"), list) else []:
                assert "=" not in package or package.split("=")[0] in held, (host, package)


def test_roles_that_share_a_unit_agree_what_it_is_started_on(recorded: dict[str, list[dict[str, Any]]]) -> None:
    """Where they do not, each restarts it after the other, in every run."""
    for host, asked in recorded.items():
        configured: dict[str, list[str]] = {}
        for unit in (unit for step in asked for unit in step.get("units", [])):
            assert configured.setdefault(unit["name"], unit.get("config", [])) == unit.get("config", []), (host, unit["name"])


def test_no_role_trusts_a_key_for_all_repositories() -> None:
    """apt-key is gone from Debian 13, and what it added was trusted for every repository."""
    found = [
        str(path.relative_to(PROJECT))
        for folder in ("roles", "playbooks")
        for path in (PROJECT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc" and ("apt-key" in (text := path.read_text(encoding="utf-8")) or "apt_key" in text)
    ]
    assert found == []


def test_no_profile_asks_for_a_meta_package_that_brings_a_driver(recorded: dict[str, list[dict[str, Any]]]) -> None:
    names = {package.split("=")[0] for asked in recorded.values() for step in asked for package in step.get("name", [])}
    assert not {name for name in names if name in ("cuda", "cuda-drivers", "nvidia-driver") or name.startswith(("cuda-1", "cuda-drivers-"))}
