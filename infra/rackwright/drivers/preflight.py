"""Parallel inspection of many machines before they belong to a stack. Changes nothing on any of them.

A machine whose host key is not confirmed is inspected in the same way: a login by key reveals no secret. Its facts are not trusted.
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
from rackwright.drivers.ssh_client import (
    Handshake,
    HostUnreachableError,
    LoginRefusedError,
    Session,
    SshRoute,
    fingerprint,
    handshake,
    login,
)

_AT_ONCE: Final = 32
"""Machines scanned at a time, each in a thread. Chosen: threads wait for the network; a jump host limits them more (`remote._AT_ONCE`)."""


@dataclass(frozen=True)
class PreflightRequest:
    """A machine, and the facts that the stack declares."""

    way: SshRoute
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
    wrong: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Return whether the stack could use the machine."""
        return self.reached and not self.wrong


def run_preflight(machines: Sequence[PreflightRequest], keys: list[Path], *, via: SshRoute | None, adopted: bool) -> list[PreflightResult]:
    """Inspect the machines and return results in their order; those behind `via` share one login there."""
    with ExitStack() as stack:
        door, shut = _jump_session(via, keys, stack) if via is not None else (None, "")

        def one(asked: PreflightRequest) -> PreflightResult:
            through = via is not None and asked.way.name != via.name
            if through and door is None:
                return PreflightResult(
                    asked.way.name, wrong=(f"is reached through {via.name if via else ''}, and there is no way in: {shut}",)
                )
            return _look(asked, keys, door if through else None, adopted=adopted)

        with ThreadPoolExecutor(_AT_ONCE) as crowd:
            return list(crowd.map(one, machines))


def _jump_session(via: SshRoute, keys: list[Path], stack: ExitStack) -> tuple[Session | None, str]:
    """Return a session on the jump host, or why there is none."""
    try:
        if via.host_key:
            return stack.enter_context(login(via, keys)), ""
        return stack.enter_context(handshake(via)).enter(keys), ""
    except (HostUnreachableError, LoginRefusedError) as error:
        return None, error.cause


def _look(asked: PreflightRequest, keys: list[Path], door: Session | None, *, adopted: bool) -> PreflightResult:
    way = asked.way
    try:
        with handshake(way, door) as met:
            seen = _greeted(met)
            return seen if seen.key_confirmed is False else _questioned(seen, met, keys, asked.declared, adopted=adopted)
    except HostUnreachableError as error:
        return PreflightResult(way.name, wrong=(_short(error, way),))


def _greeted(met: Handshake) -> PreflightResult:
    """Return the result before a login: the host key and its comparison."""
    seen = PreflightResult(met.way.name, reached=True, key_type=met.key.get_name(), fingerprint=fingerprint(met.key))
    if not met.way.host_key:
        return replace(seen, wrong=("no host_key is given for it",))
    try:
        met.check_key()
    except LoginRefusedError as error:
        return replace(seen, key_confirmed=False, wrong=(_short(error, met.way),))
    return replace(seen, key_confirmed=True)


def _questioned(seen: PreflightResult, met: Handshake, keys: list[Path], declared: Declared, *, adopted: bool) -> PreflightResult:
    """Return the facts after a login; the error that ends the inspection is the last mismatch."""
    try:
        session = met.enter(keys)
        seen = replace(seen, logged_in=True)
        host_facts.require_root(session)
        seen = replace(seen, root=True)
        found = host_facts.facts(session)
    except LoginRefusedError as error:
        return replace(seen, wrong=(*seen.wrong, _short(error, met.way)))
    except HostUnreachableError as error:
        return replace(seen, reached=False, wrong=(*seen.wrong, _short(error, met.way)))
    return replace(seen, facts=found, wrong=(*seen.wrong, *host_facts.mismatches(found, declared, adopted=adopted)))


def _short(error: HostUnreachableError | LoginRefusedError, way: SshRoute) -> str:
    """Return the cause without the machine's name, which the caller prints in front of it."""
    return error.cause.removeprefix(f"{way}: ")
