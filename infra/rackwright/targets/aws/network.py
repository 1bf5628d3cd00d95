"""The network: one for the stack, a subnet for each tier, gateways, and security groups."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from rackwright.model.targets.aws import Nat
from rackwright.model.tier import Tier
from rackwright.targets.aws.account import StackContext

EVERYTHING: Final = "-1"
ANYWHERE: Final = "0.0.0.0/0"
LUSTRE_PORTS: Final = ((988, 988), (1018, 1023))
"""Ports between clients and servers, in both directions (FSx for Lustre user guide: File system access control with Amazon VPC)."""


@dataclass(frozen=True)
class NetworkResources:
    """The network for nodes and file systems."""

    subnets: dict[Tier, aws.ec2.Subnet]
    cluster: aws.ec2.SecurityGroup
    """Security group of every node; it admits its own members in both directions, as EFA requires."""
    entry: aws.ec2.SecurityGroup
    """Security group of login nodes, in addition; it admits SSH from the networks of the stack file."""
    storage: aws.ec2.SecurityGroup | None
    """Security group of file systems; it admits the cluster."""
    storage_rules: list[pulumi.Resource]
    """Dependencies of a file system: FSx refuses to create one whose group lacks a port."""
    ready: list[pulumi.Resource]
    """Dependencies of a node, so that its package repositories are reachable at its start."""


def network(site: StackContext) -> NetworkResources:
    """Create every resource that connects nodes."""
    vpc = aws.ec2.Vpc(
        "network",
        cidr_block=site.plan.network.cidr,
        enable_dns_support=True,
        enable_dns_hostnames=True,
        tags=site.named("network"),
        opts=site.options(),
    )
    subnets = {tier: _subnet(site, vpc, tier, cidr) for tier, cidr in _subnets(site).items()}
    ready = _ways_out(site, vpc, subnets)
    cluster, entry = _cluster_group(site, vpc), _entry_group(site, vpc)
    if not any(storage.fsx for storage in site.plan.storage):
        return NetworkResources(subnets, cluster, entry, None, [], ready)
    storage, rules = _storage_group(site, vpc, cluster)
    return NetworkResources(subnets, cluster, entry, storage, rules, ready)


def _subnets(site: StackContext) -> dict[Tier, IPv4Network]:
    return site.target.subnets(IPv4Network(site.plan.network.cidr))


def _subnet(site: StackContext, vpc: aws.ec2.Vpc, tier: Tier, cidr: IPv4Network) -> aws.ec2.Subnet:
    """Create a subnet without automatic public addresses: with them, EC2 refuses an instance with several interfaces."""
    return aws.ec2.Subnet(
        f"{tier.value}-subnet",
        vpc_id=vpc.id,
        availability_zone=site.target.zone,
        cidr_block=str(cidr),
        map_public_ip_on_launch=False,
        tags=site.named(tier.value),
        opts=site.options(),
    )


def _ways_out(site: StackContext, vpc: aws.ec2.Vpc, subnets: dict[Tier, aws.ec2.Subnet]) -> list[pulumi.Resource]:
    gateway = aws.ec2.InternetGateway("internet", vpc_id=vpc.id, tags=site.named("internet"), opts=site.options())
    open_table = _table(site, vpc, "public", [aws.ec2.RouteTableRouteArgs(cidr_block=ANYWHERE, gateway_id=gateway.id)])
    routed = [_association(site, Tier.PUBLIC, subnets[Tier.PUBLIC], open_table)]
    nat = _nat(site, subnets[Tier.PUBLIC], [gateway, *routed]) if site.target.nat is Nat.GATEWAY else None
    routes = [aws.ec2.RouteTableRouteArgs(cidr_block=ANYWHERE, nat_gateway_id=nat.id)] if nat else []
    closed_table = _table(site, vpc, "private", routes)
    routed += [_association(site, tier, subnets[tier], closed_table) for tier in (Tier.PRIVATE, Tier.SERVICE)]
    if site.target.s3_endpoint:
        aws.ec2.VpcEndpoint(
            "s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{site.target.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[open_table.id, closed_table.id],
            tags=site.named("s3"),
            opts=site.options(),
        )
    return routed


def _table(site: StackContext, vpc: aws.ec2.Vpc, name: str, routes: list[aws.ec2.RouteTableRouteArgs]) -> aws.ec2.RouteTable:
    return aws.ec2.RouteTable(f"{name}-routes", vpc_id=vpc.id, routes=routes, tags=site.named(name), opts=site.options())


def _association(site: StackContext, tier: Tier, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> pulumi.Resource:
    return aws.ec2.RouteTableAssociation(f"{tier.value}-routing", subnet_id=subnet.id, route_table_id=table.id, opts=site.options())


def _nat(site: StackContext, subnet: aws.ec2.Subnet, after: list[pulumi.Resource]) -> aws.ec2.NatGateway:
    """Create the NAT gateway for nodes without a public address; it is billed by the hour and by the byte."""
    address = aws.ec2.Eip("nat-address", domain="vpc", tags=site.named("nat"), opts=site.options(depends_on=after))
    return aws.ec2.NatGateway(
        "nat", subnet_id=subnet.id, allocation_id=address.allocation_id, tags=site.named("nat"), opts=site.options(depends_on=after)
    )


def _security_group(site: StackContext, vpc: aws.ec2.Vpc, name: str, description: str) -> aws.ec2.SecurityGroup:
    return aws.ec2.SecurityGroup(f"{name}-rules", vpc_id=vpc.id, description=description, tags=site.named(name), opts=site.options())


def _cluster_group(site: StackContext, vpc: aws.ec2.Vpc) -> aws.ec2.SecurityGroup:
    """Admit all traffic within the group, with rules that name the group: EFA accepts no other (EC2 user guide: EFA, security group)."""
    group = _security_group(site, vpc, "cluster", "Nodes of the cluster among each other")
    _admit(site, "cluster-itself", group, peer=group)
    _let_out(site, "cluster-itself-out", group, peer=group)
    _let_out(site, "cluster-anywhere", group, cidr=ANYWHERE)
    return group


def _entry_group(site: StackContext, vpc: aws.ec2.Vpc) -> aws.ec2.SecurityGroup:
    group = _security_group(site, vpc, "entry", "SSH to login nodes")
    for index, cidr in enumerate(site.plan.access.allow):
        _admit(site, f"entry-ssh-{index}", group, cidr=cidr, ports=(22, 22))
    return group


def _storage_group(
    site: StackContext, vpc: aws.ec2.Vpc, cluster: aws.ec2.SecurityGroup
) -> tuple[aws.ec2.SecurityGroup, list[pulumi.Resource]]:
    """Admit Lustre's ports between cluster and servers and among servers; with EFA everything, as FSx requires."""
    group = _security_group(site, vpc, "storage", "File systems and their clients")
    over_efa = any(declared.fsx is not None and declared.fsx.efa for declared in site.plan.storage)
    rules: list[pulumi.Resource] = []
    for number, ports in enumerate([None] if over_efa else LUSTRE_PORTS):
        for name, peer in (("cluster", cluster), ("itself", group)):
            rules.append(_admit(site, f"storage-{name}-{number}", group, peer=peer, ports=ports))
            rules.append(_let_out(site, f"storage-{name}-{number}-out", group, peer=peer, ports=ports))
        rules.append(_admit(site, f"cluster-storage-{number}", cluster, peer=group, ports=ports))
    return group, rules


def _admit(site: StackContext, name: str, group: aws.ec2.SecurityGroup, **whom: Any) -> pulumi.Resource:
    return aws.vpc.SecurityGroupIngressRule(name, **_rule(group, **whom), opts=site.options())


def _let_out(site: StackContext, name: str, group: aws.ec2.SecurityGroup, **whom: Any) -> pulumi.Resource:
    return aws.vpc.SecurityGroupEgressRule(name, **_rule(group, **whom), opts=site.options())


def _rule(
    group: aws.ec2.SecurityGroup,
    *,
    peer: aws.ec2.SecurityGroup | None = None,
    cidr: str | None = None,
    ports: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Return the arguments of a rule in either direction: its group, its peer, its TCP ports (all traffic without ports)."""
    return {
        "security_group_id": group.id,
        "referenced_security_group_id": peer.id if peer else None,
        "cidr_ipv4": cidr,
        "ip_protocol": "tcp" if ports else EVERYTHING,
        "from_port": ports[0] if ports else None,
        "to_port": ports[1] if ports else None,
    }
