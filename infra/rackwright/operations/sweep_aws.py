"""Delete AWS resources by tag: `rackwright down --by-label` on target aws."""

from __future__ import annotations

import json
import sys

from rackwright.drivers.aws import orphans
from rackwright.drivers.aws.account import Account
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import CONFIG_KEY

_NOT_AS_DECLARED, _COULD_NOT_TELL = 1, 3


def region_of(stack: str) -> str | None:
    """Return the region of a stack on AWS, even if its file has other errors; None for another target or a missing file.

    Raises InputError if target aws has no region.
    """
    try:
        data, _ = yaml_reader.read(paths.stack_file(stack))
        target = data["config"][CONFIG_KEY]["target"]
        kind, region = target["kind"], target.get("region")
    except (InputError, KeyError, TypeError, AttributeError):
        return None
    if kind != "aws":
        return None
    if not isinstance(region, str):
        raise InputError("target aws has no `region`", path=paths.stack_file(stack).name, hint="pass --region REGION")
    return region


def sweep(stack: str, region: str, *, yes: bool, as_json: bool) -> int:
    """List the resources with the stack's tag, or delete them with `yes`.

    Return the exit code: 1 if resources remain, 3 if some resource types could not be queried.
    """
    account = Account(region)
    number, _ = account.identity()
    if yes:
        orphans.remove(account, stack, lambda line: print(line, file=sys.stderr if as_json else sys.stdout))
    found = orphans.find(account, stack)
    if as_json:
        things = [{"kind": thing.kind, "id": thing.id} for thing in found.left]
        print(json.dumps({"stack": stack, "account": number, "region": region, "left": things, "unseen": list(found.unseen)}, indent=2))
    else:
        print(_said(found, stack, f"account {number}, {region}"))
    return _COULD_NOT_TELL if found.unseen else _NOT_AS_DECLARED if found.left else 0


def _said(found: orphans.Found, stack: str, where: str) -> str:
    if not (found.left or found.unseen):
        return f"no resource with the tag of stack {stack} in {where}"
    ends = [f"{len(found.left)} resources of stack {stack} remain in {where}; pass --yes to delete them"] if found.left else []
    return "\n".join([*orphans.lines(found), *ends])
