"""Protocols by which services accept, change and list tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from botocore.exceptions import ClientError

from standins.aws.account import Account, gone
from standins.aws.request import pairs
from standins.aws.state import tags_as_map

Tags = Mapping[str, str]
Described = dict[str, Any]


class Tagging(Protocol):
    """Tag protocol of one service."""

    @property
    def at_once(self) -> bool:
        """Return whether the create request contains tags."""

    def at_creation(self, tags: Tags) -> dict[str, Any]:
        """Return the tags' part of the create request."""

    def change(self, account: Account, ident: str, described: Described, removed: list[str], new: Tags) -> None:
        """Remove some tags and set others."""

    def seen(self, account: Account, ident: str, described: Described) -> dict[str, str]:
        """Return the live tags."""


@dataclass(frozen=True)
class Ec2Tags:
    """TagSpecifications; CreateTags and DeleteTags by resource id."""

    resource_type: str
    ident: str = ""
    """Field of the description that holds the id for tags, where it is not the resource's id."""
    at_once: bool = True

    def at_creation(self, tags: Tags) -> dict[str, Any]:
        """Return TagSpecifications."""
        return {"TagSpecifications": [{"ResourceType": self.resource_type, "Tags": pairs(tags)}]} if tags else {}

    def change(self, account: Account, ident: str, described: Described, removed: list[str], new: Tags) -> None:
        """Call DeleteTags and CreateTags."""
        resources = [described[self.ident] if self.ident else ident]
        if removed:
            account.call("ec2", "DeleteTags", Resources=resources, Tags=[{"Key": key} for key in removed])
        if new:
            account.call("ec2", "CreateTags", Resources=resources, Tags=pairs(new))

    def seen(self, account: Account, ident: str, described: Described) -> dict[str, str]:
        """Return the tags of the description."""
        return tags_as_map(described.get("Tags") or described.get("TagSet") or [])


@dataclass(frozen=True)
class ListedTags:
    """A list of keys and values under one name; calls of the service itself to change them."""

    service: str
    subject: Callable[[str, Described], dict[str, Any]]
    """Parameters that name the resource in calls about tags."""
    put: str = "TagResource"
    remove: str = "UntagResource"
    field: str = "Tags"
    keys: str = "TagKeys"
    listing: str | None = None
    """Call that lists tags, where descriptions have none."""
    at_once: bool = True

    def at_creation(self, tags: Tags) -> dict[str, Any]:
        """Return the list."""
        return {self.field: pairs(tags)} if tags else {}

    def change(self, account: Account, ident: str, described: Described, removed: list[str], new: Tags) -> None:
        """Make the service's calls."""
        subject = self.subject(ident, described)
        if removed:
            account.call(self.service, self.remove, **subject, **{self.keys: removed})
        if new:
            account.call(self.service, self.put, **subject, **{self.field: pairs(new)})

    def seen(self, account: Account, ident: str, described: Described) -> dict[str, str]:
        """Return the tags of the description, or of the call that lists them."""
        shown = account.call(self.service, self.listing, **self.subject(ident, described)) if self.listing else described
        return tags_as_map(shown.get(self.field) or [])


@dataclass(frozen=True)
class BucketTags:
    """S3: all tags at once, after creation."""

    at_once: bool = False

    def at_creation(self, tags: Tags) -> dict[str, Any]:
        """Return nothing: CreateBucket accepts no tags."""
        return {}

    def change(self, account: Account, ident: str, described: Described, removed: list[str], new: Tags) -> None:
        """Call PutBucketTagging with live and new tags."""
        kept = {key: value for key, value in self.seen(account, ident, described).items() if key not in removed}
        account.call("s3", "PutBucketTagging", Bucket=ident, Tagging={"TagSet": pairs({**kept, **new})})

    def seen(self, account: Account, ident: str, described: Described) -> dict[str, str]:
        """Return the tags of GetBucketTagging, which reports the absence of tags as an error."""
        try:
            return tags_as_map(account.call("s3", "GetBucketTagging", Bucket=ident)["TagSet"])
        except ClientError as error:
            if gone(error):
                return {}
            raise
