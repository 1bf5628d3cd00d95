"""Power saving in the lab: the process that fulfils Slurm's requests."""

from __future__ import annotations

import pulumi

from rackwright import layout
from rackwright.plan import Plan
from rackwright.targets import digests, resources


def power(plan: Plan, made: dict[str, resources.Node]) -> resources.PowerManager | None:
    """Create the power agent, where the stack saves power and has a node that may be suspended."""
    saving, controllers = plan.scheduler.power_saving, plan.scheduler.controllers
    if saving is None or not saving.nodes or not controllers:
        return None
    agent = digests.power_agent(layout.product_root())
    return resources.PowerManager("power", stack=plan.stack, controller=made[controllers[0]].id, nodes=saving.nodes, agent=agent)


def depends_on_value(power: resources.PowerManager, value: str) -> pulumi.Output[str]:
    """Return a known value that depends on the running agent: a consumer of the nodes may have to resume them."""

    async def known(it: str) -> str:
        return it

    async def yes() -> bool:
        return True

    return pulumi.Output({power}, known(value), yes())
