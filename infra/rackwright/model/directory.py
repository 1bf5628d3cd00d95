"""Users that a directory knows, beside those that the stack declares."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rackwright.model.base import Part
from rackwright.model.policy import Change

DistinguishedName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]*=[^\n]+$", max_length=500)]


class LdapSchema(StrEnum):
    """How groups name their members: by login name, or by distinguished name."""

    RFC2307 = "rfc2307"
    RFC2307BIS = "rfc2307bis"


class LdapBind(Part):
    """Who asks, where the directory does not answer everybody."""

    dn: Annotated[DistinguishedName, Change.LIVE] = Field(description="The name of the account that asks.")
    password_file: Annotated[str, Change.LIVE] = Field(
        pattern=r"^[/~]\S*$",
        description="A file on this machine that holds its password alone. The password is written nowhere but to the nodes.",
    )


class Ldap(Part):
    """An LDAP server; passwords and keys never travel unencrypted."""

    uri: Annotated[tuple[Annotated[str, StringConstraints(pattern=r"^ldaps?://[A-Za-z0-9._:\[\]-]+$")], ...], Change.LIVE] = Field(
        min_length=1, description="Servers in the order they are asked, like ldaps://ldap.example.org."
    )
    base: Annotated[DistinguishedName, Change.LIVE] = Field(description="Where the search begins, like dc=example,dc=org.")
    start_tls: Annotated[bool, Change.LIVE] = Field(
        default=False, description="Encrypt from within, where the address says ldap:// and not ldaps://."
    )
    ca: Annotated[str | None, Change.LIVE] = Field(
        default=None,
        pattern=r"^/\S+$",
        description="File on the nodes with the authority that signed the servers; the system's own when left out.",
    )
    bind: Annotated[LdapBind | None, Change.LIVE] = Field(default=None, description="Who asks; nobody in particular when left out.")
    group_schema: Annotated[LdapSchema, Change.LIVE] = Field(default=LdapSchema.RFC2307, description="How groups name their members.")
    allow: Annotated[str | None, Change.LIVE] = Field(
        default=None, pattern=r"^\([^\n]+\)$", description="LDAP filter of those who may log in; everybody when left out."
    )
    make_homes: Annotated[bool, Change.LIVE] = Field(default=True, description="Whether a home is made at somebody's first login.")


class UsersFrom(Part):
    """Where users come from beside the stack file."""

    ldap: Annotated[Ldap, Change.LIVE] = Field(description="An LDAP server, asked by SSSD on every node.")
