"""The sweep of a cloud account by label: what `rackwright down --by-label` does on AWS."""

from __future__ import annotations

import json
import sys

from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model import document
from rackwright.model.load import CONFIG_KEY
from rackwright.provider.drivers.aws import leftovers
from rackwright.provider.drivers.aws.account import Account

_NOT_AS_DECLARED, _COULD_NOT_TELL = 1, 3


def region_of(stack: str) -> str | None:
    """The region of a stack on AWS, whatever else is wrong in its file; None where it says another target, or there is none."""
    try:
        data, _ = document.read(paths.stack_file(stack))
        target = data["config"][CONFIG_KEY]["target"]
        kind, region = target["kind"], target.get("region")
    except (BadInput, KeyError, TypeError, AttributeError):
        return None
    if kind != "aws":
        return None
    if not isinstance(region, str):
        raise BadInput("target aws says no region", path=paths.stack_file(stack).name, hint="give it with --region")
    return region


def sweep(stack: str, region: str, *, yes: bool, as_json: bool) -> int:
    """List what carries the label, or remove it. Exit code 1 where something stays, 3 where something could not be looked for."""
    account = Account(region)
    number, _ = account.identity()
    if yes:
        leftovers.remove(account, stack, lambda line: print(line, file=sys.stderr if as_json else sys.stdout))
    found = leftovers.find(account, stack)
    if as_json:
        things = [{"kind": thing.kind, "id": thing.id} for thing in found.left]
        print(json.dumps({"stack": stack, "account": number, "region": region, "left": things, "unseen": list(found.unseen)}, indent=2))
    else:
        print(_said(found, stack, f"account {number}, {region}"))
    return _COULD_NOT_TELL if found.unseen else _NOT_AS_DECLARED if found.left else 0


def _said(found: leftovers.Found, stack: str, where: str) -> str:
    if not (found.left or found.unseen):
        return f"nothing is left of stack {stack} in {where}: nothing carries its tag"
    ends = [f"{len(found.left)} things of stack {stack} are left in {where}; with --yes they are removed"] if found.left else []
    return "\n".join([*leftovers.lines(found), *ends])
