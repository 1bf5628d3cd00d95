"""Output of `rackwright plan`: tables of nodes, storage and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rackwright.cli.render.table import counted, table
from rackwright.model.hostlists import compressed
from rackwright.model.units import format_seconds
from rackwright.plan import Plan, PlanNode
from rackwright.plan.fabric import FabricPlan, wiring
from rackwright.plan.kubernetes.schema import Kubernetes
from rackwright.plan.slurm.schema import Slurm


def text(plan: Plan) -> str:
    """Return a headline, the tables of nodes and storage, the queues or the Kubernetes settings, and the size of the fabric."""
    return "\n\n".join(_sections(plan))


def _sections(plan: Plan) -> Iterator[str]:
    yield _headline(plan)
    yield table(["node", "address", "roles", "cpus", "memory", "gpus", "rack", "state"], [_row(node) for node in plan.nodes])
    if plan.storage:
        yield _storage(plan)
    if plan.scheduler.kind != "slurm":
        yield _kubernetes(plan.scheduler)
    elif plan.scheduler.partitions:
        yield _partitions(plan.scheduler)
    if plan.fabric is not None:
        yield _fabric(plan, plan.fabric)


def _storage(plan: Plan) -> str:
    everybody = plan.groups["nodes"]
    rows = []
    for one in plan.storage:
        servers = compressed(one.servers) if one.servers else one.existing.source if one.existing else None
        rows.append([one.name, one.kind, one.mount, servers, _most(one.clients, everybody)])
    return table(["storage", "kind", "mount", "servers", "clients"], rows)


def _partitions(slurm: Slurm) -> str:
    return table(
        ["partition", "nodes", "default", "max time"],
        [
            [p.name, compressed(p.nodes), "yes" if p.default else None, format_seconds(p.max_time) if p.max_time else None]
            for p in slurm.partitions
        ],
    )


def _kubernetes(kubernetes: Kubernetes) -> str:
    """Return the kubeadm settings and the quotas of the namespaces."""
    source = "the bundle" if kubernetes.bundled else "the vendor's packages"
    line = f"kubernetes {kubernetes.version} from {source}, API at {kubernetes.endpoint}, pods {kubernetes.pods} by {kubernetes.cni.value}"
    if not kubernetes.namespaces:
        return line
    heads = ["namespace", "users", "gpus", "cpus", "pods", "pod security"]
    return f"{line}\n\n" + table(heads, [[n.name, n.users, n.gpus, n.cpus, n.pods, n.pod_security.value] for n in kubernetes.namespaces])


def _fabric(plan: Plan, fabric: FabricPlan) -> str:
    laid = wiring(plan)
    what = f"{fabric.kind} {fabric.rate}, {fabric.topology}, {fabric.rails} rails"
    return f"fabric: {what}, {len(laid.switches)} switches, {len(laid.cables)} cables; details: `rackwright fabric plan {plan.stack}`"


def _headline(plan: Plan) -> str:
    gpus = sum(node.gpus.count for node in plan.nodes if node.gpus and node.is_in)
    nodes = counted(len(plan.nodes), "node")
    taking_part = f"{len(plan.groups['nodes'])} of {nodes} in" if plan.groups["out"] else nodes
    taking_part += f", {counted(gpus, 'GPU')}"
    simulated = f"; simulated: {', '.join(plan.simulated)}" if plan.simulated else ""
    first = f"stack {plan.stack} on {plan.target.kind}: {taking_part}, level {plan.level}, {plan.network.cidr}{simulated}"
    return f"{first}\naccess: {_way_in(plan)}"


def _way_in(plan: Plan) -> str:
    if plan.access.ports:
        return ", ".join(f"{name} on {plan.access.listen}:{plan.access.ports[name]}" for name in plan.access.jump_hosts)
    return ", ".join(plan.access.jump_hosts) or "each machine directly"


def _row(node: PlanNode) -> list[object]:
    gpus = ", ".join(f"{count} x {model}" for model, count in Counter(node.gpus.models).items()) if node.gpus else None
    state = f"out: {node.reason}" if not node.is_in else "in"
    return [node.name, node.address, node.roles, node.cpus, f"{node.memory_mib} MiB", gpus, node.rack, state]


def _most(names: tuple[str, ...], everybody: tuple[str, ...]) -> str:
    return "all nodes" if set(names) == set(everybody) else compressed(names)
