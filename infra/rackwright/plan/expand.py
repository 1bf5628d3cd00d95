"""cluster -> plan. Pure and deterministic: no clock, no network, no file."""

from __future__ import annotations

from rackwright.derive.cost import cost
from rackwright.derive.layout import login_ports
from rackwright.derive.nodes import members
from rackwright.model.cluster import Cluster
from rackwright.model.groups import Role
from rackwright.plan.fabric.expand import expand_fabric
from rackwright.plan.groups import expand_groups
from rackwright.plan.monitoring.expand import expand_monitoring
from rackwright.plan.node_features import expand_node_stack, nodes_by_feature
from rackwright.plan.nodes import expand_nodes
from rackwright.plan.scheduler import expand_scheduler, with_role
from rackwright.plan.schema import Access, Network, Plan, PlanNode, Rolling, User, UserGroup
from rackwright.plan.software import expand_software
from rackwright.plan.storage import expand_storage, expand_volumes


def expand(cluster: Cluster, stack: str) -> Plan:
    """Return the plan of a cluster without rule errors."""
    domain = cluster.network.domain or f"{stack}.internal"
    fabric, declared, node_stack = expand_fabric(cluster), members(cluster), expand_node_stack(cluster)
    nodes = expand_nodes(cluster, stack, domain, declared, nodes_by_feature(cluster, node_stack, declared), fabric)
    storage = expand_storage(cluster, nodes)
    return Plan(
        stack=stack,
        target=cluster.target,
        simulated=cluster.target.simulated,
        level=cluster.verify_level,
        refresh=cluster.refresh_scope,
        rolling=Rolling(batch=cluster.rolling.max_unavailable),
        domain=domain,
        time_zone=cluster.time_zone,
        network=Network(cidr=str(cluster.network.cidr), gateway=_gateway(cluster)),
        access=_access(cluster, nodes),
        nodes=nodes,
        groups=expand_groups(cluster, nodes, storage),
        users=_users(cluster),
        user_groups=tuple(UserGroup(name=name, gid=group.gid) for name, group in cluster.user_groups.items()),
        storage=storage,
        scheduler=expand_scheduler(cluster, stack, nodes, fabric, storage),
        volumes=expand_volumes(cluster, nodes),
        node_stack=node_stack,
        software=expand_software(cluster, declared),
        fabric=fabric,
        monitoring=expand_monitoring(cluster, nodes, storage, fabric),
        cost=cost(cluster),
        budget=cluster.budget,
        allow_local_state=cluster.allow_local_state,
    )


def _access(cluster: Cluster, nodes: tuple[PlanNode, ...]) -> Access:
    target = cluster.target
    through = (
        [node.name for node in with_role(nodes, Role.LOGIN)] if target.owns_network else [target.jump_host] if target.jump_host else []
    )
    return Access(
        jump_hosts=tuple(through),
        port=cluster.access.port,
        listen=str(cluster.access.bind_address),
        allow=tuple(str(network) for network in cluster.access.allowed_cidrs),
        ports=login_ports(cluster),
    )


def _gateway(cluster: Cluster) -> str | None:
    return str(cluster.network.cidr.network_address + 1) if cluster.target.has_gateway else None


def _users(cluster: Cluster) -> tuple[User, ...]:
    return tuple(
        User(
            name=name,
            uid=user.uid,
            gid=user.uid,
            groups=user.groups,
            shell=user.shell,
            admin=user.admin,
            ssh_keys=tuple(key.strip() for key in user.ssh_keys),
        )
        for name, user in cluster.users.items()
    )
