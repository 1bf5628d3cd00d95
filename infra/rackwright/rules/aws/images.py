"""Machine images of target `aws`: one source, a pinned id, and the system and architecture of the instances that use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rackwright.model.finding import Severity
from rackwright.model.targets.aws import Image
from rackwright.rules.aws.groups import InstanceGroup, fleets, target
from rackwright.rules.registry import RuleContext, Violation, rule

_CODENAMES: Final = {"jammy": "ubuntu-22.04", "noble": "ubuntu-24.04", "bookworm": "debian-12", "trixie": "debian-13"}
_RELEASE: Final = re.compile(r"(ubuntu)[/-](?:[a-z-]+[/-])?(\d\d\.\d\d)|(debian)[/-](?:release/)?(\d+)|(rocky)-(?:linux-)?(\d+)")
_OTHERS: Final = re.compile(r"al2023|amzn2|amazon-linux|bottlerocket|windows|rhel|suse|fedora|centos")
_ARCHITECTURES: Final = {"amd64": "x86_64", "x86_64": "x86_64", "x86-64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}


@dataclass(frozen=True)
class _Used:
    """An image, its path in the stack file, and the groups that use it."""

    path: str
    image: Image
    by: tuple[InstanceGroup, ...]

    @property
    def words(self) -> str:
        """Return the parameter or name from which the image's id is resolved."""
        return (self.image.ssm_parameter or self.image.name or "").lower()


def _images(case: RuleContext) -> Iterator[_Used]:
    here = target(case)
    if here is None:
        return
    everybody = tuple(fleets(case))
    yield _Used("target.image", here.image, tuple(fleet for fleet in everybody if fleet.declared.image is None))
    for name, declared in here.instances.items():
        if declared.image is not None:
            yield _Used(f"target.instances.{name}.image", declared.image, tuple(fleet for fleet in everybody if fleet.name == name))


@rule("image-source")
def image_source(case: RuleContext) -> Iterator[Violation]:
    """An image id is resolved from one source; a custom image may be an id only."""
    for used in _images(case):
        image = used.image
        if image.ssm_parameter and image.name:
            yield Violation(used.path, "has both `ssm_parameter` and `name`, which may be different images", "remove one")
        elif not (image.id or image.ssm_parameter or image.name):
            yield Violation(used.path, "names no image", "add `ssm_parameter: /aws/service/…`, or `name:` and `owner:`, or `id:`")


@rule("image-owner")
def image_owner(case: RuleContext) -> Iterator[Violation]:
    """Every AWS account may publish an image under any name: without the owner, another account's image could be started."""
    for used in _images(case):
        if used.image.name and not used.image.owner:
            hint = "add `owner:`, like 099720109477 for Canonical, or self"
            yield Violation(f"{used.path}.owner", f"is missing: the owner of `{used.image.name}` is required", hint)
        elif used.image.owner and not used.image.name:
            yield Violation(f"{used.path}.owner", "`owner` without `name` names no image", "add `name:`, or remove `owner`")


@rule("image-unpinned", Severity.WARNING, level_on_deploy=Severity.ERROR)
def image_unpinned(case: RuleContext) -> Iterator[Violation]:
    """The newest image changes over time: nodes created later would differ from earlier ones, without a record of the difference."""
    for used in _images(case):
        if used.image.id is None and (used.image.ssm_parameter or used.image.name):
            yield Violation(
                f"{used.path}.id",
                "is missing: all nodes must start from one image",
                f"run `rackwright pin-images {case.stack}` to write the id",
            )


@rule("image-os")
def image_os(case: RuleContext) -> Iterator[Violation]:
    """The roles install packages for `os` (AWS ParallelCluster v3.11.1: AmiOsCompatibleValidator)."""
    here = target(case)
    for used in _images(case):
        system = _system(used.words)
        if here is not None and system not in {None, here.os.value}:
            yield Violation(used.path, f"is {system}, but target.os is {here.os}", "change one of them")


def _system(words: str) -> str | None:
    """Return the operating system in an image's parameter or name; None if it contains none."""
    for codename, system in _CODENAMES.items():
        if re.search(rf"\b{codename}\b", words):
            return system
    found = _RELEASE.search(words)
    if found:
        return "-".join(part for part in found.groups() if part)
    other = _OTHERS.search(words)
    return other[0] if other else None


@rule("image-architecture")
def image_architecture(case: RuleContext) -> Iterator[Violation]:
    """The programs of an image run on one processor architecture."""
    for used in _images(case):
        architectures = {kind for word, kind in _ARCHITECTURES.items() if word in used.words}
        needed = {fleet.type.architecture: fleet for fleet in reversed(used.by)}
        if len(architectures) == 1:
            for architecture in sorted(needed.keys() - architectures):
                yield _mismatch(used, f"is for {architectures.copy().pop()}", needed[architecture])
        elif len(needed) > 1:
            fleet = needed["arm64"] if "arm64" in needed else used.by[0]
            yield _mismatch(used, "cannot be for two architectures", fleet)


def _mismatch(used: _Used, cause: str, fleet: InstanceGroup) -> Violation:
    hint = f"add a separate image for group {fleet.name}: `{fleet.path}.image`"
    return Violation(used.path, f"{cause}, but {fleet.type.name} of group {fleet.name} is {fleet.type.architecture}", hint)
