"""One resource type as a row of a table: the calls that create, read, change and delete it. The rest follows from the service's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from standins.aws.account import Account
from standins.aws.naming import Autoname
from standins.aws.request import Renames, request
from standins.aws.state import Properties
from standins.aws.tags import Described, Ec2Tags, Tagging, Tags

CreateFunction = Callable[[Account, "ResourceType", Properties, Tags], str]
ReadFunction = Callable[[Account, str, Properties], Described | None]
DeleteFunction = Callable[[Account, str, Properties], None]
SetProperty = Callable[[Account, str, Properties, Properties], None]
"""Sets one property of the resource with this id to the new inputs; the old ones are empty right after creation."""
OutputFunction = Callable[[Account, str, Described, Properties], Properties]


class Unsupported(Exception):
    """The stand-in does not support the operation; the message names it."""


@dataclass(frozen=True, kw_only=True)
class ResourceType:
    """One resource type."""

    token: str
    service: str
    make: CreateFunction
    look: ReadFunction
    """Returns None for a deleted resource."""
    drop: DeleteFunction
    force: frozenset[str] = frozenset()
    """Inputs that cannot change in place. Written by hand, since pulumi_aws does not list them: plans of the stand-in are approximate."""
    settle: Mapping[str, SetProperty] = field(default_factory=dict)
    late: frozenset[str] = frozenset()
    """Inputs that the create call does not accept and `settle` sets."""
    local: frozenset[str] = frozenset()
    """Inputs that only configure the provider."""
    renames: Renames = field(default_factory=dict)
    outs: OutputFunction = lambda account, ident, described, inputs: {}
    tags: Tagging | None = None
    autoname: Autoname | None = None
    moves: frozenset[str] = frozenset()
    """Outputs that any change replaces."""
    replaced_if: Callable[[Properties, Properties], frozenset[str]] = lambda olds, news: frozenset()
    """Further inputs that cannot change in place, depending on the others."""

    def sent(self, inputs: Properties) -> Properties:
        """Return the inputs that the create call accepts."""
        return {key: value for key, value in inputs.items() if key not in self.late | self.local | {"tags", "region"}}


def fill(account: Account, kind: ResourceType, operation: str, inputs: Properties, *, within: str = "") -> dict[str, Any]:
    """Return the request of an operation, or one structure within it, from the inputs. Raise Unsupported for an input without a place."""
    shape = account.client(kind.service).meta.service_model.operation_model(operation).input_shape
    made, homeless = request(shape.members[within] if within else shape, inputs, kind.renames)
    if homeless:
        raise Unsupported(f"the stand-in for {kind.token} has no place for {', '.join(homeless)} in {operation}")
    return made


def chosen(inputs: Properties, *names: str) -> Properties:
    """Return the inputs of these names that are present."""
    return {name: inputs[name] for name in names if name in inputs}


@dataclass(frozen=True)
class Create:
    """A create call whose response contains the id."""

    operation: str
    holds: str
    ident: str
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, account: Account, kind: ResourceType, inputs: Properties, tags: Tags) -> str:
        """Create the resource and return its id."""
        tagged = kind.tags.at_creation(tags) if kind.tags else {}
        asked = {**fill(account, kind, self.operation, inputs), **self.fixed, **tagged}
        answer = account.call(kind.service, self.operation, **asked)
        return str((answer[self.holds] if self.holds else answer)[self.ident])


def listed(service: str, operation: str, by: str, key: str, alive: Callable[[Described], bool] = lambda described: True) -> ReadFunction:
    """Return a function that reads a resource by a list of one id."""

    def look(account: Account, ident: str, inputs: Properties) -> Described | None:
        found = account.call(service, operation, **{by: [ident]})[key]
        return found[0] if found and alive(found[0]) else None

    return look


def single(service: str, operation: str, by: str, key: str = "") -> ReadFunction:
    """Return a function that reads a resource by its id."""

    def look(account: Account, ident: str, inputs: Properties) -> Described | None:
        found = account.call(service, operation, **{by: ident})
        described: Described = found[key] if key else found
        return described

    return look


def removed(service: str, operation: str, by: str) -> DeleteFunction:
    """Return a function that deletes a resource by its id."""

    def drop(account: Account, ident: str, inputs: Properties) -> None:
        account.call(service, operation, **{by: ident})

    return drop


def ec2(token: str, noun: str, *, tag: str = "", alive: Callable[[Described], bool] = lambda described: True, **more: Any) -> ResourceType:
    """Return a resource type of EC2 in its usual form: CreateX, DescribeXs by XIds, DeleteX by XId."""
    row: dict[str, Any] = {
        "make": Create(f"Create{noun}", noun, f"{noun}Id"),
        "look": listed("ec2", f"Describe{noun}s", f"{noun}Ids", f"{noun}s", alive),
        "drop": removed("ec2", f"Delete{noun}", f"{noun}Id"),
        "tags": Ec2Tags(tag) if tag else None,
    }
    return ResourceType(token=token, service="ec2", **{**row, **more})
