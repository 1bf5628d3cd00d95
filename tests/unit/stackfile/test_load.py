"""From a description to a cluster, or to every field finding at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from support.rows import each_row

from rackwright.derive.nodes import members
from rackwright.model import Cluster, Role
from rackwright.model.targets.hosts import HostsTarget
from rackwright.stackfile.field_errors import walk
from rackwright.stackfile.load import load_cluster, load_configured


def described() -> dict[str, Any]:
    """A small description, as the engine would pass it."""
    return {
        "target": {"kind": "lab"},
        "network": {"cidr": "10.77.0.0/24"},
        "groups": {"login": {"count": 1}, "worker": {"count": 2, "memory": "2GiB", "gpus": {"model": "h100", "count": 8}}},
    }


def put(path: str, value: object) -> dict[str, Any]:
    """The description with one value changed."""
    whole = described()
    *parents, last = path.split(".")
    place: Any = whole
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = value
    return whole


@each_row(
    ("path", "value", "rule", "where", "cause", "hint"),
    [
        ("verify_leval", "smoke", "unknown-key", "verify_leval", "unknown key `verify_leval`", "did you mean `verify_level`?"),
        ("groups.worker.cout", 1, "unknown-key", "groups.worker.cout", "unknown key", "did you mean `count`?"),
        ("groups.worker.gpus.kind", 1, "unknown-key", "groups.worker.gpus.kind", "unknown key", "use one of: count, mig, model, others"),
        ("target.mirrors", "x", "unknown-key", "target.mirrors", "unknown key", "did you mean `mirror`?"),
        (
            "scheduler",
            {"kind": "slurm", "partitions": {"gpu": {"group": []}}},
            "unknown-key",
            "scheduler.partitions.gpu.group",
            "unknown",
            "`groups`",
        ),
        ("nodes.worker0", {"gpu": 1}, "unknown-key", "nodes.worker0.gpu", "unknown key `gpu`", "`gpus`"),
        ("groups.worker", {}, "missing-key", "groups.worker.count", "is missing", "add `count:`"),
        ("target", {}, "missing-key", "target.kind", "is missing", "add `kind:`"),
        ("target.kind", "lap", "choice", "target.kind", "`lap` is not one of lab, vm, hosts", "did you mean `lab`?"),
        ("target.os", "debian-11", "choice", "target.os", "is not one of debian-12, debian-13", "did you mean"),
        ("verify_level", "smok", "choice", "verify_level", "checks, smoke, full", "did you mean `smoke`?"),
        ("groups.worker.roles", ["wroker"], "choice", "groups.worker.roles[0]", "`wroker` is not one of", "did you mean `worker`?"),
        ("groups.worker.roles", "worker", "value", "groups.worker.roles", "expected a list, found `worker`", "brackets"),
        ("groups.worker.gpus.mig", 5, "value", "groups.worker.gpus.mig", "expected a profile, profiles with their numbers, or a list", ""),
        ("groups.worker.gpus.mig", {"3g.40gb": 0}, "value", "groups.worker.gpus.mig.3g.40gb", "too small", "at least 1"),
        (
            "groups.worker.gpus.mig",
            [{"device": [0], "profiles": {"3g.40gb": 1}}],
            "unknown-key",
            "groups.worker.gpus.mig[0].device",
            "unknown key",
            "did you mean `devices`?",
        ),
        ("groups.worker.threads_per_core", 3, "choice", "groups.worker.threads_per_core", "`3` is not one of 1, 2, 4", ""),
        ("groups.worker.count", "2", "value", "groups.worker.count", "expected a whole number, found `2`", "remove the quotes"),
        ("groups.worker.count", 2.5, "value", "groups.worker.count", "`2.5`", ""),
        ("groups.worker.count", True, "value", "groups.worker.count", "expected a whole number, found `true`", ""),
        ("groups.worker.count", -1, "value", "groups.worker.count", "too small", "at least 0"),
        ("groups.worker.count", 10**9, "value", "groups.worker.count", "too large", "at most 4096"),
        ("groups.worker", None, "value", "groups.worker", "expected a mapping, found null", "remove the key"),
        ("groups.worker.memory", "2GB", "size", "groups.worker.memory", "is not a size", "write 2GiB"),
        ("groups.worker.memory", 2048, "size", "groups.worker.memory", "has no unit", "2048MiB"),
        ("groups.Worker", {"count": 1}, "label", "groups.Worker", "not a DNS label", "lower-case"),
        ("groups.a_b", {"count": 1}, "label", "groups.a_b", "not a DNS label", "lower-case"),
        (f"groups.{'a' * 64}", {"count": 1}, "label", f"groups.{'a' * 64}", "has 64 characters", "at most 63"),
        ("network.cidr", "10.77.0.5/24", "network", "network.cidr", "inside a network", "write the network: 10.77.0.0/24"),
        ("network.cidr", "10.77.0.0/33", "network", "network.cidr", "not an IPv4 network", "address/prefix"),
        ("network.domain", "lab..internal", "domain", "network.domain", "not a domain name", "lab.internal"),
        ("access.allowed_cidrs", ["10.0.0.0/8", "all"], "network", "access.allowed_cidrs[1]", "not an IPv4 network", "address/prefix"),
        ("access.bind_address", "localhost", "address", "access.bind_address", "not an IPv4 address", "127.0.0.1"),
        ("network.cidr", "fd00:10::/64", "network", "network.cidr", "is an IPv6 network", "10.77.0.0/24"),
        ("access.bind_address", "::1", "address", "access.bind_address", "is an IPv6 address", "127.0.0.1"),
        ("access.bind_address", "10.0.0.1/24", "address", "access.bind_address", "not an IPv4 address", "write 10.0.0.1"),
        ("access.port", 70000, "value", "access.port", "too large", "at most 65535"),
        ("storage.fs", {"kind": "moosefs", "mount": "mnt/x", "size": "1GiB"}, "mount", "storage.fs.mount", "not a mount point", "absolute"),
        (
            "storage.fs",
            {"kind": "moosefs", "mount": "/mnt/x", "size": "1GiB", "mode": 511},
            "mode",
            "storage.fs.mode",
            "not a file mode",
            "quotes",
        ),
        (
            "storage.fs",
            {"kind": "moosefs", "mount": "/mnt/x", "size": "1GiB", "mode": "0888"},
            "mode",
            "storage.fs.mode",
            "`0888`",
            "octal",
        ),
        (
            "storage.fs",
            {"kind": "lustre", "mount": "/mnt/x", "size": "1GiB"},
            "choice",
            "storage.fs.kind",
            "`lustre` is not one of moosefs, nfs",
            "",
        ),
        ("scheduler", {"kind": "slurm", "drain_timeout": "5 minutes"}, "duration", "scheduler.drain_timeout", "not a duration", "like 5m"),
        (
            "scheduler",
            {"kind": "slurm", "drain_timeout": "1-12:00:00"},
            "duration",
            "scheduler.drain_timeout",
            "not a duration",
            "write 1d12h",
        ),
        ("scheduler", {"kind": "slurm", "drain_timeout": "90:00"}, "duration", "scheduler.drain_timeout", "not a duration", "write 90m"),
        (
            "scheduler",
            {"kind": "slurm", "power_saving": {}},
            "missing-key",
            "scheduler.power_saving.suspend_time",
            "is missing",
            "add `suspend_time:`",
        ),
        (
            "scheduler",
            {"kind": "slurm", "partitions": {"a,b": {}}},
            "partition-name",
            "scheduler.partitions.a,b",
            "not a name of a partition",
            "letters, digits",
        ),
        ("users.Alice", {"uid": 2001}, "user-name", "users.Alice", "not a user name", "lower-case"),
        (
            "users.alice",
            {"uid": 2001, "shell": "bash"},
            "value",
            "users.alice.shell",
            "does not match the required pattern",
            "use a value that matches",
        ),
        ("nodes.worker0", {"state": "off"}, "choice", "nodes.worker0.state", "is not one of in, out", ""),
        ("nodes.worker0", {"until": "soon"}, "day", "nodes.worker0.until", "not a day", "2026-12-01"),
        ("time_zone", "utc", "value", "time_zone", "does not match the required pattern", "use a value that matches"),
        ("fabric", {"hcas": [f"mlx5_{rail}" for rail in range(17)]}, "value", "fabric.hcas", "has more than 16 items", "at most 16"),
        ("fabric", {"hcas": ["mlx5_0:1"]}, "rdma-device", "fabric.hcas[0]", "not a name of an RDMA device", "rdma link"),
        ("fabric", {"oversubscription": "half"}, "ratio", "fabric.oversubscription", "`half` is not a ratio", "3:2"),
        ("fabric", {"oversubscription": 0.5}, "ratio", "fabric.oversubscription", "out of range", "use 1"),
        ("fabric", {"oversubscription": "33:2"}, "ratio", "fabric.oversubscription", "out of range", "to 16"),
        ("groups.worker.rack", 12, "rack", "groups.worker.rack", "12 is not the name of a rack", "in quotes"),
        ("groups.worker.rack", "r 1", "rack", "groups.worker.rack", "not the name of a rack", "letters"),
        ("fabric", {"hcas": ["r" * 64]}, "rdma-device", "fabric.hcas[0]", "has 64 characters", "at most 63"),
        ("rdma", {"roce": {"devices": ["a/b"]}}, "rdma-device", "rdma.roce.devices[0]", "not a name of an RDMA device", "rdma link"),
    ],
)
def test_a_wrong_field_is_one_finding(path: str, value: object, rule: str, where: str, cause: str, hint: str) -> None:
    """Where, what, what now."""
    loaded = load_cluster(put(path, value))
    assert loaded.cluster is None
    (finding,) = loaded.findings
    assert (finding.rule, finding.path) == (rule, where)
    assert cause in finding.cause
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("text", "cause", "hint"),
    [
        ("[2001:db8::1]", "has brackets", '"2001:db8::1"'),
        ("fe80::1%eth0", "link-local address", "global address"),
        ("fe80::1", "link-local address", "or a name"),
        ("ff02::1", "not the address of a machine", "address of the machine"),
        ("2001:db8::/64", "is an IPv6 address", "host name"),
        ("admin@10.0.0.1", "neither an IPv4 address nor a host name", "as `user:`"),
        ("10.0.0.1:2222", "neither an IPv4 address nor a host name", "`port: 2222`"),
        ("my node", "neither an IPv4 address nor a host name", "like node1.example.org"),
    ],
)
def test_ssh_address_names_what_was_written(text: str, cause: str, hint: str) -> None:
    """People paste what they type after `ssh`."""
    machine = {"address": "10.77.0.2", "ssh_address": text}
    whole = described() | {"target": {"kind": "hosts", "os": "debian-13", "machines": {"login0": machine}}}
    (finding,) = load_cluster(whole).findings
    assert (finding.rule, finding.path) == ("ssh-address", "target.machines.login0.ssh_address")
    assert cause in finding.cause
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("fields", "path", "rule", "cause", "hint"),
    [
        ({"bonds": {"bond0": {"mode": "4", "members": ["a", "b"]}}}, "bonds.bond0.mode", "bond-mode", "`4`", "write 802.3ad"),
        ({"bonds": {"bond0": {"mode": 1, "members": ["a", "b"]}}}, "bonds.bond0.mode", "bond-mode", "`1`", "write active-backup"),
        ({"bonds": {"bond0": {"mode": "LACP", "members": ["a", "b"]}}}, "bonds.bond0.mode", "bond-mode", "`LACP`", "write 802.3ad"),
        (
            {"bonds": {"bond0": {"mode": "lacp-ish", "members": ["a", "b"]}}},
            "bonds.bond0.mode",
            "bond-mode",
            "`lacp-ish`",
            "one of balance-rr",
        ),
        (
            {"bonds": {"management-bond0": {"mode": "802.3ad", "members": ["a", "b"]}}},
            "bonds.management-bond0",
            "interface-name",
            "16",
            "ip -br",
        ),
        ({"vlans": {"b.1@b": {"id": 1, "parent": "b"}}}, "vlans.b.1@b", "interface-name", "not the name", "write b.1: b is its parent"),
        ({"vlans": {"b.1": {"id": 0, "parent": "b"}}}, "vlans.b.1.id", "value", "0", "at least 1"),
        ({"vlans": {"b.1": {"id": 4095, "parent": "b"}}}, "vlans.b.1.id", "value", "4095", "at most 4094"),
        ({"vlans": {"b.1": {"id": 1, "parent": "a/b"}}}, "vlans.b.1.parent", "interface-name", "`a/b`", "ip -br link"),
    ],
)
def test_wrong_link_is_one_finding(fields: dict[str, object], path: str, rule: str, cause: str, hint: str) -> None:
    machine = {"address": "10.77.0.2", **fields}
    (finding,) = load_cluster(described() | {"target": {"kind": "hosts", "os": "debian-13", "machines": {"login0": machine}}}).findings
    assert (finding.rule, finding.path) == (rule, f"target.machines.login0.{path}")
    assert cause in finding.cause
    assert hint in finding.hint


def test_ssh_address_may_be_ipv6() -> None:
    machine = {"address": "10.77.0.2", "ssh_address": "2001:DB8:0::0:5"}
    cluster = load_cluster(described() | {"target": {"kind": "hosts", "os": "debian-13", "machines": {"login0": machine}}}).cluster
    assert cluster is not None and isinstance(cluster.target, HostsTarget)
    assert cluster.target.machines["login0"].ssh_address == "2001:db8::5"


def test_all_findings_come_at_once() -> None:
    """One run reports all mistakes."""
    whole = put("groups.worker.cout", 1) | {"verify_level": "smok", "access": {"port": 0}, "network": {}}
    assert {finding.path for finding in load_cluster(whole).findings} == {
        "groups.worker.cout",
        "verify_level",
        "access.port",
        "network.cidr",
    }


@pytest.mark.parametrize("value", [None, [], "lab", 3])
def test_what_is_no_mapping_is_a_finding(value: object) -> None:
    """Also at the very top."""
    (finding,) = load_cluster(value).findings
    assert finding.path == "rackwright:cluster"


def test_rules_can_judge_what_is_left() -> None:
    """The wrong parts are left out, and their places are marked: where they are, and where they were meant to be."""
    whole = put("groups.worker.memory", "much")
    whole["groups"]["login"]["memry"] = "2GiB"
    whole["access"] = {"allowed_cidrs": ["x", "10.0.0.0/8", "y"]}
    loaded = load_cluster(whole)
    assert loaded.cluster is None
    assert loaded.valid_subset is not None
    assert loaded.valid_subset.groups["worker"].memory is None
    assert [str(network) for network in loaded.valid_subset.access.allowed_cidrs] == ["10.0.0.0/8"]
    assert {str(place) for place in loaded.invalid_paths} == {
        "groups.worker.memory",
        "groups.login.memory",
        "access.allowed_cidrs[0]",
        "access.allowed_cidrs[2]",
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("network", {}),
        ("groups.worker.count", "2"),
        ("groups.worker.rols", ["worker"]),
        ("groups.worker.gpus", 8),
        ("groups.Worker", {"count": 1}),
        ("nodes", []),
        ("target.os", "debian-11"),
    ],
)
def test_nothing_is_judged_when_other_parts_would_look_wrong(path: str, value: object) -> None:
    """A misspelt `roles` is one mistake: that the cluster then has no controller is none."""
    assert load_cluster(put(path, value)).valid_subset is None


def test_paths_through_a_union_leave_the_tag_out() -> None:
    """The user wrote `target.os`, not `target.lab.os`; this is what makes room for further targets."""

    class Lab(BaseModel):
        kind: Literal["lab"]
        os: int

    class Rack(BaseModel):
        kind: Literal["rack"]
        machines: dict[str, Lab | None]

    class Whole(BaseModel):
        target: Lab | Rack = Field(discriminator="kind")
        spare: Lab | Rack | None = Field(default=None, discriminator="kind")

    assert [str(part) for part in walk(("target", "lab", "os"), Whole)[:1]] == ["target.os"]
    place, known = walk(("spare", "rack", "machines", "m1", "oss"), Whole)
    assert str(place) == "spare.machines.m1.oss"
    assert known == ("kind", "os")


def test_the_engine_gives_groups_in_alphabetical_order_and_the_file_puts_them_right(stacks: Path) -> None:
    """Addresses follow the declared order: with the engine's, workers would move when the program runs."""
    file = stacks / "Pulumi.lab.yaml"
    file.write_text(file.read_text() + "      storage: {count: 1}\n")
    given = described()
    given["groups"] = {
        "login": {"count": 1, "roles": ["login", "controller", "accounting"]},
        "storage": {"count": 1},
        "worker": {"count": 2, "gpus": {"count": 8, "model": "h100"}},
    }
    loaded = load_configured("lab", given, file)
    assert loaded.cluster is not None
    assert list(loaded.cluster.groups) == ["login", "worker", "storage"]


def test_a_description_from_elsewhere_is_refused(stacks: Path) -> None:
    """Another file given to the engine would be planned with this file's order, or without any."""
    for file in (stacks / "Pulumi.lab.yaml", stacks / "Pulumi.none.yaml"):
        (finding,) = load_configured("lab", described(), file).findings
        assert finding.rule == "stack-file"


def test_wrong_fields_from_the_engine_are_found_too(stacks: Path) -> None:
    """The program validates what it was given."""
    (finding,) = load_configured("lab", put("verify_level", "smok"), stacks / "Pulumi.lab.yaml").findings
    assert finding.path == "verify_level"


@pytest.mark.parametrize("mig", ["3g.40gb", {"3g.40gb": 1, "1g.10gb": 4}, [{"devices": [0], "profiles": {"7g.80gb": 1}}]])
def test_forms_of_mig_survive_being_written_and_read(mig: object) -> None:
    """The record of what was applied holds the form of the stack file."""
    cluster = load_cluster(put("groups.worker.gpus.mig", mig)).cluster
    assert cluster is not None
    assert Cluster.model_validate_json(cluster.model_dump_json(), strict=True) == cluster


def test_members_merge_group_and_node(stacks: Path) -> None:
    """Second-hand machines differ."""
    whole = described() | {
        "nodes": {"worker1": {"gpus": {"count": 4}, "cpus": 3, "rack": "r1"}, "login0": {"gpus": {"model": "a100", "count": 1}}}
    }
    cluster = load_cluster(whole).cluster
    assert cluster is not None
    login, first, second = members(cluster)
    assert (login.roles, login.cpus, login.memory) == ((Role.LOGIN,), 2, 2**30)
    assert (login.gpus.model, login.gpus.count) == ("a100", 1) if login.gpus else False
    assert (first.cpus, first.rack, first.gpus.count if first.gpus else 0) == (2, None, 8)
    assert (second.cpus, second.rack, second.gpus.count if second.gpus else 0) == (3, "r1", 4)


@pytest.mark.parametrize(
    ("name", "hint"), [(["a", "b"], "write one value; "), ({"a": 1}, "write one value; "), (5, "write it in quotes; ")]
)
def test_hint_for_a_name_of_another_type(name: object, hint: str) -> None:
    """Quotes turn a number into a name, but not a list."""
    loaded = load_cluster(
        {"target": {"kind": "hosts", "os": "debian-13", "jump_host": name}, "network": {"cidr": "10.77.0.0/24"}, "groups": {}}
    )
    assert [finding.hint.startswith(hint) for finding in loaded.findings if finding.path == "target.jump_host"] == [True]


def test_more_cpus_than_linux_has_are_refused() -> None:
    """A digit too many would be written into slurm.conf, which stores 16 bits."""
    said = {"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/24"}, "nodes": {"worker0": {"cpus": 8193}}}
    loaded = load_cluster({**said, "groups": {"worker": {"count": 1, "cpus": 12800}}})
    assert [finding.path for finding in loaded.findings] == ["groups.worker.cpus", "nodes.worker0.cpus"]
    assert {finding.hint for finding in loaded.findings} == {"use at most 8192"}
