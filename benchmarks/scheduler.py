"""Part of `make bench-scale`: Slurm with a slurm.conf of rackwright's for hundreds of nodes, each a slurmd of its own, in one container.

usage: python benchmarks/scheduler.py [--nodes N] [--write]      --write puts the table into docs/performance.md

Daemons are the distribution's own (Debian 13; its slurmd may be started under any node's name, and its package slurm-wlm-emulator does
not start: it lacks a symbol). Nodes have the plan's addresses, on the container's loopback. What differs from the files on a real
cluster is what sharing a container asks for: `_GIVEN`, and a port for each node. No hardware is behind the nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from slurm_files import handed_over, rendered  # noqa: E402
from support.machines import podman  # noqa: E402

from rackwright.drivers import base_image  # noqa: E402
from rackwright.drivers.podman import limits  # noqa: E402

_PAGE: Final = HERE.parent / "docs" / "performance.md"
_MARKS: Final = ("<!-- scheduler -->", "<!-- /scheduler -->")
_NAME: Final = "rackwright-bench-scheduler"
_PATIENCE: Final = 600.0
"""Seconds until every node must be idle."""
_GIVEN: Final = {
    "slurm_controller_parameters": {
        "SlurmdParameters": "config_overrides",
        "SlurmdSpoolDir": "/var/lib/slurm/slurmd/%n",
        "SlurmdPidFile": "/run/slurmd/%n.pid",
        "SlurmdLogFile": "/var/log/slurmd/%n.log",
        "SlurmctldLogFile": "/var/log/slurmd/slurmctld.log",
    }
}
"""Variables of the role besides the plan: nodes report the planned hardware, and every node has a spool folder and a log of its own."""
_FILES: Final = ("slurm.conf", "gres.conf", "cgroup.conf")
_FIRST_PORT: Final = 17000
_PACKAGES: Final = ("slurmctld", "slurmd", "slurm-client", "munge")
_PREPARE: Final = """
set -e
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
apt-get -qq update && apt-get -qq install -y --no-install-recommends {packages} >/dev/null
for gpu in $(seq 0 7); do mknod /dev/nvidia$gpu c 61 $gpu; done
install -d -o slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /run/slurmd /var/log/slurmd
"""
_START: Final = """
set -e
ip -batch /etc/slurm/addresses
while read -r name; do mkdir -p /var/lib/slurm/slurmd/$name; done < /etc/slurm/nodes
install -d -o munge -g munge /run/munge
runuser -u munge -- munged
slurmctld
for _ in $(seq 600); do if scontrol ping | grep -q UP; then exit 0; fi; sleep 0.1; done
exit 1
"""
_UNBOUND: Final = ("--pids-limit", "-1")
"""Podman's own limit is 2,048 tasks: with 1,000 slurmd slurmctld cannot start a thread."""
_REAPER: Final = "while sleep 1; do :; done"
"""The container's first process: the shell takes back the daemons' parents."""
_JOIN: Final = "xargs -P 4 -n 1 slurmd -N < /etc/slurm/nodes"


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    asked = parser.parse_args()
    table = measure(asked.nodes)
    print(table)
    if asked.write:
        head, rest = _PAGE.read_text().split(_MARKS[0])
        _PAGE.write_text(f"{head}{_MARKS[0]}\n\n{machine()}\n\n{table}\n\n{_MARKS[1]}{rest.split(_MARKS[1])[1]}")
    return 0


def described(size: int) -> dict[str, Any]:
    """A controller and so many workers of eight H100 on a fabric of one rail, as machines that are containers."""
    keys = {name: {"host_key": f"SHA256:{name + '/':0<43}"} for name in ("controller0", *(f"worker{index}" for index in range(size)))}
    machines = {**keys, "controller0": {**keys["controller0"], "address": "10.30.0.21"}, f"worker[0-{size - 1}]": {"address": "10.30.1.1"}}
    return {
        "target": {"kind": "hosts", "os": "debian-13", "user": "admin", "machine_type": "system-container", "machines": machines},
        "network": {"cidr": "10.30.0.0/16"},
        "groups": {
            "controller": {"count": 1, "roles": ["login", "controller"], "cpus": 16, "memory": "64GiB"},
            "worker": {"count": size, "reserved_addresses": size, "cpus": 128, "memory": "1600GiB", "gpus": {"model": "h100", "count": 8}},
        },
        "fabric": {"kind": "infiniband", "rails": 1, "max_nodes": size},
    }


def measure(size: int) -> str:
    """All rows as a table."""
    started = time.monotonic()
    inventory = handed_over(described(size), "scale")
    written = {name: rendered(f"etc/slurm/{name}", inventory, "controller0", **_GIVEN) for name in files(inventory)}
    written["slurm.conf"] = with_ports(written["slurm.conf"])
    texts = time.monotonic() - started
    with container() as name:
        prepare(name, inventory, written)
        up = clocked(name, _START)
        joining = time.monotonic()
        inside(name, _JOIN)
        joined = time.monotonic() - joining
        wait_for_idle(name, size)
        assert int(inside(name, "pgrep -cx slurmd")) == size, "a node is answered for by another's slurmd"
        idle = time.monotonic() - joining
        switches = inside(name, "scontrol show topology").count("SwitchName=")
        assert switches == written.get("topology.conf", "").count("SwitchName="), switches
        rows = [
            ("description to slurm.conf, gres.conf and topology.conf", f"{texts:.1f} s"),
            ("slurmctld answers with that slurm.conf", f"{up:.1f} s"),
            (f"{size:,} slurmd started, four at a time", f"{joined:.1f} s"),
            ("from the first slurmd to all idle", f"{idle:.1f} s"),
            ("switches of topology.conf that Slurm knows", f"{switches}"),
            ("`sinfo` over all nodes", f"{clocked(name, 'sinfo -N >/dev/null'):.2f} s"),
            (f"a job over all {size:,} nodes, 8 GPUs each, is placed", f"{clocked(name, place_all(size)):.1f} s"),
            ("memory of slurmctld", f"{memory(name, 'slurmctld'):.0f} MiB"),
            (f"memory of {size:,} slurmd together", f"{memory(name, 'slurmd'):,.0f} MiB"),
            ("`scontrol reconfigure`, and all idle again", f"{reconfigured(name, size):.1f} s"),
        ]
    return "\n".join(["| what | measured |", "|---|---|", *(f"| {what} | {figure} |" for what, figure in rows)])


def files(inventory: dict[str, Any]) -> tuple[str, ...]:
    """The files of the controller's role; a fabric of one leaf needs no topology."""
    return (*_FILES, *(("topology.conf",) if inventory["all"]["vars"]["cluster"]["scheduler"]["topology"] else ()))


def with_ports(text: str) -> str:
    """The file with a port for each node: in one container they cannot all have the same."""
    ports = count(_FIRST_PORT)
    lines = (f"{line} Port={next(ports)}" if line.startswith("NodeName=") else line for line in text.splitlines())
    return "\n".join(lines) + "\n"


@contextmanager
def container() -> Iterator[str]:
    """A container of the lab's base image, gone afterwards."""

    async def say(text: str) -> None:
        print(text, file=sys.stderr)

    image = asyncio.run(base_image.ensure("debian-13", "auto", None, say))
    rights = ("--cap-add", "NET_ADMIN,MKNOD,SYS_PTRACE,SYS_RESOURCE")
    podman(
        "run",
        "--detach",
        "--name",
        _NAME,
        "--hostname",
        "controller0",
        "--label",
        f"{_NAME}=1",
        *rights,
        *_UNBOUND,
        *limits(),
        image,
        "bash",
        "-c",
        _REAPER,
    )
    try:
        yield _NAME
    finally:
        podman("rm", "--force", "--time", "0", _NAME)


def prepare(name: str, inventory: dict[str, Any], written: dict[str, str]) -> None:
    """Packages, names as role base gives them to every node (without them slurmctld waits for DNS), and the daemons' files."""
    inside(name, _PREPARE.format(packages=" ".join(_PACKAGES)))
    hosts = inventory["all"]["vars"]["cluster"]["hosts"]
    addresses = "".join(f"address add {host['address']}/32 dev lo\n" for host in hosts)
    workers = "".join(f"{node['name']}\n" for node in inventory["all"]["vars"]["cluster"]["scheduler"]["nodes"])
    names = "".join(f"{host['address']} {host['name']}\n" for host in hosts)
    podman("exec", "--interactive", name, "sh", "-c", "cat >> /etc/hosts", stdin=names)
    for file, text in {**written, "addresses": addresses, "nodes": workers}.items():
        podman("exec", "--interactive", name, "sh", "-c", f"cat > /etc/slurm/{file}", stdin=text)


def inside(name: str, script: str) -> str:
    """Run a script in the container to its good end; what it printed."""
    command = ["podman", "exec", "--interactive", name, "bash", "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    assert ended.returncode == 0, f"{script.strip().splitlines()[-1]}: {ended.stderr or ended.stdout}"
    return ended.stdout


def clocked(name: str, script: str) -> float:
    """Seconds a script takes there."""
    started = time.monotonic()
    inside(name, script)
    return time.monotonic() - started


def wait_for_idle(name: str, size: int) -> None:
    """Return when Slurm counts every node idle; raise where some do not come."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        states = inside(name, "sinfo -N -h -o '%T' || tail -3 /var/log/slurmd/slurmctld.log >&2; pgrep slurmctld >/dev/null").split()
        if states.count("idle") == size:
            return
        time.sleep(0.5)
    raise AssertionError(f"not idle after {_PATIENCE:.0f} s: {inside(name, 'sinfo -R; sinfo; tail -3 /var/log/slurmd/slurmctld.log')}")


def reconfigured(name: str, size: int) -> float:
    """Seconds until every node has read the file again."""
    started = time.monotonic()
    inside(name, "scontrol reconfigure")
    wait_for_idle(name, size)
    return time.monotonic() - started


def place_all(size: int) -> str:
    """Ask when a job over all nodes would start: now, and on as many nodes as there are."""
    return f"srun --test-only -N {size} --gres=gpu:8 true 2>&1 | grep -q 'using .* processors on nodes worker'"


def memory(name: str, daemon: str) -> float:
    """MiB of all processes of a daemon; pages they share are counted once (PSS, /proc/PID/smaps_rollup)."""
    of_one = "sed -n 's/^Pss: *\\([0-9]*\\) kB/\\1/p' $p/smaps_rollup"
    script = f'for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = {daemon} ]; then {of_one}; fi; done 2>/dev/null; true'
    return sum(map(int, inside(name, script).split())) / 1024


def machine() -> str:
    """What it was measured on, and how many processes wanted a core meanwhile."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"Measured on {date.today()} with `make bench-scale` (`benchmarks/scheduler.py`): {os.cpu_count()} cores, {total:.0f} GiB, "
        f"kernel {platform.release().split('-')[0]}, load {os.getloadavg()[2]:.0f}. Emulated nodes register, answer and "
        "accept jobs; they have no hardware."
    )


if __name__ == "__main__":
    sys.exit(main())
