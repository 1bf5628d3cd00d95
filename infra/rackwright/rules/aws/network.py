"""The network of target `aws`: an existing region and zone, ranges that AWS accepts, inbound and outbound access."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from rackwright.catalog.regions import regions
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.targets.aws import Nat
from rackwright.rules.aws.groups import target
from rackwright.rules.registry import RuleContext, Violation, rule

_WIDEST, _NARROWEST = 16, 28
"""Prefixes of networks and subnets (EC2 API: CreateVpc, CreateSubnet). AWS keeps the first four addresses of each subnet and the last;
nodes begin at the seventeenth."""
_ANYBODY: Final = IPv4Network("0.0.0.0/0")
_PRIVATE: Final = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
_EXAMPLES: Final = tuple(IPv4Network(text) for text in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))
"""Documentation ranges (RFC 5737): never assigned to a host."""
_KUBERNETES: Final = {
    IPv4Network("10.96.0.0/12"): "kubeadm's default for services",
    IPv4Network("10.244.0.0/16"): "Flannel's default for pods",
}
"""kubeadm configuration v1beta4 (serviceSubnet) and flannel's kube-flannel.yml, 2026-08."""
_MOST_RULES: Final = 60
"""Inbound rules of a security group (Amazon VPC user guide: quotas)."""
_ALLOW_HINT: Final = "enter the network from which you connect, like <your public address>/32"


@rule("region-unknown")
def region_unknown(case: RuleContext) -> Iterator[Violation]:
    """An unknown region has no API endpoint; the regions of China and of the US government need other ARNs."""
    here = target(case)
    if here is not None and here.region not in regions():
        hint = f"{did_you_mean(here.region, regions())} Add a row to the catalogue's regions.csv for a new region"
        yield Violation("target.region", f"region `{here.region}` is not in the catalogue", hint)


@rule("zone-region")
def zone_region(case: RuleContext) -> Iterator[Violation]:
    """A zone is named after its region (cluster-toolkit v1.95: test_zone_in_region)."""
    here = target(case)
    if here is not None and here.zone[:-1] != here.region:
        yield Violation("target.zone", f"{here.zone} is not in {here.region}", f"use {here.region}a, for instance, or change the region")


@rule("zone-unknown", Severity.WARNING)
def zone_unknown(case: RuleContext) -> Iterator[Violation]:
    """The visible zones differ between accounts; a zone that the catalogue lacks is usually a typing error."""
    here = target(case)
    known = regions().get(here.region) if here else None
    if here is not None and known is not None and here.zone[:-1] == here.region and here.zone not in known.zones:
        hint = f"known: {', '.join(known.zones)}; run `aws ec2 describe-availability-zones` to list your account's zones"
        yield Violation("target.zone", f"zone `{here.zone}` is not in the catalogue", hint)


@rule("vpc-size")
def vpc_size(case: RuleContext) -> Iterator[Violation]:
    """AWS accepts ranges from /16 to /28, and the smallest subnet is a quarter of the network."""
    here, cidr = target(case), case.cluster.network.cidr
    if here is not None:
        narrowest = max(subnet.prefixlen for subnet in here.subnets(cidr).values())
        if cidr.prefixlen < _WIDEST or narrowest > _NARROWEST:
            cause = (
                f"{cidr}: AWS accepts networks from /{_WIDEST}, and subnets up to /{_NARROWEST}; the smallest of four here is /{narrowest}"
            )
            yield Violation("network.cidr", cause, f"use /{_WIDEST} to /{_NARROWEST - 2}")


@rule("network-kubernetes", Severity.WARNING)
def network_kubernetes(case: RuleContext) -> Iterator[Violation]:
    """Kubernetes clusters in peered networks often use the default ranges."""
    for taken, owner in _KUBERNETES.items() if target(case) else ():
        if case.cluster.network.cidr.overlaps(taken):
            cause = f"{case.cluster.network.cidr} overlaps {taken}: {owner}"
            yield Violation("network.cidr", cause, "use another range, like 10.90.0.0/20, before the first `up`")


@rule("access-open-to-internet", Severity.WARNING)
def access_open_to_internet(case: RuleContext) -> Iterator[Violation]:
    """A login node with a public address receives login attempts from the whole internet within minutes."""
    if target(case) and _ANYBODY in case.cluster.access.allowed_cidrs:
        yield Violation("access.allowed_cidrs", "permits the whole internet to reach the login nodes", _ALLOW_HINT)


def _allowed(case: RuleContext) -> list[IPv4Network]:
    """Return the IPv4 networks of `access.allowed_cidrs`; another rule refuses those of IPv6."""
    return [network for network in case.cluster.access.allowed_cidrs if isinstance(network, IPv4Network)]


@rule("allow-private")
def allow_private(case: RuleContext) -> Iterator[Violation]:
    """Login nodes have public addresses, and connections from the internet come from public addresses."""
    allow = _allowed(case)
    if target(case) and allow and all(any(network.subnet_of(private) for private in _PRIVATE) for network in allow):
        cause = "private ranges only: no one can connect from the internet, not even provisioning"
        yield Violation("access.allowed_cidrs", cause, _ALLOW_HINT)


@rule("allow-placeholder", Severity.WARNING, level_on_deploy=Severity.ERROR)
def allow_placeholder(case: RuleContext) -> Iterator[Violation]:
    """A documentation range permits no connection: instances would be billed until provisioning times out."""
    for network in _allowed(case) if target(case) else ():
        if any(network.subnet_of(example) for example in _EXAMPLES):
            yield Violation("access.allowed_cidrs", f"{network} is a documentation range (RFC 5737)", _ALLOW_HINT)


@rule("allow-many")
def allow_many(case: RuleContext) -> Iterator[Violation]:
    """Each network is one rule of a security group."""
    allow = case.cluster.access.allowed_cidrs
    if target(case) and len(allow) > _MOST_RULES:
        cause = f"{len(allow)} networks; a security group accepts at most {_MOST_RULES}"
        yield Violation("access.allowed_cidrs", cause, "merge adjacent networks into wider ones")


@rule("access-unpublished", Severity.WARNING)
def access_unpublished(case: RuleContext) -> Iterator[Violation]:
    """If login nodes have addresses of their own, no port of this machine is published."""
    access = case.cluster.access
    if target(case):
        for key in ("port", "bind_address"):
            if getattr(access, key) != type(access).model_fields[key].default:
                cause = "has no effect on target aws: login nodes have their own addresses and SSH ports"
                yield Violation(f"access.{key}", cause, "remove it")


@rule("nat-none", Severity.WARNING)
def nat_none(case: RuleContext) -> Iterator[Violation]:
    """Nodes other than login nodes download their packages through the NAT gateway."""
    here = target(case)
    if here is not None and here.nat is Nat.NONE:
        cause = "nodes without a public address cannot reach package servers"
        yield Violation("target.nat", cause, "use `gateway`, or an image with every package that the roles install")


@rule("session-manager-unreachable", Severity.WARNING)
def session_manager_unreachable(case: RuleContext) -> Iterator[Violation]:
    """The Session Manager agent connects to the service over HTTPS (Systems Manager user guide: Setting up Session Manager)."""
    here = target(case)
    if here is not None and here.session_manager and here.nat is Nat.NONE:
        cause = "works on login nodes only: without a NAT gateway, other nodes cannot reach the service"
        yield Violation("target.session_manager", cause, "use `nat: gateway`, or remove it")


@rule("s3-through-nat", Severity.WARNING)
def s3_through_nat(case: RuleContext) -> Iterator[Violation]:
    """A gateway endpoint is free; a NAT gateway bills every byte (Amazon VPC user guide: Gateway endpoints)."""
    here = target(case)
    if here is not None and not here.s3_endpoint and here.nat is Nat.GATEWAY:
        yield Violation(
            "target.s3_endpoint", "traffic to S3 is billed by the NAT gateway", "omit it; the endpoint is the default and costs nothing"
        )
