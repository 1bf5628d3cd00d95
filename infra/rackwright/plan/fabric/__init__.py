"""The fabric of a plan: measures, switches, cables, and the texts that others read of it. Pure.

What draws and lists it is imported from its own module, so that a plan costs no more for it.
"""

from rackwright.plan.fabric.netlist import description, netlist
from rackwright.plan.fabric.schema import FabricPlan
from rackwright.plan.fabric.wiring import Cable, Level, NodePlacement, Switch, Wiring, wire_placements, wiring

__all__ = ["Cable", "FabricPlan", "Level", "NodePlacement", "Switch", "Wiring", "description", "netlist", "wire_placements", "wiring"]
