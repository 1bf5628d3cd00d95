"""RunInstances that applies its launch template: interfaces, placement, market, profile, capacity reservation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.exceptions import InvalidParameterCombination
from moto.ec2.responses import EC2Response
from moto.ec2.utils import parse_user_data

from standins.moto_server.capacity import placement_group, take_capacity
from standins.moto_server.store import put

_run = EC2Response.run_instances
_create_version = EC2Response.create_launch_template_version
_KNOWN_TO_MOTO: Final = ("ImageId", "UserData", "TagSpecifications", "BlockDeviceMappings", "SecurityGroupIds", "SecurityGroups")
"""Fields of a template that moto applies itself."""


def install() -> None:
    """Replace moto's RunInstances, and its CreateLaunchTemplateVersion, whose stored user data makes a launch fail."""
    put(EC2Response, run_instances, create_launch_template_version)


def run_instances(self: EC2Response) -> ActionResult:
    """Implement RunInstances; the template completes its request, as on EC2."""
    _fill_in(self.params, _template(self))
    _refuse_two_subnets(self.params)
    group = (self.params.get("Placement") or {}).get("GroupName")
    if group:
        placement_group(self.ec2_backend, group)
    target = ((self.params.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}).get(
        "CapacityReservationId"
    )
    if target:
        take_capacity(self.ec2_backend, target, int(self.params.get("MaxCount", 1)))
    answer = _run(self)
    for instance in answer.result.instances:  # type: ignore[attr-defined]
        _mark(instance, self.params, group, target)
    return answer


def create_launch_template_version(self: EC2Response) -> ActionResult:
    """Implement CreateLaunchTemplateVersion; its user data is parsed as CreateLaunchTemplate parses it."""
    data = self.params.get("LaunchTemplateData") or {}
    if "UserData" in data:
        data["UserData"] = parse_user_data(data["UserData"])
    return _create_version(self)


def _template(self: EC2Response) -> dict[str, Any]:
    named = self.params.get("LaunchTemplate")
    if not named:
        return {}
    data: dict[str, Any] = self.ec2_backend._get_template_from_args(named).data
    return data


def _fill_in(params: dict[str, Any], template: dict[str, Any]) -> None:
    for key, value in template.items():
        if key in _KNOWN_TO_MOTO or value is None:
            continue
        if key == "Placement":
            params[key] = {**value, **(params.get(key) or {})}
        else:
            params.setdefault(key, deepcopy(value))


def _refuse_two_subnets(params: dict[str, Any]) -> None:
    """Refuse a subnet beside interfaces, to which it belongs (RunInstances, parameter SubnetId)."""
    if params.get("NetworkInterfaces") and params.get("SubnetId"):
        raise InvalidParameterCombination("Network interfaces and an instance-level subnet ID may not be specified on the same request")
    if params.get("NetworkInterfaces") and params.get("SecurityGroupIds"):
        raise InvalidParameterCombination(
            "Network interfaces and an instance-level security groups may not be specified on the same request"
        )


def _mark(instance: Any, params: dict[str, Any], group: str | None, target: str | None) -> None:
    instance.placement.group_name = group or ""
    instance.placement.tenancy = (params.get("Placement") or {}).get("Tenancy", "default")
    if "CapacityReservationSpecification" in params:
        instance.capacity_reservation_specification = params["CapacityReservationSpecification"]
    instance.capacity_reservation_id = target
    if params.get("CpuOptions"):
        instance.cpu_options = params["CpuOptions"]
    if instance.lifecycle == "spot":
        instance.spot_instance_request_id = f"sir-{instance.id[-8:]}"
