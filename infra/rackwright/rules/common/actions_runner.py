"""GitHub Actions runner: what would fail at its registration, or would run foreign code, is refused before anything is created."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, urlsplit

from rackwright.catalog import version_key
from rackwright.catalog.runner_releases import OLDEST, newest, runner_digests
from rackwright.model.finding import Severity
from rackwright.model.groups import Role
from rackwright.model.node.actions_runner import ActionsRunner, Visibility
from rackwright.model.node.containers import ContainerRuntime
from rackwright.rules.registry import RuleContext, Violation, rule

_EXAMPLE: Final = "use https://github.com/OWNER/REPOSITORY, or https://github.com/ORGANIZATION"
_TOKEN_HINT: Final = "pass it to `rackwright runner` when you register, in RACKWRIGHT_RUNNER_TOKEN or in a file"


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if it is none."""
    try:
        parts = urlsplit(url)
        return parts if parts.hostname else None
    except ValueError:
        return None


def _names(runner: ActionsRunner) -> list[str]:
    """Return the parts of the URL's path: owner and repository, or organization."""
    parts = _split(runner.url)
    return [name for name in parts.path.split("/") if name] if parts else []


@rule("runner-missing")
def runner_missing(case: RuleContext) -> Iterator[Violation]:
    """A node with the role, and what it runs jobs for, belong together."""
    nodes = case.with_role(Role.RUNNER)
    if nodes and case.cluster.runner is None:
        yield Violation("runner", f"{nodes[0].name} has the role runner, but no `runner` is declared", "add `runner: {url: …}`")
    if case.cluster.runner is not None and not nodes:
        yield Violation("runner", "no node has the role runner", "add the group `runner: {count: 1}`, with the GPUs of the machine")


@rule("runner-url")
def runner_url(case: RuleContext) -> Iterator[Violation]:
    """The token is sent to this address, and the code of jobs comes from it."""
    runner = case.cluster.runner
    if runner is None:
        return
    parts = _split(runner.url)
    if parts is None or parts.scheme != "https":
        scheme = f"{parts.scheme or 'no scheme'}" if parts else "no URL"
        yield Violation("runner.url", f"is not an https URL (found {scheme})", _EXAMPLE)
    elif parts.username or parts.password or parts.query or parts.fragment:
        yield Violation("runner.url", "holds more than host and path, for example a token", f"remove it; {_TOKEN_HINT}")
    elif not 1 <= len(_names(runner)) <= 2:
        yield Violation("runner.url", "names neither a repository nor an organization", _EXAMPLE)


@rule("runner-digest")
def runner_digest(case: RuleContext) -> Iterator[Violation]:
    """An archive of which no digest is known could be any program, and its code gets the runner's credentials."""
    runner = case.cluster.runner
    if runner is None:
        return
    version = runner.version or newest()
    known = {**runner_digests().get(version, {}), **{key.value: digest for key, digest in runner.sha256.items()}}
    for architecture in sorted({member.architecture for member in case.with_role(Role.RUNNER)} - set(known)):
        cause = f"no digest of release {version} for {architecture} is known"
        hint = f"use {newest()}, or add `sha256: {{{architecture}: …}}` from the release's page at github.com/actions/runner/releases"
        yield Violation("runner.version", cause, hint)
    for key, digest in runner.sha256.items():
        catalogued = runner_digests().get(version, {}).get(key.value)
        if catalogued is not None and catalogued != digest:
            cause = f"differs from the catalogue's digest of {version}: one of the two is wrong"
            yield Violation(f"runner.sha256.{key.value}", cause, "remove it, and do not install an archive with another digest")


@rule("runner-version-too-old")
def runner_version_too_old(case: RuleContext) -> Iterator[Violation]:
    """GitHub refuses to register older runners, after everything else was installed."""
    runner = case.cluster.runner
    if runner is not None and runner.version is not None and version_key(runner.version) < version_key(OLDEST):
        yield Violation("runner.version", f"GitHub registers no runner older than {OLDEST}", f'use "{newest()}", or omit `version`')


@rule("runner-beside-scheduler")
def runner_beside_scheduler(case: RuleContext) -> Iterator[Violation]:
    """The runner starts jobs without asking the scheduler, on CPUs and GPUs that it has given to others."""
    if not case.with_role(Role.RUNNER):
        return
    others = sorted({member.group for member in case.members if set(member.roles) - {Role.RUNNER}})
    for name in others:
        cause = f"the stack has a runner, and group {name} belongs to a cluster"
        yield Violation(f"groups.{name}.roles", cause, "describe the runner's machine in a stack of its own, with no other role")


@rule("runner-target")
def runner_target(case: RuleContext) -> Iterator[Violation]:
    """A lab's GPUs are simulated, and instances that are billed by the hour would wait for jobs."""
    if case.with_role(Role.RUNNER) and case.cluster.target.kind != "hosts":
        cause = f"target {case.cluster.target.kind} has no runners"
        yield Violation("target.kind", cause, "use target hosts with the machine's address")


@rule("runner-group")
def runner_group(case: RuleContext) -> Iterator[Violation]:
    """A repository has one group; config.sh ends with an error for any other name."""
    runner = case.cluster.runner
    if runner is not None and runner.group is not None and len(_names(runner)) == 2 and _names(runner)[0] != "enterprises":
        yield Violation(
            "runner.group", "the runner belongs to a repository, which has no groups", "remove it, or use the organization's URL"
        )


@rule("runner-without-scheduler")
def runner_without_scheduler(case: RuleContext) -> Iterator[Violation]:
    """No node of a stack of runners runs a scheduler, and pyxis is a plugin of Slurm."""
    if not case.is_runner:
        return
    if case.cluster.software is not None and ContainerRuntime.ENROOT in case.cluster.software.containers:
        yield Violation(
            "software.containers", "enroot comes with pyxis, a plugin of Slurm, which a runner has not", "use podman or apptainer"
        )
    if "scheduler" in case.cluster.model_fields_set:
        yield Violation("scheduler", "a stack of runners has no scheduler", "remove `scheduler`")


@rule("runner-visibility", Severity.WARNING)
def runner_visibility(case: RuleContext) -> Iterator[Violation]:
    """GitHub recommends self-hosted runners for private repositories only (GitHub documentation, Secure use reference)."""
    runner = case.cluster.runner
    if runner is None:
        return
    if runner.visibility is None:
        cause = "is not declared; pull requests from forks of a public repository can run any code on the node"
        yield Violation("runner.visibility", cause, "declare `visibility: private`, if no repository with access to the runner is public")
    elif runner.visibility is Visibility.PUBLIC:
        cause = "anyone can fork a public repository, and a pull request from the fork can run any code on the node"
        hint = "require approval for all outside contributors (Settings, Actions, General), use `ephemeral: true`, and keep no secret there"
        yield Violation("runner.visibility", cause, hint)


@rule("runner-update-disabled", Severity.WARNING)
def runner_update_disabled(case: RuleContext) -> Iterator[Violation]:
    """GitHub sends no jobs to a runner that is 30 days behind a release (GitHub documentation, Self-hosted runners reference)."""
    runner = case.cluster.runner
    if runner is not None and not runner.auto_update:
        cause = "the runner does not update itself, and GitHub sends it no jobs from 30 days after the next release"
        yield Violation("runner.auto_update", cause, "change `version` within 30 days of each release, or remove `auto_update: false`")
