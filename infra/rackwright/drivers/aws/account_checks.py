"""Checks against the AWS account before a stack comes up: quotas, offers, images, reservations, spot prices. Findings, like the rules'.

A query that fails becomes a warning. Without it, the check would appear to have passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rackwright.catalog.instances import InstanceType, UsageClass, instance_types
from rackwright.catalog.quotas import Quota, quota
from rackwright.drivers.aws.account import Account, AwsCredentialsError, AwsRequestError
from rackwright.drivers.aws.images import architectures
from rackwright.drivers.aws.offerings import offering_finding, zones_by_type
from rackwright.errors import UndeterminedError
from rackwright.model.cluster import Cluster
from rackwright.model.finding import Finding, Severity
from rackwright.model.storage.fsx import FsxLustre
from rackwright.model.targets.aws import AwsTarget, CapacityBlock, Image, Instances, Spot

_LINUX: Final = "Linux/UNIX"
_RUNNING: Final = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
_GONE: Final = frozenset({"InvalidAMIID.NotFound", "InvalidAMIID.Unavailable", "InvalidAMIID.Malformed"})
_NO_RESERVATION: Final = frozenset({"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"})


@dataclass(frozen=True)
class AccountCheckContext:
    """A stack, and the account for its instances."""

    account: Account
    cluster: Cluster
    target: AwsTarget
    stack: str
    now: datetime

    @property
    def counts(self) -> Counter[str]:
        """Return the number of instances of each group, nodes that are out included."""
        return Counter({name: group.count for name, group in self.cluster.groups.items() if name in self.target.instances})


AccountCheck = Callable[[AccountCheckContext], Iterator[Finding]]


def run_checks(at: AccountCheckContext) -> Iterator[Finding]:
    """Yield every finding, the one with the account's name first. Raise AwsCredentialsError if no query is possible."""
    number, who = at.account.identity()
    yield Finding(
        Severity.INFO, "online-account", "target", f"account {number} in {at.account.region}, as {who}", "its quotas and offerings apply"
    )
    for name, path, question in _CHECKS:
        try:
            yield from question(at)
        except UndeterminedError as silent:
            where = f"{silent.path}: " if silent.path else ""
            yield Finding(Severity.WARNING, name, path, f"not checked: {where}{silent.cause}", silent.hint)


def offers(at: AccountCheckContext) -> Iterator[Finding]:
    """Yield an error for each type that the zone does not offer."""
    types = {group: at.target.instances[group].type for group in at.counts}
    zones = zones_by_type(at.account, frozenset(types.values()))
    for group, type_ in types.items():
        found = offering_finding(group, type_, at.target.zone, zones[type_])
        if found is not None:
            yield found


def vcpus(at: AccountCheckContext) -> Iterator[Finding]:
    """Compare the quotas, which count running vCPUs in the whole region, with the stack's demand."""
    needed: Counter[Quota] = Counter()
    groups: dict[Quota, list[str]] = {}
    for group, count in at.counts.items():
        known, bought = instance_types().get(at.target.instances[group].type), _usage_class(at.target.instances[group])
        if known is None or bought is UsageClass.CAPACITY_BLOCK:
            continue
        kind = quota(known, bought)
        if kind is None:
            cause = f"not checked: no {bought} quota is on record for {known.name}"
            yield Finding(
                Severity.WARNING, "online-quota", f"target.instances.{group}.type", cause, "look it up in Service Quotas, service ec2"
            )
            continue
        needed[kind] += count * known.cpus
        groups.setdefault(kind, []).append(group)
    used = _used(at) if needed else Counter[Quota]()
    for kind, need in needed.items():
        yield from _quota_findings(at, kind, need, used[kind], groups[kind])


def _usage_class(declared: Instances) -> UsageClass:
    if isinstance(declared.capacity_type, CapacityBlock):
        return UsageClass.CAPACITY_BLOCK
    return UsageClass.SPOT if isinstance(declared.capacity_type, Spot) else UsageClass.ON_DEMAND


def _used(at: AccountCheckContext) -> Counter[Quota]:
    """Return the running vCPUs of the account's instances, without those of the stack itself, which the quota counts already."""
    used: Counter[Quota] = Counter()
    for reservation in at.account.every("ec2", "describe_instances", "Reservations", Filters=_RUNNING):
        for instance in reservation["Instances"]:
            known = instance_types().get(instance["InstanceType"])
            tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
            kind = _quota_of(instance, known)
            if known is not None and kind is not None and tags.get("rackwright.stack") != at.stack:
                used[kind] += known.cpus
    return used


def _quota_of(instance: dict[str, Any], known: InstanceType | None) -> Quota | None:
    lifecycle = instance.get("InstanceLifecycle", "on-demand")
    return quota(known, UsageClass(lifecycle)) if known is not None and lifecycle in {"on-demand", "spot"} else None


def _quota_findings(at: AccountCheckContext, kind: Quota, need: int, used: int, groups: list[str]) -> Iterator[Finding]:
    path = ", ".join(f"target.instances.{group}" for group in groups)
    response = at.account.ask("service-quotas", "get_service_quota", ServiceCode="ec2", QuotaCode=kind.code)
    value = int(response["Quota"]["Value"])
    if need + used > value:
        cause = f"{need} vCPUs are needed and {used} are in use, of {value} that quota {kind.code} allows ({kind.name})"
        ask = f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {kind.code} --desired-value {need + used}"
        hint = f"request an increase: `{ask}`"
        yield Finding(Severity.ERROR, "online-quota", path, cause, hint)


def images(at: AccountCheckContext) -> Iterator[Finding]:
    """Yield an error for each image that does not exist or has another architecture than its instances."""
    yield from _image(at, at.target.image, None, "target.image")
    for group, declared in at.target.instances.items():
        if declared.image is not None:
            yield from _image(at, declared.image, group, f"target.instances.{group}.image")


def _image(at: AccountCheckContext, declared: Image, group: str | None, path: str) -> Iterator[Finding]:
    run = architectures(at.target, group)
    if not run:
        return
    pin = f"`rackwright pin-images {at.stack}` writes the newest one's id"
    if declared.id is None:
        yield Finding(Severity.WARNING, "online-image", path, "not checked: no image id is set", pin)
        return
    try:
        found = at.account.ask("ec2", "describe_images", ImageIds=[declared.id], IncludeDeprecated=True)["Images"]
    except AwsRequestError as answer:
        if answer.code not in _GONE:
            raise
        found = []
    if not found:
        cause = f"{declared.id} does not exist in {at.target.region}, or this account may not use it"
        yield Finding(Severity.ERROR, "online-image", path, cause, pin)
        return
    yield from _usable(at, found[0], run, path, pin)


def _usable(at: AccountCheckContext, found: dict[str, Any], run: frozenset[str], path: str, pin: str) -> Iterator[Finding]:
    if found.get("State") != "available":
        yield Finding(Severity.ERROR, "online-image", path, f"{found['ImageId']} is {found.get('State')}, not available", pin)
    if run != {found.get("Architecture")}:
        cause = f"{found['ImageId']} is of {found.get('Architecture')}, but its instances run {' and '.join(sorted(run))}"
        yield Finding(Severity.ERROR, "online-image", path, cause, "choose an image of that architecture, or set an image for the group")
    deprecated = found.get("DeprecationTime")
    if deprecated and datetime.fromisoformat(deprecated) < at.now:
        yield Finding(Severity.WARNING, "online-image", path, f"{found['ImageId']} is deprecated since {deprecated[:10]}", pin)


def reservations(at: AccountCheckContext) -> Iterator[Finding]:
    """Yield findings for reservations of another type, zone or size: they are not used, or the launch is refused."""
    for group, count in at.counts.items():
        declared = at.target.instances[group]
        id_ = None if isinstance(declared.capacity_type, Spot) else declared.capacity_type.reservation
        if id_ is None:
            continue
        path = f"target.instances.{group}.capacity_type.reservation"
        try:
            found = at.account.ask("ec2", "describe_capacity_reservations", CapacityReservationIds=[id_])["CapacityReservations"]
        except AwsRequestError as answer:
            if answer.code not in _NO_RESERVATION:
                raise
            found = []
        if found:
            yield from _fits(at, found[0], declared, count, path)
        else:
            cause = f"{id_} does not exist in {at.target.region}, or is another account's"
            yield Finding(Severity.ERROR, "online-reservation", path, cause, "`aws ec2 describe-capacity-reservations` lists them")


def _fits(at: AccountCheckContext, found: dict[str, Any], declared: Instances, count: int, path: str) -> Iterator[Finding]:
    id_ = found["CapacityReservationId"]
    wrong = [
        (found.get("InstanceType") != declared.type, f"it is for {found.get('InstanceType')}", f"declared is {declared.type}"),
        (found.get("AvailabilityZone") != at.target.zone, f"it is in {found.get('AvailabilityZone')}", f"target.zone is {at.target.zone}"),
        (found.get("TotalInstanceCount", 0) < count, f"it has {found.get('TotalInstanceCount')} instances", f"declared are {count}"),
        (found.get("State") not in {"active", "scheduled"}, f"its state is {found.get('State')}", "only an active one is used"),
    ]
    for is_wrong, cause, hint in wrong:
        if is_wrong:
            yield Finding(Severity.ERROR, "online-reservation", path, f"{id_}: {cause}", hint)
    if found.get("State") == "scheduled":
        yield Finding(
            Severity.WARNING, "online-reservation", path, f"{id_}: begins at {found.get('StartDate')}", "instances start after that time"
        )
    ends = found.get("EndDate")
    if ends is not None and ends < at.now:
        yield Finding(Severity.ERROR, "online-reservation", path, f"{id_}: it ended at {ends}", "create a new reservation")


def spot_prices(at: AccountCheckContext) -> Iterator[Finding]:
    """Compare the current spot price in the stack's zone with the expected and the allowed price."""
    for group in at.counts:
        declared = at.target.instances[group]
        if not isinstance(declared.capacity_type, Spot):
            continue
        path = f"target.instances.{group}.capacity_type"
        prices = at.account.ask(
            "ec2",
            "describe_spot_price_history",
            InstanceTypes=[declared.type],
            ProductDescriptions=[_LINUX, f"{_LINUX} (Amazon VPC)"],
            AvailabilityZone=at.target.zone,
            StartTime=at.now,
        )["SpotPriceHistory"]
        if not prices:
            cause = f"not checked: AWS has no spot price of {declared.type} in {at.target.zone}"
            yield Finding(Severity.WARNING, "online-spot-price", path, cause, "there may be no spot capacity; try another zone")
            continue
        latest = max(prices, key=lambda each: each["Timestamp"])
        yield _spot_price(declared, declared.capacity_type, float(latest["SpotPrice"]), path)


def _spot_price(declared: Instances, bought: Spot, usd: float, path: str) -> Finding:
    text = f"{declared.type} costs {usd:.4f} USD per hour on spot now"
    if bought.max_usd_per_hour is not None and usd > bought.max_usd_per_hour:
        return Finding(
            Severity.ERROR,
            "online-spot-price",
            path,
            f"{text}, over max_usd_per_hour {bought.max_usd_per_hour:g}",
            "no instance would start: raise the limit",
        )
    if bought.expected_usd_per_hour is not None and usd > bought.expected_usd_per_hour:
        hint = f"`cost` and the budget use {bought.expected_usd_per_hour:g}: write {usd:.4f}"
        return Finding(Severity.WARNING, "online-spot-price", path, f"{text}, more than expected_usd_per_hour", hint)
    return Finding(Severity.INFO, "online-spot-price", path, text, "spot prices change; a price does not guarantee capacity")


def lustre(at: AccountCheckContext) -> Iterator[Finding]:
    """Compare FSx quotas, which have names only: those that name Lustre, the deployment type and storage capacity."""
    declared = {name: storage for name, storage in at.cluster.storage.items() if isinstance(storage, FsxLustre)}
    if not declared:
        return
    quotas = list(at.account.every("service-quotas", "list_service_quotas", "Quotas", ServiceCode="fsx"))
    for name, storage in declared.items():
        words = storage.deployment_type.value.lower().replace("scratch_2", "scratch").replace("_", " ").split()
        about = [each for each in quotas if _names(each["QuotaName"], "lustre", "storage capacity", *words)]
        path, gib = f"storage.{name}", storage.size // 2**30
        if not about:
            cause = f"not checked: no FSx quota names Lustre {storage.deployment_type} and storage capacity"
            yield Finding(Severity.WARNING, "online-fsx-quota", path, cause, "look it up in Service Quotas, service fsx")
        for each in about:
            if gib > each["Value"]:
                cause = f"{gib} GiB, over the {each['Value']:g} that quota {each.get('QuotaCode', '')} allows ({each['QuotaName']})"
                yield Finding(Severity.ERROR, "online-fsx-quota", path, cause, "request an increase in Service Quotas, service fsx")


def _names(name: str, *words: str) -> bool:
    """Return whether a quota's name contains all the words, in any spelling."""
    plain = name.lower().replace("_", " ")
    return all(word in plain for word in words)


_CHECKS: Final[tuple[tuple[str, str, AccountCheck], ...]] = (
    ("online-type-offered", "target.instances", offers),
    ("online-quota", "target.instances", vcpus),
    ("online-image", "target.image", images),
    ("online-reservation", "target.instances", reservations),
    ("online-spot-price", "target.instances", spot_prices),
    ("online-fsx-quota", "storage", lustre),
)
"""Rule, path of a check that could not run, and the check. Each check runs even if another one was refused."""


def no_account(reason: AwsCredentialsError) -> Finding:
    """Return the finding for an account that could not be queried."""
    return Finding(Severity.ERROR, "online-account", reason.path or "target", f"not checked: {reason.cause}", reason.hint)
