"""Users of a directory service, in addition to the users that the stack file declares."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import Part
from rackwright.model.update_policy import Change

DistinguishedName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]*=[^\n]+$", max_length=500)]


class LdapSchema(StrEnum):
    """Format of group members: login name (rfc2307) or distinguished name (rfc2307bis)."""

    RFC2307 = "rfc2307"
    RFC2307BIS = "rfc2307bis"


class LdapBind(Part):
    """Bind credentials, for a directory without anonymous bind."""

    dn: Annotated[DistinguishedName, Change.LIVE] = Field(description="Bind DN.")
    password_file: Annotated[str, Change.LIVE] = Field(
        pattern=r"^[/~]\S*$",
        description="File on this machine that contains only the bind password. The password is copied to the nodes and nowhere else.",
    )


class Ldap(Part):
    """An LDAP service. Passwords and keys are never sent unencrypted."""

    uri: Annotated[tuple[Annotated[str, StringConstraints(pattern=r"^ldaps?://[A-Za-z0-9._:\[\]-]+$")], ...], Change.LIVE] = Field(
        min_length=1, description="URIs of the servers, in order of preference, for example ldaps://ldap.example.org."
    )
    base: Annotated[DistinguishedName, Change.LIVE] = Field(description="Search base, for example dc=example,dc=org.")
    start_tls: Annotated[bool, Change.LIVE] = Field(default=False, description="Use StartTLS on ldap:// URIs.")
    ca: Annotated[str | None, Change.LIVE] = Field(
        default=None,
        pattern=r"^/\S+$",
        description="File on the nodes with the CA certificate of the servers. Default: the system's CA certificates.",
    )
    bind: Annotated[LdapBind | None, Change.LIVE] = Field(default=None, description="Bind credentials; anonymous bind if omitted.")
    group_schema: Annotated[LdapSchema, Change.LIVE] = Field(
        default=LdapSchema.RFC2307, description="Format of group members: login names (rfc2307) or distinguished names (rfc2307bis)."
    )
    allow: Annotated[str | None, Change.LIVE] = Field(
        default=None, pattern=r"^\([^\n]+\)$", description="LDAP filter of the users who may log in. Default: all users."
    )
    make_homes: Annotated[bool, Change.LIVE] = Field(default=True, description="Create the home directory at first login.")


class UsersFrom(Part):
    """Source of users in addition to the stack file."""

    ldap: Annotated[Ldap, Change.LIVE] = Field(description="LDAP service, queried by SSSD on every node.")
