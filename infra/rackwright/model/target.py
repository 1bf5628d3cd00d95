"""Targets, which provide the nodes. Each is a class with the properties that the plan needs, and a folder in `targets/`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.targets.aws import AwsTarget
from rackwright.model.targets.hosts import HostsTarget
from rackwright.model.targets.lab import LabTarget
from rackwright.model.targets.vm import VmTarget

Target = Annotated[LabTarget | VmTarget | HostsTarget | AwsTarget, Field(discriminator="kind")]
