"""Users of a directory service, in addition to the users that the stack file declares."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import ConfigModel
from rackwright.model.update_policy import UpdatePolicy

DistinguishedName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]*=[^\n]+$", max_length=500)]


class LdapSchema(StrEnum):
    """Format of group members: login name (rfc2307) or distinguished name (rfc2307bis)."""

    RFC2307 = "rfc2307"
    RFC2307BIS = "rfc2307bis"


class LdapBind(ConfigModel):
    """Bind credentials, for a directory without anonymous bind."""

    dn: Annotated[DistinguishedName, UpdatePolicy.LIVE] = Field(description="Bind DN.")
    password_file: Annotated[str, UpdatePolicy.LIVE] = Field(
        pattern=r"^[/~]\S*$",
        description="File on this machine that contains only the bind password. The password is copied to the nodes and nowhere else.",
    )


class Ldap(ConfigModel):
    """An LDAP service. Passwords and keys are never sent unencrypted."""

    uri: Annotated[tuple[Annotated[str, StringConstraints(pattern=r"^ldaps?://[A-Za-z0-9._:\[\]-]+$")], ...], UpdatePolicy.LIVE] = Field(
        min_length=1, description="URIs of the servers, in order of preference, for example ldaps://ldap.example.org."
    )
    base: Annotated[DistinguishedName, UpdatePolicy.LIVE] = Field(description="Search base, for example dc=example,dc=org.")
    start_tls: Annotated[bool, UpdatePolicy.LIVE] = Field(default=False, description="Use StartTLS on ldap:// URIs.")
    ca: Annotated[str | None, UpdatePolicy.LIVE] = Field(
        default=None,
        pattern=r"^/\S+$",
        description="File on the nodes with the CA certificate of the servers. Default: the system's CA certificates.",
    )
    bind: Annotated[LdapBind | None, UpdatePolicy.LIVE] = Field(default=None, description="Bind credentials; anonymous bind if omitted.")
    group_schema: Annotated[LdapSchema, UpdatePolicy.LIVE] = Field(
        default=LdapSchema.RFC2307, description="Format of group members: login names (rfc2307) or distinguished names (rfc2307bis)."
    )
    access_filter: Annotated[str | None, UpdatePolicy.LIVE] = Field(
        default=None,
        pattern=r"^\([^\n]+\)$",
        description="LDAP filter of the users who may log in, for example (memberOf=cn=hpc,dc=example,dc=org). Default: all users.",
    )
    create_homes: Annotated[bool, UpdatePolicy.LIVE] = Field(default=True, description="Create the home directory at first login.")


class DirectoryService(ConfigModel):
    """Source of users in addition to the stack file."""

    ldap: Annotated[Ldap, UpdatePolicy.LIVE] = Field(description="LDAP service, queried by SSSD on every node.")
