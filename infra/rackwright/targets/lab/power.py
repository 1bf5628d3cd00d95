"""Power saving in the lab: the process that carries out what Slurm asks."""

from __future__ import annotations

import pulumi

from rackwright import layout
from rackwright.plan import Plan
from rackwright.targets import digests, resources


def power(plan: Plan, made: dict[str, resources.Node]) -> resources.PowerManager | None:
    """The power agent, where the stack saves power and has a node that may sleep."""
    saving, controllers = plan.scheduler.power_saving, plan.scheduler.controllers
    if saving is None or not saving.nodes or not controllers:
        return None
    agent = digests.power_agent(layout.product_root())
    return resources.PowerManager("power", stack=plan.stack, controller=made[controllers[0]].id, nodes=saving.nodes, agent=agent)


def depends_on_value(power: resources.PowerManager, value: str) -> pulumi.Output[str]:
    """A known value that is there once the agent runs: whoever needs the nodes may have to wake them."""

    async def known(it: str) -> str:
        return it

    async def yes() -> bool:
        return True

    return pulumi.Output({power}, known(value), yes())
