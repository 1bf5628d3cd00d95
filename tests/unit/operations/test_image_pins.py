"""Pins of machine images: what is pinned, what is newest, and the edit of the stack file. Against moto: tests/components/aws."""

from __future__ import annotations

from pathlib import Path

import pytest

from rackwright.drivers.aws import images
from rackwright.errors import InputError
from rackwright.inventory import paths
from rackwright.operations.image_pins import Pin, pin_images

OLD, NEW = "ami-00000000000000001", "ami-00000000000000002"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stack file on AWS; the newest image of each group is `NEW`."""
    monkeypatch.setattr(images, "newest_image", lambda *_: NEW)
    return write(tmp_path / "Pulumi.mine.yaml", f"{{id: {OLD}, ssm_parameter: /test/ami-id}}")


def write(file: Path, image: str) -> Path:
    lines = paths.stack_file("aws-budget").read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(f"      image: {image}\n" if line.startswith("      image:") else line for line in lines))
    return file


def test_pins_are_returned_and_file_is_unchanged(file: Path) -> None:
    before = file.read_text()
    (pin,) = pin_images(str(file), write=False)
    assert pin == Pin("target.image", OLD, NEW) and not pin.current
    assert file.read_text() == before


def test_newest_image_is_written(file: Path) -> None:
    before = file.read_text()
    assert pin_images(str(file), write=True) == (Pin("target.image", OLD, NEW),)
    assert file.read_text() == before.replace(OLD, NEW)
    assert [pin.current for pin in pin_images(str(file), write=True)] == [True]


@pytest.mark.parametrize(("image", "cause"), [(f"{{id: {OLD}}}", "has neither `ssm_parameter` nor"), ("{nme: x}", "unknown key `nme`")])
def test_image_that_cannot_be_looked_up_is_refused(file: Path, image: str, cause: str) -> None:
    write(file, image)
    with pytest.raises(InputError, match=cause):
        pin_images(str(file), write=True)


def test_other_target_has_no_images() -> None:
    with pytest.raises(InputError, match="target lab has no machine images to pin"):
        pin_images("lab", write=False)
