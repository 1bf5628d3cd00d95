"""Deletion of a stack by its label or tag, without Pulumi state: `rackwright down --by-label`."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from rackwright import layout
from rackwright.drivers import inotify_limits, podman
from rackwright.drivers.aws import orphans
from rackwright.drivers.aws.account import Account
from rackwright.drivers.vm import sweep as machines_of
from rackwright.errors import InputError, UndeterminedError
from rackwright.inventory import paths
from rackwright.operations import stack_files
from rackwright.stackfile import yaml_reader
from rackwright.stackfile.load import CONFIG_KEY


@dataclass(frozen=True, slots=True)
class AwsSweep:
    """The resources with a stack's tag that remain in an AWS account."""

    stack: str
    account: str
    region: str
    found: orphans.SearchResult


def sweep_lab(stack: str) -> list[str]:
    """Delete everything with the stack's label from this machine, and return what was deleted.

    Raises UndeterminedError without podman, and RackwrightError if something remains.
    """
    if shutil.which("podman") is None:
        raise UndeterminedError(
            "cannot check for leftovers: podman is not installed",
            hint=f"run `{layout.doctor_command()}` to see the command that installs podman",
        )
    removed = asyncio.run(podman.sweep(stack))
    inotify_limits.forget(stack)
    if (machines := paths.machines(stack)).exists():
        removed += machines_of.remove_all(machines)
    if paths.folder(stack).exists():
        stack_files.remove(stack)
        removed.append(f"folder {stack} of the state directory")
    return removed


def sweep_aws(stack: str, region: str, say: Callable[[str], None], *, delete: bool) -> AwsSweep:
    """Return the resources with the stack's tag that remain in the region; with `delete`, delete them first.

    `say` receives a line for each deleted resource. Raises UndeterminedError if AWS cannot be queried, RackwrightError if resources
    remain after the deletion.
    """
    account = Account(region)
    number, _ = account.identity()
    if delete:
        orphans.remove(account, stack, say)
    return AwsSweep(stack, number, region, orphans.find(account, stack))


def aws_region(stack: str) -> str | None:
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
