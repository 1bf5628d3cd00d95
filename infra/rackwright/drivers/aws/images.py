"""The newest machine image of a stack."""

from __future__ import annotations

from rackwright.catalog.instances import instance_types
from rackwright.drivers.aws.account import Account, AwsRequestError
from rackwright.errors import InputError
from rackwright.model.targets.aws import AwsTarget, Image


def newest_image(account: Account, image: Image, architecture: str | None, path: str) -> str:
    """Return the id behind a public SSM parameter, or of the youngest image of a name. Raise InputError if there is none."""
    if image.ssm_parameter is not None:
        return _of_parameter(account, image.ssm_parameter, path)
    return _of_name(account, image, architecture, path)


def _of_parameter(account: Account, parameter: str, path: str) -> str:
    try:
        response = account.ask("ssm", "get_parameter", Name=parameter)
    except AwsRequestError as answer:
        if answer.code != "ParameterNotFound":
            raise
        hint = f"`aws ssm get-parameters-by-path --path {parameter.rsplit('/', 1)[0]}` lists the parameters of that path"
        raise InputError(f"no public parameter {parameter} in {account.region}", path=f"{path}.ssm_parameter", hint=hint) from None
    value = str(response["Parameter"]["Value"])
    if not value.startswith("ami-"):
        raise InputError(
            f"the parameter is `{value}`, not an image id", path=f"{path}.ssm_parameter", hint="choose a parameter that ends in ami-id"
        )
    return value


def _of_name(account: Account, image: Image, architecture: str | None, path: str) -> str:
    filters = [{"Name": "name", "Values": [image.name]}, {"Name": "state", "Values": ["available"]}]
    if architecture:
        filters.append({"Name": "architecture", "Values": [architecture]})
    owners = {"Owners": [image.owner]} if image.owner else {}
    found = account.ask("ec2", "describe_images", Filters=filters, **owners)["Images"]
    if not found:
        whose = f" of {image.owner}" if image.owner else ""
        cause = f"no image{whose} is named {image.name} in {account.region}" + (f" for {architecture}" if architecture else "")
        raise InputError(cause, path=f"{path}.name", hint="check the name's pattern, the owner and the region")
    return str(max(found, key=lambda each: (each["CreationDate"], each["ImageId"]))["ImageId"])


def architectures(target: AwsTarget, image_of: str | None) -> frozenset[str]:
    """Return the architectures of the instances that start from an image: those of one group, or those without an image of their own."""
    types = [one.type for group, one in target.instances.items() if group == image_of or (image_of is None and one.image is None)]
    return frozenset(instance_types()[name].architecture for name in types if name in instance_types())
