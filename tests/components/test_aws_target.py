"""Target `aws` under mocks: the exact resources of a stack file, and their inputs. No account, no stand-in."""

from __future__ import annotations

import base64
import json
from collections import Counter
from functools import cache
from typing import Any

import pulumi
import pytest
from recording import Recording, built, committed

from rackwright.catalog.instances import InstanceType, instance_types
from rackwright.inventory import paths
from rackwright.model.groups import NodeOverride, State
from rackwright.model.scheduler.slurm import PowerSaving
from rackwright.model.targets.aws import AwsTarget, Instances
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_stack
from rackwright.targets.aws.interfaces import InterfaceKind, interfaces

_INSTANCE = "aws:ec2/instance:Instance"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
_EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
STACKS = ("aws-budget", "aws-p5", "aws-cpu", "aws-inf2")


@cache
def recorded(stack: str) -> Recording:
    """Return the registrations of a committed stack."""
    return built(committed(stack))


def told(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs without absent values."""
    return {name: value for name, value in inputs.items() if value is not None}


def test_aws_budget_registers_exactly_these_resources() -> None:
    kinds = Counter(typ for typ, _ in recorded("aws-budget").made.values() if typ.startswith("aws:"))
    assert kinds == {
        "aws:ec2/vpc:Vpc": 1,
        "aws:ec2/subnet:Subnet": 3,
        "aws:ec2/internetGateway:InternetGateway": 1,
        "aws:ec2/natGateway:NatGateway": 1,
        "aws:ec2/eip:Eip": 2,
        "aws:ec2/eipAssociation:EipAssociation": 1,
        "aws:ec2/routeTable:RouteTable": 2,
        "aws:ec2/routeTableAssociation:RouteTableAssociation": 3,
        "aws:ec2/vpcEndpoint:VpcEndpoint": 1,
        "aws:ec2/securityGroup:SecurityGroup": 3,
        _INGRESS: 8,
        _EGRESS: 6,
        "aws:iam/role:Role": 2,
        "aws:iam/rolePolicy:RolePolicy": 1,
        "aws:iam/instanceProfile:InstanceProfile": 1,
        _TEMPLATE: 2,
        _INSTANCE: 3,
        "aws:ebs/volume:Volume": 2,
        "aws:ec2/volumeAttachment:VolumeAttachment": 2,
        "aws:fsx/lustreFileSystem:LustreFileSystem": 1,
        "aws:budgets/budget:Budget": 1,
        "aws:scheduler/schedule:Schedule": 4,
    }


@pytest.mark.parametrize("stack", STACKS)
def test_node_is_instance_at_planned_address(stack: str) -> None:
    plan, recording = committed(stack), recorded(stack)
    templates = recording.of(_TEMPLATE)
    found = {}
    for name, inputs in recording.of(_INSTANCE).items():
        template = templates.get(f"{name}-template", {})
        inside = [interface.get("privateIpAddress") for interface in template.get("networkInterfaces") or []]
        found[name] = inputs.get("privateIp") or inside[0]
        assert [address for address in inside[1:] if address] == [], "one address for each node"
    assert found == {node.name: node.address for node in plan.nodes}


@pytest.mark.parametrize("stack", STACKS)
def test_ssh_reaches_only_login_nodes_from_allowed_networks(stack: str) -> None:
    plan, recording = committed(stack), recorded(stack)
    from_outside = {name: inputs for name, inputs in recording.of(_INGRESS).items() if inputs.get("cidrIpv4")}
    assert {(inputs["cidrIpv4"], inputs["fromPort"], inputs["toPort"], inputs["securityGroupId"]) for inputs in from_outside.values()} == {
        (allowed, 22, 22, "id-entry-rules") for allowed in plan.access.allow
    }
    for name, inputs in recording.of(_INSTANCE).items():
        template = recording.of(_TEMPLATE).get(f"{name}-template", {})
        rules = inputs.get("vpcSecurityGroupIds") or template["networkInterfaces"][0]["securityGroups"]
        assert ("id-entry-rules" in rules) == ("login" in plan.node(name).roles), name


def test_cluster_group_admits_itself_in_both_directions() -> None:
    recording = recorded("aws-p5")
    for token in (_INGRESS, _EGRESS):
        own = [inputs for inputs in recording.of(token).values() if inputs["securityGroupId"] == "id-cluster-rules"]
        itself = [inputs for inputs in own if inputs.get("referencedSecurityGroupId") == "id-cluster-rules"]
        assert [(inputs["ipProtocol"], inputs.get("fromPort")) for inputs in itself] == [("-1", None)]


def test_lustre_ports_are_open_to_file_system() -> None:
    recording = recorded("aws-budget")
    ports = {
        (inputs["fromPort"], inputs["toPort"], inputs["referencedSecurityGroupId"])
        for inputs in recording.of(_INGRESS).values()
        if inputs["securityGroupId"] == "id-storage-rules"
    }
    assert ports == {(first, last, peer) for first, last in ((988, 988), (1018, 1023)) for peer in ("id-cluster-rules", "id-storage-rules")}


def test_efa_file_system_admits_all_client_traffic() -> None:
    inside = [inputs for inputs in recorded("aws-p5").of(_INGRESS).values() if inputs["securityGroupId"] == "id-storage-rules"]
    assert {(inputs["ipProtocol"], inputs["referencedSecurityGroupId"]) for inputs in inside} == {
        ("-1", "id-cluster-rules"),
        ("-1", "id-storage-rules"),
    }


def test_p5_has_32_efa_interfaces() -> None:
    template = recorded("aws-p5").of(_TEMPLATE)["worker1-template"]
    cards = template["networkInterfaces"]
    assert [(card["networkCardIndex"], card["deviceIndex"], card["interfaceType"]) for card in cards] == [
        (0, 0, "efa"),
        *((index, 1, "efa-only") for index in range(1, 32)),
    ]
    assert not any(card.get("associatePublicIpAddress") for card in cards)
    assert {card["subnetId"] for card in cards} == {"id-private-subnet"}
    assert {tuple(card["securityGroups"]) for card in cards} == {("id-cluster-rules",)}


def test_capacity_block_has_own_market_without_placement_group() -> None:
    recording = recorded("aws-p5")
    template = recording.of(_TEMPLATE)["worker0-template"]
    assert told(template["instanceMarketOptions"]) == {"marketType": "capacity-block"}
    reserved = template["capacityReservationSpecification"]["capacityReservationTarget"]
    assert reserved["capacityReservationId"] == "cr-00000000000000000"
    assert not template.get("placement") and not recording.of("aws:ec2/placementGroup:PlacementGroup")


def with_threads(stack: str, **threads: int) -> Plan:
    """A committed stack whose groups have that many threads per core."""
    cluster = load_stack(paths.stack_file(stack)).cluster
    assert cluster is not None
    groups = {name: group.model_copy(update={"threads_per_core": threads.get(name)}) for name, group in cluster.groups.items()}
    return expand(cluster.model_copy(update={"groups": groups}), stack)


@pytest.mark.parametrize(("stack", "template", "cores"), [("aws-budget", "worker-template", 2), ("aws-p5", "worker1-template", 96)])
def test_group_without_second_threads_keeps_all_cores(stack: str, template: str, cores: int) -> None:
    """EC2 takes the threads with the number of cores only; the plan counts what is left."""
    plan = with_threads(stack, worker=1)
    recording = built(plan)
    assert told(recording.of(_TEMPLATE)[template]["cpuOptions"]) == {"coreCount": cores, "threadsPerCore": 1}
    assert {node.cpus for node in plan.nodes if node.group == "worker"} == {cores}
    assert all(not inputs.get("cpuOptions") for name, inputs in recording.of(_TEMPLATE).items() if not name.startswith("worker"))


def test_threads_of_the_type_need_no_cpu_options() -> None:
    recording = built(with_threads("aws-budget", worker=2, login=2))
    assert [inputs.get("cpuOptions") for inputs in recording.of(_TEMPLATE).values()] == [None, None]


def test_spot_workers_are_one_time_requests() -> None:
    market = recorded("aws-budget").of(_TEMPLATE)["worker-template"]["instanceMarketOptions"]
    assert (market["marketType"], told(market["spotOptions"])) == (
        "spot",
        {"spotInstanceType": "one-time", "instanceInterruptionBehavior": "terminate"},
    )


def test_efa_group_has_one_placement_group() -> None:
    recording = recorded("aws-cpu")
    assert set(recording.of("aws:ec2/placementGroup:PlacementGroup")) == {"epyc-place", "xeon-place"}
    assert recording.of(_TEMPLATE)["epyc0-template"]["placement"]["groupName"] == "epyc-place-1"


@pytest.mark.parametrize("stack", STACKS)
def test_instances_require_imdsv2_and_encrypted_disk(stack: str) -> None:
    for name, template in recorded(stack).of(_TEMPLATE).items():
        metadata, disk = template["metadataOptions"], template["blockDeviceMappings"][0]["ebs"]
        assert (metadata["httpTokens"], metadata["httpPutResponseHopLimit"]) == ("required", 1), name
        assert (disk["volumeType"], disk["encrypted"], disk["deleteOnTermination"]) == ("gp3", "true", "true"), name


def test_instance_profile_has_no_rights() -> None:
    recording = recorded("aws-p5")
    assert recording.of("aws:iam/rolePolicy:RolePolicy") == {} == recording.of("aws:iam/rolePolicyAttachment:RolePolicyAttachment")


def saving() -> Recording:
    """Return the committed p5 stack with CPU workers on demand that Slurm may power off."""
    cluster = load_stack(paths.stack_file("aws-p5")).cluster
    assert cluster is not None and isinstance(cluster.target, AwsTarget)
    target = cluster.target.model_copy(update={"instances": {**cluster.target.instances, "worker": Instances(type="c6in.32xlarge")}})
    power = PowerSaving(suspend_time="15m", suspend_timeout="2m", resume_timeout="10m")  # type: ignore[arg-type]
    slurm = cluster.scheduler.model_copy(update={"power_saving": power})
    return built(expand(cluster.model_copy(update={"target": target, "scheduler": slurm}), "aws-p5"))


def test_only_controllers_may_stop_instances() -> None:
    recording = saving()
    (policy,) = recording.of("aws:iam/rolePolicy:RolePolicy").values()
    switch = json.loads(policy["policy"])["Statement"][1]
    assert switch["Action"] == ["ec2:StopInstances", "ec2:StartInstances", "ec2:RebootInstances"]
    assert switch["Condition"] == {"StringEquals": {"aws:ResourceTag/rackwright.stack": "aws-p5"}}
    after = {name: recording.asked[name].after for name in recording.of(_TEMPLATE)}
    assert "controllers-profile" in after["controller-template"]
    assert not any("controllers-profile" in after[name] for name in after if name != "controller-template")


def test_user_data_contains_only_own_boot_key() -> None:
    recording = recorded("aws-budget")
    given = recording.of(_INSTANCE)["worker0"]["userDataBase64"]
    assert given[pulumi.runtime.rpc._special_sig_key] == pulumi.runtime.rpc._special_secret_sig, "a secret"
    data = base64.b64decode(given["value"]).decode()
    assert data.startswith("#cloud-config\n")
    config = json.loads(data.partition("\n")[2])
    assert (config["hostname"], config["disable_root"], config["ssh_pwauth"], config["ssh_deletekeys"]) == ("worker0", True, False, True)
    assert config["ssh_keys"]["ed25519_private"] == "PRIVATE"


def test_converge_receives_instance_keys_and_disks() -> None:
    recording = recorded("aws-budget")
    hosts = recording.made["converge"][1]["hosts"]
    assert hosts["login0"]["address"] == "203.0.113.7"
    assert hosts["worker0"]["address"] == committed("aws-budget").node("worker0").address
    assert {name: (host["instance_uid"], host["user"]) for name, host in hosts.items()} == {
        name: (f"id-{name}", "ubuntu") for name in ("login0", "worker0", "worker1")
    }
    assert hosts["worker0"]["boot_public_key"] and not hosts["worker0"].get("devices")
    device = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_idlogin0accounting"
    assert hosts["login0"]["devices"]["/var/lib/mysql"] == device


def test_clients_mount_fsx_mount_name() -> None:
    assert recorded("aws-budget").made["converge"][1]["sources"] == {"fsx": "fs-1.fsx.example@tcp:/abcd"}


def test_aws_schedule_ends_stack_with_ttl() -> None:
    schedules = recorded("aws-budget").of("aws:scheduler/schedule:Schedule")
    assert {name: (one["scheduleExpression"], one["target"]["arn"].rpartition(":")[2]) for name, one in schedules.items()} == {
        **{f"end-{node}": ("at(2026-12-01T16:00:00)", "terminateInstances") for node in ("login0", "worker0", "worker1")},
        "end-file-system-fsx": ("at(2026-12-01T16:00:00)", "deleteFileSystem"),
    }
    assert json.loads(schedules["end-worker1"]["target"]["input"]) == {"InstanceIds": ["id-worker1"]}, (
        "each by itself: one that is gone already makes EC2 refuse the whole call"
    )


def test_node_that_is_out_keeps_instance_and_disks() -> None:
    """A node that is out is left out of phases and checks; its instance stays."""
    cluster = load_stack(paths.stack_file("aws-budget")).cluster
    assert cluster is not None
    out = {name: NodeOverride(state=State.OUT, reason="fan") for name in ("login0", "worker0")}
    kept, usual = built(expand(cluster.model_copy(update={"nodes": out}), "aws-budget")), recorded("aws-budget")
    assert {name: typ for name, (typ, _) in kept.made.items()} == {name: typ for name, (typ, _) in usual.made.items()}


@pytest.mark.parametrize("stack", STACKS)
def test_resources_use_provider_of_stack_region(stack: str) -> None:
    recording = recorded(stack)
    assert recording.of("pulumi:providers:aws")["aws"]["region"] == committed(stack).target.model_dump()["region"]
    providers = {recording.asked[name].provider for name, (typ, _) in recording.made.items() if typ.startswith("aws:")}
    assert [provider.rpartition("::")[2] for provider in providers] == ["id-aws"]


@pytest.mark.parametrize("stack", STACKS)
def test_resources_have_stack_tag(stack: str) -> None:
    recording = recorded(stack)
    assert json.loads(recording.of("pulumi:providers:aws")["aws"]["defaultTags"])["tags"]["rackwright.stack"] == stack
    for name, template in recording.of(_TEMPLATE).items():
        tags = {one["resourceType"]: one["tags"]["rackwright.stack"] for one in template["tagSpecifications"]}
        assert tags == {"volume": stack, "network-interface": stack}, name


def test_node_depends_on_network_routes() -> None:
    routed = {"public-routing", "private-routing", "service-routing"}
    assert routed <= recorded("aws-budget").asked["worker0"].after


def test_file_system_depends_on_security_rules() -> None:
    recording = recorded("aws-budget")
    rules = {name for token in (_INGRESS, _EGRESS) for name in recording.of(token) if "storage" in name}
    assert len(rules) == 10 and rules <= recording.asked["fsx"].after


def test_converge_depends_on_addresses_and_disks() -> None:
    assert {"login0-addressed", "login0-accounting-attached"} <= recorded("aws-budget").asked["converge"].after


def test_existing_instance_ignores_template_changes() -> None:
    assert recorded("aws-budget").asked["worker0"].ignored == {"launchTemplate", "userDataBase64"}


EFA_TYPES = [type_ for type_ in instance_types().values() if type_.efa_interfaces]


@pytest.mark.parametrize("type_", EFA_TYPES, ids=[type_.name for type_ in EFA_TYPES])
def test_instance_has_all_efa_interfaces_and_one_address(type_: InstanceType) -> None:
    planned = interfaces(type_, efa=True)
    assert sum(one.kind is not InterfaceKind.IP for one in planned) == type_.efa_interfaces
    assert (planned[0].card, planned[0].device) == (0, 0) and planned[0].kind is not InterfaceKind.EFA_ONLY
    assert all(one.device == 1 and one.kind is InterfaceKind.EFA_ONLY for one in planned[1:])
    assert len({one.card for one in planned}) == len(planned) <= type_.network_cards


def test_first_card_of_p6_b300_has_ip_only() -> None:
    planned = interfaces(instance_types()["p6-b300.48xlarge"], efa=True)
    assert [(one.card, one.kind) for one in planned][:2] == [(0, InterfaceKind.IP), (1, InterfaceKind.EFA_ONLY)]
    assert len(planned) == 17


def test_instance_without_efa_has_one_interface() -> None:
    assert [one.kind for one in interfaces(instance_types()["p5.48xlarge"], efa=False)] == [InterfaceKind.IP]


WORKED = {
    "p4d.24xlarge": 4,
    "p5.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
    "g5.48xlarge": 1,
    "g6e.48xlarge": 4,
    "c5n.18xlarge": 1,
    "hpc6id.32xlarge": 2,
    "hpc7a.96xlarge": 2,
}
"""Instance types of the founding documents and their successors, with the EFA interfaces that AWS states for each."""


@pytest.mark.parametrize(("type_", "efa"), WORKED.items())
def test_instance_type_determines_gpus_and_interfaces(type_: str, efa: int) -> None:
    plan = with_workers(type_)
    known = instance_types()[type_]
    assert (plan.node("worker0").cpus, plan.node("worker0").gpus and plan.node("worker0").gpus.count) == (
        known.cpus,
        known.gpu_count or None,
    )
    cards = built(plan).of(_TEMPLATE)["worker0-template"]["networkInterfaces"]
    assert sum(card.get("interfaceType") in {"efa", "efa-only"} for card in cards) == efa


def with_workers(type_: str) -> Plan:
    """Return the committed p5 stack with other workers, bought on demand."""
    cluster = load_stack(paths.stack_file("aws-p5")).cluster
    assert cluster is not None and isinstance(cluster.target, AwsTarget)
    workers = Instances(type=type_, efa=True)
    target = cluster.target.model_copy(update={"instances": {**cluster.target.instances, "worker": workers}})
    return expand(cluster.model_copy(update={"target": target}), "aws-p5")


def test_stack_marker_is_created_first_and_deleted_last() -> None:
    """The provider depends on it, and everything depends on its provider."""
    recording = recorded("aws-budget")
    assert recording.of("rackwright:aws:StackMarker") == {"label": {"stack": "aws-budget", "region": "us-east-1"}}
    kinds = [typ for typ, _ in recording.made.values()]
    first = next(index for index, typ in enumerate(kinds) if typ.startswith("aws:"))
    assert kinds.index("rackwright:aws:StackMarker") < kinds.index("pulumi:providers:aws") < first
