"""Machine images that Canonical and Amazon publish under SSM parameters; moto has parameters for Amazon Linux only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from moto.core.utils import utcnow
from moto.ec2.models.amis import Ami, AmiBackend
from moto.ssm.models import Parameter, ParameterDict

from standins.moto_server.store import put

_CANONICAL: Final = "099720109477"
_AMAZON: Final = "898082745236"
_PUBLISHED: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Invented, and so are ids and serials: only names, owners and parameter paths are those of the real images."""

_moto_amis = AmiBackend._load_amis
_moto_parameters = ParameterDict._check_loading_status


class Image(NamedTuple):
    """One published image."""

    name: str
    owner: str
    architecture: str
    parameter: str

    def ami_id(self, region: str) -> str:
        """Return an id that is the same in every run and different in every region."""
        return f"ami-{hashlib.sha256(f'{region} {self.name}'.encode()).hexdigest()[:17]}"


def _published() -> Iterator[Image]:
    for release, code in (("22.04", "jammy"), ("24.04", "noble")):
        for architecture, arm in (("x86_64", "amd64"), ("arm64", "arm64")):
            disk = "gp3" if release == "24.04" else "gp2"
            folder = "hvm-ssd-gp3" if release == "24.04" else "hvm-ssd"
            yield Image(
                f"ubuntu/images/{folder}/ubuntu-{code}-{release}-{arm}-server-20260101",
                _CANONICAL,
                architecture,
                f"/aws/service/canonical/ubuntu/server/{release}/stable/current/{arm}/hvm/ebs-{disk}/ami-id",
            )
        yield Image(
            f"Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu {release}) 20260101",
            _AMAZON,
            "x86_64",
            f"/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-{release}/latest/ami-id",
        )


def install() -> None:
    """Add the images to EC2 and their parameters to SSM."""
    put(AmiBackend, _load_amis)
    put(ParameterDict, _check_loading_status)


def _load_amis(self: Any) -> None:
    """Load moto's images and the published ones."""
    _moto_amis(self)
    for image in _published():
        self.amis[image.ami_id(self.region_name)] = Ami(
            self,
            image.ami_id(self.region_name),
            name=image.name,
            owner_id=image.owner,
            owner_alias="amazon" if image.owner == _AMAZON else None,
            description=image.name,
            public=True,
            virtualization_type="hvm",
            architecture=image.architecture,
            creation_date=_PUBLISHED,
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name="/dev/sda1",
            image_location=f"amazon/{image.name}",
        )


def _check_loading_status(self: ParameterDict, key: str) -> None:
    """Load the published parameters at the first request for one."""
    _moto_parameters(self, key)
    if str(key or "").startswith(("/aws/service/canonical/", "/aws/service/deeplearning/")) and not self.__dict__.get("_standin_loaded"):
        self.__dict__["_standin_loaded"] = True
        for image in _published():
            dict.setdefault(self, image.parameter, []).append(_parameter(self, image))


def _parameter(self: ParameterDict, image: Image) -> Parameter:
    return Parameter(  # type: ignore[abstract]
        account_id=self.account_id,
        name=image.parameter,
        value=image.ami_id(self.region_name),
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=utcnow(),
        version=1,
        data_type="aws:ec2:image",
    )
