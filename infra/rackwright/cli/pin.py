"""`rackwright pin`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rackwright.cli.stack import judge
from rackwright.errors import BadInput
from rackwright.handover import paths
from rackwright.model.aws import AwsTarget, Image
from rackwright.model.load import find_stack_file

if TYPE_CHECKING:
    from rackwright.provider.drivers.aws.account import Account

_NOT_AS_DECLARED = 1


@dataclass(frozen=True)
class Pin:
    """An image of a stack: what is written and what is the newest."""

    path: str
    """Like `target.image`."""
    pinned: str | None
    newest: str

    @property
    def current(self) -> bool:
        """Whether the newest one is the one that is written."""
        return self.pinned == self.newest


def pin(
    stack: Annotated[str, typer.Argument(help="A stack's name, or a file's path.")],
    check: Annotated[bool, typer.Option("--check", help="Only say whether there is a newer one: exit code 1 if so.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Images as JSON.")] = False,
) -> None:
    """Write the ids of the newest machine images into the stack file, so that an `up` next month starts the same image."""
    file = find_stack_file(stack, paths.stacks())
    target = _target(stack)
    pins = tuple(_pins(target))
    if not pins:
        raise BadInput("no image says where its id is looked up", path="target.image", hint="give it a `parameter`, or `name` and `owner`")
    if not check:
        _write(file, pins)
    print(
        json.dumps({"pins": [{**asdict(one), "current": one.current} for one in pins]}, indent=2) if as_json else _text(pins, check=check)
    )
    if check and not all(one.current for one in pins):
        raise typer.Exit(_NOT_AS_DECLARED)


def _target(stack: str) -> AwsTarget:
    """Fields must be right; what rules find may be the missing pin itself."""
    judged = judge(stack)
    if judged.loaded.cluster is None:
        raise BadInput("\n".join(str(finding) for finding in judged.findings))
    target = judged.loaded.cluster.target
    if not isinstance(target, AwsTarget):
        raise BadInput(f"target {target.kind} has no machine images to pin", path="target.kind", hint="only target aws does")
    return target


def _pins(target: AwsTarget) -> Iterator[Pin]:
    from rackwright.provider.drivers.aws.account import Account

    account = Account(target.region)
    if _can_be_looked_up(target.image):
        yield _pin(account, target, target.image, None, "target.image")
    for group, declared in target.instances.items():
        if declared.image is not None and _can_be_looked_up(declared.image):
            yield _pin(account, target, declared.image, group, f"target.instances.{group}.image")


def _can_be_looked_up(image: Image) -> bool:
    return image.parameter is not None or image.name is not None


def _pin(account: Account, target: AwsTarget, image: Image, group: str | None, path: str) -> Pin:
    from rackwright.provider.drivers.aws.images import architectures, newest

    run = architectures(target, group)
    if len(run) > 1:
        raise BadInput(
            f"groups of {' and '.join(sorted(run))} cannot share an image", path=path, hint="give one of them an `image` of its own"
        )
    return Pin(path, image.id, newest(account, image, next(iter(run), None), path))


def _write(file: Path, pins: tuple[Pin, ...]) -> None:
    from rackwright.model import edit

    text = before = file.read_bytes().decode()
    for one in pins:
        if not one.current:
            text = edit.put(text, one.path.split("."), "id", one.newest, name=file.name)
    if text != before:
        file.write_bytes(text.encode())


def _text(pins: tuple[Pin, ...], *, check: bool) -> str:
    return "\n".join(f"{one.path}: {_said(one, check=check)}" for one in pins)


def _said(one: Pin, *, check: bool) -> str:
    if one.current:
        return f"{one.newest} is the newest"
    instead = f" instead of {one.pinned}" if one.pinned else ""
    return f"{one.newest} is newer{instead or ' than nothing: it is not pinned'}" if check else f"pinned to {one.newest}{instead}"
