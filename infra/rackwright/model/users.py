"""Ordinary users of the cluster."""

from __future__ import annotations

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.units import UserName


class User(Part):
    """Somebody who runs jobs. The group of the same name and number is made with the user."""

    uid: int = Field(ge=0, description="The same on every node, 1000 or above.")
    groups: tuple[UserName, ...] = Field(default=(), description="Further groups.")
    ssh_keys: tuple[str, ...] = Field(default=(), description="Public keys, as in authorized_keys.")
    admin: bool = Field(default=False, description="Whether sudo is granted.")
    shell: str = Field(default="/bin/bash", pattern=r"^/\S+$", description="Login shell.")
