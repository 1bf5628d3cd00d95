"""Parallel inspection of many machines before they belong to a stack, without a change on any of them.

A machine whose host key is not confirmed is inspected in the same way, because a login by key reveals no secret. Its facts are not trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rackwright.drivers import host_facts
from rackwright.drivers.host_facts import Declared, Facts
from rackwright.drivers.ssh_login import (
    ConnectBudget,
    Handshake,
    HostUnreachableError,
    LoginRefusedError,
    Session,
    SshRoute,
    attempt_within,
    fingerprint,
    handshake,
    login,
)

_AT_ONCE: Final = 32
"""Number of machines inspected in parallel, each in a thread. Chosen: threads wait for the network; a jump host limits them more
(`ssh_login._AT_ONCE`)."""


@dataclass(frozen=True)
class PreflightRequest:
    """A machine, and the facts that the stack declares."""

    route: SshRoute
    """Without a host key if the stack declares none."""
    declared: Declared


@dataclass(frozen=True)
class PreflightResult:
    """Result of an inspection, as far as the machine allowed it."""

    name: str
    reached: bool = False
    key_type: str = ""
    fingerprint: str = ""
    key_confirmed: bool | None = None
    """None if the stack has no key to compare with."""
    logged_in: bool = False
    root: bool = False
    facts: Facts | None = None
    problems: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Return whether the stack could use the machine."""
        return self.reached and not self.problems


def run_preflight(
    machines: Sequence[PreflightRequest], keys: list[Path], *, via: SshRoute | None, adopted: bool, budget: ConnectBudget | None = None
) -> list[PreflightResult]:
    """Inspect the machines and return results in their order; those behind `via` share one login there.

    `budget`: time for further attempts at each machine after a time-out; None for a single attempt.
    """
    budget = budget or ConnectBudget()
    with ExitStack() as stack:
        jump, reason = _jump_session(via, keys, stack, budget) if via is not None else (None, "")

        def one(request: PreflightRequest) -> PreflightResult:
            through = via is not None and request.route.name != via.name
            if through and jump is None:
                return PreflightResult(
                    request.route.name, problems=(f"is reached through {via.name if via else ''}, which is not accessible: {reason}",)
                )
            return _inspect(request, keys, jump if through else None, budget, adopted=adopted)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(one, machines))


def _jump_session(via: SshRoute, keys: list[Path], stack: ExitStack, budget: ConnectBudget) -> tuple[Session | None, str]:
    """Return a session on the jump host, or why there is none."""
    try:
        if via.host_key:
            return stack.enter_context(login(via, keys, budget=budget)), ""
        return attempt_within(budget, lambda limit: stack.enter_context(handshake(via, limit=limit)).enter(keys)), ""
    except (HostUnreachableError, LoginRefusedError) as error:
        return None, error.cause


def _inspect(request: PreflightRequest, keys: list[Path], jump: Session | None, budget: ConnectBudget, *, adopted: bool) -> PreflightResult:
    route = request.route

    def attempt(limit: float) -> PreflightResult:
        with handshake(route, jump, limit) as met:
            result = _before_login(met)
            return result if result.key_confirmed is False else _after_login(result, met, keys, request.declared, adopted=adopted)

    try:
        return attempt_within(budget, attempt)
    except HostUnreachableError as error:
        return PreflightResult(route.name, problems=(_short(error, route),))


def _before_login(met: Handshake) -> PreflightResult:
    """Return the result before a login: the host key and its comparison."""
    result = PreflightResult(met.route.name, reached=True, key_type=met.key.get_name(), fingerprint=fingerprint(met.key))
    if not met.route.host_key:
        return replace(result, problems=("has no host_key in the stack file",))
    try:
        met.check_key()
    except LoginRefusedError as error:
        return replace(result, key_confirmed=False, problems=(_short(error, met.route),))
    return replace(result, key_confirmed=True)


def _after_login(result: PreflightResult, met: Handshake, keys: list[Path], declared: Declared, *, adopted: bool) -> PreflightResult:
    """Return the facts after a login; the error that ends the inspection is the last mismatch."""
    try:
        session = met.enter(keys)
        result = replace(result, logged_in=True)
        host_facts.require_root(session)
        result = replace(result, root=True)
        found = host_facts.facts(session)
    except LoginRefusedError as error:
        return replace(result, problems=(*result.problems, _short(error, met.route)))
    except HostUnreachableError as error:
        return replace(result, reached=False, problems=(*result.problems, _short(error, met.route)))
    return replace(result, facts=found, problems=(*result.problems, *host_facts.mismatches(found, declared, adopted=adopted)))


def _short(error: HostUnreachableError | LoginRefusedError, route: SshRoute) -> str:
    """Return the cause without the machine's name, which the caller prints in front of it."""
    return error.cause.removeprefix(f"{route}: ")
