"""Ids of machine images in a stack file (target aws): the pinned one and the newest, and the edit that pins the newest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.model.targets.aws import AwsTarget, Image
from rackwright.operations.stack import load_and_validate
from rackwright.stackfile.load import find_stack_file

if TYPE_CHECKING:
    from rackwright.drivers.aws.account import Account


@dataclass(frozen=True)
class Pin:
    """An image of a stack: the pinned id and the newest one."""

    path: str
    """For example `target.image`."""
    pinned: str | None
    newest: str

    @property
    def current(self) -> bool:
        """Return whether the newest image is pinned."""
        return self.pinned == self.newest


def pin_images(name_or_path: str, *, write: bool) -> tuple[Pin, ...]:
    """Query AWS for the newest image of each group; with `write`, write its id into the stack file. Return the pins as they were.

    Raises InputError for another target, for a stack without an image that AWS can resolve, and for an image that groups of
    different architectures share; UndeterminedError if AWS cannot be queried.
    """
    file = find_stack_file(name_or_path, paths.stacks())
    pins = tuple(_pins(_target(name_or_path)))
    if not pins:
        raise InputError(
            "has neither `ssm_parameter` nor `name` and `owner`",
            path="target.image",
            hint="add `ssm_parameter`, or `name` and `owner`",
        )
    if write:
        _write(file, pins)
    return pins


def _target(stack: str) -> AwsTarget:
    """Return the stack's AWS target; raise InputError for invalid fields.

    Findings of rules are ignored, because one of them may be the missing pin.
    """
    judged = load_and_validate(stack)
    if judged.loaded.cluster is None:
        raise InputError("\n".join(str(finding) for finding in judged.findings))
    target = judged.loaded.cluster.target
    if not isinstance(target, AwsTarget):
        raise InputError(f"target {target.kind} has no machine images to pin", path="target.kind", hint="use a stack with target aws")
    return target


def _pins(target: AwsTarget) -> Iterator[Pin]:
    from rackwright.drivers.aws.account import Account

    account = Account(target.region)
    if _can_be_looked_up(target.image):
        yield _pin(account, target, target.image, None, "target.image")
    for group, declared in target.instances.items():
        if declared.image is not None and _can_be_looked_up(declared.image):
            yield _pin(account, target, declared.image, group, f"target.instances.{group}.image")


def _can_be_looked_up(image: Image) -> bool:
    return image.ssm_parameter is not None or image.name is not None


def _pin(account: Account, target: AwsTarget, image: Image, group: str | None, path: str) -> Pin:
    from rackwright.drivers.aws.images import architectures, newest_image

    run = architectures(target, group)
    if len(run) > 1:
        raise InputError(
            f"groups with the architectures {' and '.join(sorted(run))} cannot share an image",
            path=path,
            hint="set `image` for the groups of one architecture",
        )
    return Pin(path, image.id, newest_image(account, image, next(iter(run), None), path))


def _write(file: Path, pins: tuple[Pin, ...]) -> None:
    from rackwright.stackfile import set_value

    text = before = file.read_bytes().decode()
    for one in pins:
        if not one.current:
            text = set_value.set_value(text, one.path.split("."), "id", one.newest, name=file.name)
    if text != before:
        file.write_bytes(text.encode())
