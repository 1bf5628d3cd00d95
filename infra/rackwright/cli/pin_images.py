"""`rackwright pin-images`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from rackwright.operations.image_pins import Pin, pin_images

_NOT_AS_DECLARED = 1
"""Exit code "not as declared" (`rackwright.cli.main.app`)."""


def pin(
    stack: Annotated[str, typer.Argument(help="Stack name or path of a stack file.")],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a newer image exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the images as JSON.")] = False,
) -> None:
    """Write the ids of the newest machine images into the stack file, so that a later `up` starts the same image."""
    pins = pin_images(stack, write=not check)
    if as_json:
        print(json.dumps({"pins": [{**asdict(one), "current": one.current} for one in pins]}, indent=2))
    else:
        print("\n".join(f"{one.path}: {_said(one, check=check)}" for one in pins))
    if check and not all(one.current for one in pins):
        raise typer.Exit(_NOT_AS_DECLARED)


def _said(one: Pin, *, check: bool) -> str:
    if one.current:
        return f"{one.newest} is the newest"
    if not check:
        return f"pinned to {one.newest}" + (f" instead of {one.pinned}" if one.pinned else "")
    return f"{one.newest} is newer than {one.pinned}" if one.pinned else f"not pinned; the newest image is {one.newest}"
