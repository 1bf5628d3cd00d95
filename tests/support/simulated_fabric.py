"""A planned fabric, simulated by ibsim and OpenSM in one container, and the output of ibnetdiscover for it."""

from __future__ import annotations

from support.machines import podman

from rackwright.drivers.podman import limits
from rackwright.plan import Plan, expand
from rackwright.stackfile.load import load_cluster

_BRING_UP = """
set -eu
cd /tmp && cat > netlist && mkfifo console
ibsim -r -l 7070 -s -S 512 -N 4096 -P 60000 netlist <> console > ibsim.log 2>&1 &
export IBSIM_SERVER_NAME=127.0.0.1 IBSIM_SERVER_PORT=7070 SIM_HOST="$1" OSM_CACHE_DIR=/tmp OSM_TMP_DIR=/tmp
preload=$(echo /usr/lib/*/umad2sim/libumad2sim.so)
until ss -Huln sport = :7070 | grep -q .; do kill -0 $! || { tail -n 3 ibsim.log >&2; exit 1; }; sleep 0.02; done
LD_PRELOAD=$preload opensm -d2 -f log > /dev/null &
until grep -q 'SUBNET UP' log 2> /dev/null; do kill -0 $! && sleep 0.02; done
shift
for order; do printf '%s\\n' "$order" > console; done
[ $# = 0 ] || sleep 1
LD_PRELOAD=$preload ibnetdiscover -p
"""
"""The container's only listeners and clients use loopback."""


def plan_for(nodes: int) -> Plan:
    """Return the plan of a cluster of 8-GPU nodes with a rail for each GPU. If it fills every switch, only workers have a port."""
    groups = {"login": {"count": 1}, "worker": {"count": nodes, "reserved_addresses": nodes, "gpus": {"model": "h100", "count": 8}}}
    loaded = load_cluster(
        {"target": {"kind": "lab"}, "network": {"cidr": "10.77.0.0/20"}, "groups": groups, "fabric": {"kind": "infiniband"}}
    )
    assert loaded.cluster is not None, loaded.findings
    return expand(loaded.cluster, "simulated")


def discover(image: str, netlist: str, *orders: str, manager: str = "worker0/mlx5_0") -> str:
    """Return the output of ibnetdiscover after the subnet is up and ibsim has run the orders."""
    return podman(
        *("run", "--rm", "--interactive", "--network", "none", "--label", "rackwright.test.fabric=1", *limits()),
        *("--entrypoint", "/usr/bin/timeout", image, "60", "sh", "-c", _BRING_UP, "fabric", manager, *orders),
        stdin=netlist,
    )
