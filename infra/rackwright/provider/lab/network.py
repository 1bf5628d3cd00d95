"""A lab's network: one bridge that the stack owns."""

from __future__ import annotations

import ipaddress
import json
from typing import ClassVar

from rackwright.drivers.podman import STACK_LABEL, podman, run_checked
from rackwright.errors import RackwrightError
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import CheckFailure, LiveResource, RecordedState, RequestContext, Resource


class Network(Resource):
    """Inputs: stack, name, cidr. Outputs: the same and the gateway's address."""

    token: ClassVar[str] = "rackwright:lab:Network"
    required: ClassVar[tuple[str, ...]] = ("stack", "name", "cidr")
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack", "name", "cidr"})

    def check(self, news: Properties) -> list[CheckFailure]:
        """Return a failure for a CIDR that is not valid."""
        found = super().check(news)
        if news.get("cidr") not in (None, UNKNOWN):
            try:
                ipaddress.IPv4Network(news["cidr"])
            except ValueError as error:
                found.append(CheckFailure("cidr", str(error)))
        return found

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Create the bridge; adopt one of the same name and range from a killed run."""
        subnets = await _subnets(news["name"])
        if subnets is not None and subnets != [news["cidr"]]:
            await run_checked("network", "rm", "--force", news["name"])
            subnets = None
        if subnets is None:
            await _refuse_overlap(news["cidr"])
            await run_checked("network", "create", "--subnet", news["cidr"], "--label", f"{STACK_LABEL}={news['stack']}", news["name"])
        return LiveResource(news["name"], {**news, "gateway": str(ipaddress.IPv4Network(news["cidr"])[1])})

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the range that podman reports."""
        subnets = await _subnets(state.id)
        if subnets is None:
            return None
        return LiveResource(state.id, state.outputs, inputs={**state.inputs, "cidr": subnets[0] if subnets else ""})

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove the bridge, and containers of a killed run on it."""
        ended = await podman("network", "rm", "--force", state.id)
        if not ended.ok and "not found" not in ended.stderr:
            raise RackwrightError(f"podman network rm {state.id}: {ended.stderr.strip()}")


async def _subnets(name: str) -> list[str] | None:
    ended = await podman("network", "inspect", name)
    if not ended.ok:
        return None
    return [str(subnet["subnet"]) for subnet in json.loads(ended.stdout)[0].get("subnets") or []]


async def _refuse_overlap(cidr: str) -> None:
    wanted = ipaddress.IPv4Network(cidr)
    for network in json.loads(await run_checked("network", "ls", "--format", "json") or "[]"):
        for subnet in network.get("subnets") or []:
            taken = ipaddress.ip_network(subnet["subnet"])
            if isinstance(taken, ipaddress.IPv4Network) and taken.overlaps(wanted):
                raise RackwrightError(
                    f"network.cidr: {cidr} overlaps with podman network {network['name']} ({taken})",
                    hint="choose another network.cidr in the stack file, or remove that network",
                )
