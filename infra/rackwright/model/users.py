"""Unprivileged users of the cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import ConfigModel
from rackwright.model.names import UserName
from rackwright.model.update_policy import UpdatePolicy


class UserGroup(ConfigModel):
    """A user group."""

    gid: Annotated[int, UpdatePolicy.FORBIDDEN] = Field(
        ge=0, description="Group id on every node: 1000 or above, and not the id of a user."
    )


class User(ConfigModel):
    """A user who runs jobs. A group of the same name and id is created with the user."""

    uid: Annotated[int, UpdatePolicy.FORBIDDEN] = Field(ge=0, description="User id on every node, 1000 or above.")
    groups: Annotated[tuple[UserName, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="Additional groups: from `user_groups`, or groups that every node has, for example video."
    )
    ssh_keys: Annotated[tuple[str, ...], UpdatePolicy.LIVE] = Field(
        default=(), description="SSH public keys, in the format of authorized_keys."
    )
    admin: Annotated[bool, UpdatePolicy.LIVE] = Field(default=False, description="Grant sudo.")
    shell: Annotated[str, UpdatePolicy.LIVE] = Field(default="/bin/bash", pattern=r"^/\S+$", description="Login shell.")
