"""Ordinary users of the cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import UserName


class UserGroup(Part):
    """A group that users share."""

    gid: Annotated[int, Change.FORBIDDEN] = Field(ge=0, description="The same on every node, 1000 or above, and no user's.")


class User(Part):
    """Somebody who runs jobs. The group of the same name and number is made with the user."""

    uid: Annotated[int, Change.FORBIDDEN] = Field(ge=0, description="The same on every node, 1000 or above.")
    groups: Annotated[tuple[UserName, ...], Change.LIVE] = Field(
        default=(), description="Further groups: of `user_groups`, or ones that every node has, like video."
    )
    ssh_keys: Annotated[tuple[str, ...], Change.LIVE] = Field(default=(), description="Public keys, as in authorized_keys.")
    admin: Annotated[bool, Change.LIVE] = Field(default=False, description="Whether sudo is granted.")
    shell: Annotated[str, Change.LIVE] = Field(default="/bin/bash", pattern=r"^/\S+$", description="Login shell.")
