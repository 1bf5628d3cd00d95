"""Declarations of the software stack, before versions are compared: known names, and recommendations that are outdated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rackwright.catalog import compatibility
from rackwright.catalog.compatibility import Advice
from rackwright.model.finding import Severity, did_you_mean
from rackwright.model.targets.aws import AwsTarget
from rackwright.rules.registry import RuleContext, Violation, rule

FULL: Final = {"driver": 3, "cuda": 2, "nccl": 3, "nccl-cuda": 2}
"""Numbers of a complete version, for components whose shorter versions are ambiguous: 580.173.02, 13.0, 2.28.9."""

ELSEWHERE: Final = {"doca-ofed": "rdma: {{doca: {{version: {}}}}}", "efa-installer": "rdma: {{efa: {{version: {}, sha256: …}}}}"}
"""Components whose version another field of the stack file sets."""


@rule("software-profile")
def software_profile(case: RuleContext) -> Iterator[Violation]:
    """The profile determines the versions."""
    declared = case.cluster.software
    if declared is not None and declared.profile not in compatibility.profiles():
        hint = did_you_mean(declared.profile, compatibility.profiles())
        yield Violation("software.profile", f"`{declared.profile}` is not a profile of the compatibility catalogue", hint)


@rule("software-pin")
def software_pin(case: RuleContext) -> Iterator[Violation]:
    """A pin of a component that is not installed has no effect, and a partial version is ambiguous."""
    for name, version in _pins(case):
        if name not in compatibility.components():
            yield Violation(f"software.versions.{name}", f"`{name}` is not a component", did_you_mean(name, compatibility.components()))
        elif name in ELSEWHERE:
            cause = f"a pin does not install {name} or set its version"
            yield Violation(f"software.versions.{name}", cause, f"to install it, use `{ELSEWHERE[name].format(version)}`")
        elif version.count(".") + 1 < FULL.get(name, 1):
            example = next(iter(compatibility.profiles().values())).versions.get(name, "13.0")
            yield Violation(
                f"software.versions.{name}", f"{version} is not a complete version of {name}", f'use a complete version, like "{example}"'
            )


def _pins(case: RuleContext) -> list[tuple[str, str]]:
    """Return the pins, without outdated components."""
    pins = case.cluster.software.versions if case.cluster.software else {}
    return [(name, version) for name, version in pins.items() if name not in compatibility.outdated()]


@rule("software-outdated", Severity.WARNING)
def software_outdated(case: RuleContext) -> Iterator[Violation]:
    """Guides of some years ago recommend packages that have been replaced."""
    for name in case.cluster.software.versions if case.cluster.software else ():
        advice = compatibility.outdated().get(name)
        if advice is not None:
            yield Violation(f"software.versions.{name}", f"{advice.reason}; it is not installed", f"use {advice.instead}")


@rule("nccl-environment", Severity.WARNING)
def nccl_environment(case: RuleContext) -> Iterator[Violation]:
    """Variables for one release on one machine, copied from guide to guide, cost bandwidth on others."""
    environment = case.cluster.software.nccl.environment if case.cluster.software else {}
    for name, value in environment.items():
        advice = next((row for row in compatibility.nccl_variables().values() if _is_about(row, name, value, case)), None)
        if advice is not None:
            yield Violation(f"software.nccl.environment.{name}", f"{name}={value}: {advice.reason}", advice.instead)


def _is_about(advice: Advice, name: str, value: str, case: RuleContext) -> bool:
    """Return whether the recommendation applies to this line."""
    start = advice.name.removesuffix("*")
    if name != advice.name and not (start != advice.name and name.startswith(start)):
        return False
    applies = {"always": True, "integer": value.lstrip("-").isdigit(), "efa": isinstance(case.cluster.target, AwsTarget)}
    return applies[advice.when]
