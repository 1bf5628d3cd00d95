"""One value written into a stack file: what a person wrote around it stays, byte for byte; what cannot be edited is refused."""

from __future__ import annotations

import pytest

from rackwright.errors import InputError
from rackwright.stackfile import set_value

_PATH = ("target", "image")


def whole(image: str) -> str:
    """A stack file with an image, and comments about it."""
    return (
        f"# mine\nconfig:\n  rackwright:cluster:\n    target:\n      kind: aws   # cloud\n      image: {image}\n    verify_level: smoke\n"
    )


def put(text: str) -> str:
    """The text with an id."""
    return set_value.set_value(text, _PATH, "id", "ami-1", name="Pulumi.x.yaml")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{ssm_parameter: /a/b}", "{id: ami-1, ssm_parameter: /a/b}"),
        ("{ssm_parameter: /a/b}   # pin it", "{id: ami-1, ssm_parameter: /a/b}   # pin it"),
        ("{ ssm_parameter: /a/b }", "{id: ami-1, ssm_parameter: /a/b }"),
        ("{}", "{id: ami-1}"),
        ("{id: ami-0, ssm_parameter: /a/b}", "{id: ami-1, ssm_parameter: /a/b}"),
        ("{ssm_parameter: /a/b, id: 'ami-0'}", "{ssm_parameter: /a/b, id: ami-1}"),
        ("{ssm_parameter: /a/b, id: }", "{ssm_parameter: /a/b, id: ami-1 }"),
        ("{\n        ssm_parameter: /a/b,  # there\n      }", "{id: ami-1,\n        ssm_parameter: /a/b,  # there\n      }"),
        ("\n        ssm_parameter: /a/b  # there", "\n        id: ami-1\n        ssm_parameter: /a/b  # there"),
        ("\n        # why\n        ssm_parameter: /a/b", "\n        # why\n        id: ami-1\n        ssm_parameter: /a/b"),
        ("\n        ssm_parameter: /a/b\n        id: ami-0  # June", "\n        ssm_parameter: /a/b\n        id: ami-1  # June"),
        ("\n        ssm_parameter: /a/b\n        id:  # none yet", "\n        ssm_parameter: /a/b\n        id: ami-1  # none yet"),
    ],
)
def test_the_key_is_written_and_all_else_stays(before: str, after: str) -> None:
    assert put(whole(before)) == whole(after)


def test_a_file_of_another_system_keeps_its_line_ends() -> None:
    text = whole("\n        ssm_parameter: /a/b").replace("\n", "\r\n")
    assert put(text).count("\r\n") == text.count("\r\n") + 1
    assert put(text).count("\n") == put(text).count("\r\n")


def test_writing_twice_is_writing_once() -> None:
    once = put(whole("{ssm_parameter: /a/b}"))
    assert put(once) == once


@pytest.mark.parametrize(
    "image",
    [
        "&image {ssm_parameter: /a/b}",
        "\n        ? ssm_parameter\n        : /a/b",
        "{ssm_parameter: /a/b",
        "/a/b",
        "[ssm_parameter]",
        "!!map {ssm_parameter: /a/b}",
    ],
)
def test_what_cannot_be_edited_is_refused_with_the_line_to_write(image: str) -> None:
    with pytest.raises(InputError) as refused:
        put(whole(image))
    assert "target.image" in str(refused.value) and "add `id: ami-1` by hand" in str(refused.value)


@pytest.mark.parametrize("shared", ["&shared {ssm_parameter: /a/b}", "&shared\n  ssm_parameter: /a/b"])
def test_what_is_written_elsewhere_is_refused(shared: str) -> None:
    """An alias: the other place would change, too."""
    text = whole("*shared").replace("# mine\n", f"other: {shared}\n")
    with pytest.raises(InputError):
        put(text)


def test_a_place_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError):
        set_value.set_value(whole("{}"), ("target", "instances", "worker", "image"), "id", "ami-1", name="x")
