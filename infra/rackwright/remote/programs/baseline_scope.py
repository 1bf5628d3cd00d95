"""Run on the node, imported by host_baseline: what is compared, and what programs change at any time.

Python 3.9, standard library only.
"""

from __future__ import annotations

import os
import re

CHANGING = {
    "/etc/ld.so.cache", "/etc/machine-id", "/etc/mtab", "/etc/adjtime", "/etc/.updated", "/etc/.pwd.lock", "/etc/resolv.conf.tmp",
    "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-",
    "/etc/subuid-", "/etc/subgid-",
}  # fmt: skip
"""Files that change by themselves, and files that are read line by line under `accounts` and `groups`."""
OWN_TREES = ("/etc", "/usr/local/lib/rackwright", "/usr/local/libexec/rackwright")
"""Trees of which every directory is compared."""
PLACES = (
    "/", "/boot", "/dev/shm", "/opt", "/root", "/run", "/run/lock", "/srv", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/libexec",
    "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/usr/sbin", "/usr/share", "/var", "/var/cache", "/var/lib",
    "/var/log", "/var/spool", "/var/spool/cron", "/var/spool/cron/crontabs", "/var/tmp", "/var/lib/etcd", "/var/lib/kubelet",
    "/var/lib/mfs", "/var/lib/munge", "/var/lib/mysql", "/var/lib/rackwright", "/var/lib/slurm", "/var/lib/slurm/slurmctld",
    "/var/lib/slurm/slurmd", "/var/log/kubernetes", "/var/log/munge", "/var/log/slurm",
)  # fmt: skip
"""Single directories that are compared: the system's, and those that the roles or their packages create outside of /etc."""
TRANSIENT_UNITS = re.compile(r"^(user@|user-runtime-dir@|session-|run-|systemd-tmpfiles|getty@|serial-getty@|ssh@|sshd@|.*\.scope$)")
"""Units that systemd creates and removes with users, consoles and jobs."""
CONTAINERS = re.compile(
    r"^(/run/user/|/run/credentials|/run/containerd/|/run/netns|/var/lib/kubelet/pods/|/var/lib/containers/|/var/spool/slurmd)"
)
"""Mounts that exist only as long as pods, jobs and logins."""
VOLATILE_MOUNT_OPTIONS = re.compile(r"(^|,)(size|nr_inodes|inode64|index|lowerdir|upperdir|workdir|fd|pgrp|timeout|pipe_ino)(=[^,]*)?")
"""Mount options that do not affect how a mount is used."""
SETTINGS = (
    "fs.protected_hardlinks", "fs.protected_symlinks", "fs.suid_dumpable", "kernel.core_pattern", "kernel.dmesg_restrict",
    "kernel.kptr_restrict", "kernel.modules_disabled", "kernel.numa_balancing", "kernel.perf_event_paranoid",
    "kernel.randomize_va_space", "kernel.sysrq", "kernel.unprivileged_bpf_disabled", "kernel.yama.ptrace_scope",
    "net.core.default_qdisc", "net.core.rmem_max", "net.core.somaxconn", "net.core.wmem_max", "net.ipv4.conf.all.accept_redirects",
    "net.ipv4.conf.all.accept_source_route", "net.ipv4.conf.all.rp_filter", "net.ipv4.ip_forward", "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.neigh.default.gc_thresh3", "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem", "net.ipv6.conf.all.accept_ra",
    "net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.all.forwarding", "vm.overcommit_memory", "vm.swappiness", "vm.zone_reclaim_mode",
)  # fmt: skip
"""Settings of permissions, network speed and memory; none that the kernel changes by itself."""
JUDGED_TABLES = frozenset(
    ["inet rackwright", "inet f2b-table", "inet firewalld", "inet netavark", "inet calico", "inet flannel-ipv4", "inet flannel-ipv6"]
    + [family + name for family in ("ip ", "ip6 ") for name in ("kube-proxy", "libvirt_network", "calico", "flannel-ipv4", "flannel-ipv6")]
)
"""The table that a check compares with its file, and tables that programs change at any time: fail2ban, firewalld, netavark, Calico,
flannel, kube-proxy in nftables mode, libvirt."""
PROGRAM_CHAINS = ("DOCKER", "KUBE-", "CNI-", "cali-", "CILIUM_", "FLANNEL-", "NETAVARK", "LIBVIRT_", "f2b-")
"""Prefixes of the chains that such programs change in the tables of iptables."""
LEVEL = re.compile(r"/etc/rc[0-6S]\.d/[SK]\d\d(.+)")
"""Links that start a script of init.d at a runlevel: init.d(7), update-rc.d(8)."""
NATIVE = ("/etc/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/")
"""Directories of units that systemd prefers to such a script: systemd-sysv-generator(8)."""
LEARNED = ("ra", "redirect", "babel", "bgp", "bird", "eigrp", "isis", "ospf", "openr", "rip", "zebra")
"""Protocols of routes that daemons, and the kernel from router advertisements, add and remove: ip-route(8), /etc/iproute2/rt_protos."""
DYNAMIC = re.compile(r"^(veth|cni|cali|lxc|flannel|tunl|docker|podman|kube-)")
"""Links that belong to pods."""
NETWORKS_OF_PROGRAMS = re.compile(
    r"^(veth|cni|cali|vxlan\.calico|wireguard\.cali|lxc|cilium|flannel|tunl|docker|podman|kube-|weave|ovn-|ovs-|antrea|genev_sys|azv"
    r"|eni[0-9a-f]{11}\b|gke[0-9a-f]|nodelocaldns|br-[0-9a-f]{12}\b|virbr|vnet|nerdctl)"
)
"""Links whose addresses programs assign: CNI plugins (bridge, Calico, Cilium, flannel, Weave, OVN, Antrea, those of AWS, Azure and Google),
NodeLocal DNSCache, Docker, podman, nerdctl and libvirt."""
SLURM_CONF = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")
"""Files without which sacctmgr does not run. A node that has the database alone may have none: roles/slurmdbd."""


def has_no_effect(path: str) -> bool:
    """Return whether a link of a runlevel has no effect: if a unit of that name exists, systemd uses the unit."""
    level = LEVEL.fullmatch(path)
    return level is not None and any(os.path.lexists(top + level.group(1) + ".service") for top in NATIVE)
