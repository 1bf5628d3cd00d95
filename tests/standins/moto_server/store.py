"""A store on a moto backend for data that moto does not model. A reset of the backend deletes it."""

from __future__ import annotations

from typing import Any


def put(cls: type, *functions: Any) -> None:
    """Make each function the method of its name, instead of moto's own if there is one."""
    for function in functions:
        setattr(cls, function.__name__, function)


def shelf(backend: Any, name: str) -> dict[str, dict[str, Any]]:
    """Return resources of one type by id, as AWS describes them."""
    found: dict[str, dict[str, Any]] = backend.__dict__.setdefault(f"_standin_{name}", {})
    return found


def tags_of(params: dict[str, Any]) -> list[dict[str, str]]:
    """Return the tags of a create call."""
    return [tag for specification in params.get("TagSpecifications") or [] for tag in specification.get("Tags") or []]


def live_tags(backend: Any, ident: str) -> list[dict[str, str]]:
    """Return the tags of an EC2 resource after CreateTags and DeleteTags."""
    return [{"Key": tag["key"], "Value": tag["value"]} for tag in backend.describe_tags(filters={"resource-id": [ident]})]


def keep_tags(backend: Any, ident: str, params: dict[str, Any]) -> None:
    """Store the tags of a create call where CreateTags stores them."""
    tags = {tag["Key"]: tag["Value"] for tag in tags_of(params)}
    if tags:
        backend.create_tags([ident], tags)
