"""A place on a moto backend for what moto does not know. A backend that is reset forgets it, like all else."""

from __future__ import annotations

from typing import Any


def put(cls: type, *functions: Any) -> None:
    """Each function becomes the method of its name, in the place of moto's own where there is one."""
    for function in functions:
        setattr(cls, function.__name__, function)


def shelf(backend: Any, name: str) -> dict[str, dict[str, Any]]:
    """Things of one sort by id, as AWS describes them."""
    found: dict[str, dict[str, Any]] = backend.__dict__.setdefault(f"_standin_{name}", {})
    return found


def tags_of(params: dict[str, Any]) -> list[dict[str, str]]:
    """Tags a create call brings along."""
    return [tag for specification in params.get("TagSpecifications") or [] for tag in specification.get("Tags") or []]


def live_tags(backend: Any, ident: str) -> list[dict[str, str]]:
    """Tags of an EC2 thing as CreateTags and DeleteTags left them."""
    return [{"Key": tag["key"], "Value": tag["value"]} for tag in backend.describe_tags(filters={"resource-id": [ident]})]


def keep_tags(backend: Any, ident: str, params: dict[str, Any]) -> None:
    """Puts the tags of a create call where CreateTags puts them."""
    tags = {tag["Key"]: tag["Value"] for tag in tags_of(params)}
    if tags:
        backend.create_tags([ident], tags)
