"""`rackwright pin-images`: the newest image's id in the stack file. Against moto."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers.aws.account import Account
from rackwright.inventory import paths
from rackwright.stackfile.load import load_stack

from .conftest import Run

_PARAMETER = "/test/ubuntu/ami-id"
_OLD, _NEW = "ami-00000000000000001", "ami-00000000000000002"


@pytest.fixture
def stack(tmp_path: Path) -> Callable[[str], Path]:
    """Return a stack file like aws-budget's with another image."""

    def write(image: str) -> Path:
        lines = paths.stack_file("aws-budget").read_text().splitlines(keepends=True)
        file = tmp_path / "Pulumi.mine.yaml"
        file.write_text("".join(f"      image: {image}  # mine\n" if line.startswith("      image:") else line for line in lines))
        return file

    return write


def publish(account: Account, value: str) -> None:
    """Publish an image as Canonical does."""
    account.client("ssm").put_parameter(Name=_PARAMETER, Value=value, Type="String", Overwrite=True)


def image(account: Account, name: str, architecture: str = "x86_64") -> str:
    """Create an image of the account."""
    told = account.client("ec2").register_image(Name=name, Architecture=architecture, RootDeviceName="/dev/sda1")
    return str(told["ImageId"])


def pinned(file: Path) -> str | None:
    """Return the id in the stack file."""
    cluster = load_stack(file).cluster
    assert cluster is not None and cluster.target.kind == "aws"
    return cluster.target.image.id


def test_pin_writes_only_image_id(account: Account, run: Run, stack: Callable[[str], Path]) -> None:
    publish(account, _OLD)
    file = stack(f"{{ssm_parameter: {_PARAMETER}}}")
    before = file.read_text()
    ended = run("pin-images", str(file))
    assert (ended.code, ended.out) == (0, f"target.image: pinned to {_OLD}\n"), ended.err
    assert file.read_text() == before.replace("image: {", f"image: {{id: {_OLD}, ")
    assert pinned(file) == _OLD


def test_newer_image_is_reported_and_written_on_request(account: Account, run: Run, stack: Callable[[str], Path]) -> None:
    file = stack(f"{{id: {_OLD}, ssm_parameter: {_PARAMETER}}}")
    publish(account, _NEW)
    ended = run("pin-images", str(file), "--check")
    assert (ended.code, ended.out) == (1, f"target.image: {_NEW} is newer than {_OLD}\n")
    assert pinned(file) == _OLD, "--check writes nothing"
    assert run("pin-images", str(file)).out == f"target.image: pinned to {_NEW} instead of {_OLD}\n"
    assert run("pin-images", str(file), "--check").code == 0


def test_image_name_selects_youngest_of_architecture(account: Account, run: Run, stack: Callable[[str], Path]) -> None:
    ids = [image(account, f"mine-{n}") for n in range(3)]
    foreign = image(account, "mine-arm", "arm64")
    backend = _backend()
    for id_, day in zip((*ids, foreign), (2, 3, 1, 9), strict=True):
        backend.amis[id_].creation_date = datetime(2026, 11, day, tzinfo=UTC)
        backend.amis[id_].architecture = "arm64" if id_ == foreign else "x86_64"
    file = stack("{name: mine-*}")
    assert run("pin-images", str(file)).code == 0
    assert pinned(file) == ids[1]


def _backend() -> Any:
    from moto.backends import get_backend

    return get_backend("ec2")["123456789012"]["us-east-1"]


def test_missing_parameter_is_reported(account: Account, run: Run, stack: Callable[[str], Path]) -> None:
    ended = run("pin-images", str(stack("{ssm_parameter: /nowhere/ami-id}")))
    assert ended.code == 2
    assert ended.err.startswith("target.image.ssm_parameter: no public parameter /nowhere/ami-id in us-east-1\n  ")


def test_unknown_image_name_is_reported(account: Account, run: Run, stack: Callable[[str], Path]) -> None:
    ended = run("pin-images", str(stack("{name: nothing-*, owner: self}")))
    assert ended.code == 2
    assert "no image of self is named nothing-* in us-east-1 for x86_64" in ended.err


def test_pin_without_credentials_gives_hint(no_account: None, run: Run, stack: Callable[[str], Path]) -> None:
    """Exit code 3, and not one line of a traceback."""
    ended = run("pin-images", str(stack(f"{{ssm_parameter: {_PARAMETER}}}")))
    assert ended.code == 3
    assert ended.err == (
        "ssm:get_parameter: Unable to locate credentials\n"
        "  log in (`aws sso login`), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY\n"
    )


@pytest.mark.parametrize(("target", "words"), [("lab", "target lab has no machine images"), ("budget-vms", "target hosts has no")])
def test_pin_refuses_other_targets(run: Run, target: str, words: str) -> None:
    ended = run("pin-images", target)
    assert ended.code == 2 and words in ended.err


def test_pin_refuses_image_with_only_id(run: Run, stack: Callable[[str], Path]) -> None:
    ended = run("pin-images", str(stack(f"{{id: {_OLD}}}")))
    assert ended.code == 2 and "target.image: has neither `ssm_parameter` nor `name` and `owner`" in ended.err
