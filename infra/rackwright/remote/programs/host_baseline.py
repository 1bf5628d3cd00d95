"""Run on the node, as root: read its state by kind.

Input: {}. Output: one JSON object {kind: {name: value}}; what could not be read is listed under `error`, and a name or kind of which a
part could not be read holds the mark UNREAD. Nothing is changed, and no value holds a secret: passwords are reduced to whether one is
set, files to a digest. Python 3.9, standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import stat
import struct
import subprocess
from typing import Any

from rackwright.remote.programs.baseline_scope import (
    CHANGING,
    CONTAINERS,
    DYNAMIC,
    JUDGED_TABLES,
    LEARNED,
    NETWORKS_OF_PROGRAMS,
    OWN_TREES,
    PLACES,
    PROGRAM_CHAINS,
    SETTINGS,
    SLURM_CONF,
    TRANSIENT_UNITS,
    VOLATILE_MOUNT_OPTIONS,
    has_no_effect,
)
from rackwright.remote.programs.commands import slowness
from rackwright.remote.programs.daemon_states import suspended
from rackwright.remote.programs.host_addresses import read_addresses
from rackwright.remote.programs.limited_reader import read_within
from rackwright.remote.programs.slurm_entries import QUERIES, read_administrators, read_entries
from rackwright.remote.programs.unread_lines import UNREAD

HOMES = "/home"
"""Directory of the users' homes, often a file system of a server."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Largest file under /etc, in bytes, whose contents are compared; of a larger file only the size is."""
UID_MIN = 1000
"""First user id of people and jobs: sockets of these users are work, not state. login.defs(5), UID_MIN."""
DROPPED = re.compile(r'^[^"]*("[^"]*"[^"]*)*\b(drop|reject)\b|xt target "REJECT"')
"""Statements that drop a packet, outside of quoted text, and the target that iptables-nft prints: nft(8), VERDICT STATEMENT."""
PROTOCOLS = (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07"))
"""Tables of /proc/net with the state of a listening socket: proc(5), include/net/tcp_states.h."""


def lines(path: str) -> list[str]:
    """Return a file's lines."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def run(*command: str, strict: bool = False) -> str:
    """Return what a command prints; nothing if there is no such command. `strict`: raise RuntimeError if the command fails."""
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=15)
    except FileNotFoundError:
        return ""
    if strict and done.returncode:
        raise RuntimeError(" ".join(command) + ": " + done.stderr.decode("utf-8", "replace").strip()[:200])
    return done.stdout.decode("utf-8", "replace")


def digest(path: str) -> str:
    """Return a file's kind, mode, owner, and a digest of its contents."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return "-> " + os.readlink(path)
    text = format(stat.S_IMODE(found.st_mode), "04o") + " " + str(found.st_uid) + ":" + str(found.st_gid)
    if not stat.S_ISREG(found.st_mode):
        return text
    if found.st_size > MAX_FILE_BYTES:
        return text + " " + str(found.st_size) + " bytes"
    with open(path, "rb") as file:
        return text + " " + hashlib.sha256(file.read()).hexdigest()[:16]


def put(found: dict[str, str], path: str) -> None:
    """Add a file's digest, if the file still exists."""
    with contextlib.suppress(FileNotFoundError):
        found[path] = digest(path)


def accounts() -> dict[str, str]:
    """Return the accounts, and whether a password opens each: shadow(5)."""
    shadow = {line.split(":")[0]: line.split(":")[1] for line in lines("/etc/shadow") if line.count(":") > 1}
    found: dict[str, str] = {}
    for line in lines("/etc/passwd"):
        fields = line.split(":")
        if len(fields) == 7:
            kept = shadow.get(fields[0], "!" if fields[1] == "x" else fields[1])  # passwd(5): `x` refers to shadow
            entry = "without a password" if kept == "" else "locked" if kept[0] in "!*" else "with a password"
            found[fields[0]] = " ".join([fields[2] + ":" + fields[3], fields[5], fields[6], entry])
    return found


def groups() -> dict[str, str]:
    """Return the groups that have members: group(5)."""
    found = [line.split(":") for line in lines("/etc/group") if line.count(":") == 3]
    return {name: gid + " " + ",".join(sorted(filter(None, members.split(",")))) for name, _, gid, members in found}


def keys() -> dict[str, str]:
    """Return the keys that open an account, by digest: sshd(8), AUTHORIZED_KEYS FILE FORMAT."""
    found: dict[str, str] = {}
    for line in lines("/etc/passwd"):
        fields = line.split(":")
        path = os.path.join(fields[5], ".ssh", "authorized_keys") if len(fields) == 7 else ""
        if path and os.path.isfile(path):
            for key in lines(path):
                words = key.split()
                blob = next((word for word in words if word.startswith("AAAA")), "")
                if blob and not key.startswith("#"):
                    options = "with options" if not words[0].startswith(("ssh-", "ecdsa-", "sk-")) else ""
                    found[fields[0] + " " + hashlib.sha256(blob.encode()).hexdigest()[:16]] = " ".join([path, options]).strip()
    return found


def etc() -> dict[str, str]:
    """Return the files under /etc that configure something."""
    found: dict[str, str] = {}
    for folder, inner, names in os.walk("/etc"):
        for name in names + [one for one in inner if os.path.islink(os.path.join(folder, one))]:
            path = os.path.join(folder, name)
            if path not in CHANGING and not has_no_effect(path):
                put(found, path)
    return found


def directories() -> dict[str, str]:
    """Return owner and mode of directories, of the system and of the roles. /home is left out if it is a mount, which may hang."""
    found: dict[str, str] = {}
    for top in PLACES if HOMES in mounts() else (*PLACES, HOMES):
        put(found, top)
    for top in OWN_TREES:
        for folder, _, _ in os.walk(top):
            put(found, folder)
    return found


def cron() -> dict[str, str]:
    """Return the tables of cron outside /etc."""
    found: dict[str, str] = {}
    for folder, _, names in os.walk("/var/spool/cron"):
        for name in names:
            put(found, os.path.join(folder, name))
    return found


def setuid() -> dict[str, str]:
    """Return the programs that run as another user than their caller."""
    found: dict[str, str] = {}
    for top in ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec", "/usr/local"):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    mode = os.lstat(path).st_mode
                except FileNotFoundError:  # a package is being installed
                    continue
                if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                    put(found, path)
    return found


def packages() -> dict[str, str]:
    """Return the installed packages with their versions."""
    if os.path.exists("/var/lib/dpkg/status"):
        listed = run("dpkg-query", "--show", "--showformat=${Package}:${Architecture} ${Version} ${db:Status-Abbrev}\n")
        rows = [line.split() for line in listed.splitlines()]
        return {row[0]: row[1] for row in rows if len(row) == 3 and row[2][1:2] == "i"}  # `hi` of a package on hold, too: dpkg-query(1)
    found: dict[str, list[str]] = {}  # several versions of a kernel are installed beside each other
    for line in run("rpm", "-qa", "--queryformat", "%{NAME}.%{ARCH} %{VERSION}-%{RELEASE}\n").splitlines():
        name, _, version = line.strip().rpartition(" ")
        found.setdefault(name, []).append(version)
    return {name: " ".join(sorted(versions)) for name, versions in found.items() if name}


def units() -> dict[str, str]:
    """Return the services that run, and the units that failed."""
    found: dict[str, str] = {}
    listed = run("systemctl", "list-units", "--all", "--plain", "--no-legend", "--type=service,socket,path,timer,mount", "--no-pager")
    for line in listed.splitlines():
        words = line.split(None, 4)
        if len(words) < 4 or TRANSIENT_UNITS.match(words[0]):
            continue
        if words[0].endswith(".timer") and words[2] == "active":
            found[words[0]] = "active"
        elif words[3] in ("running", "failed", "listening"):
            found[words[0]] = words[3]
    return found


def mounts() -> dict[str, str]:
    """Return the mounts with source and options: proc(5), mountinfo."""
    found: dict[str, str] = {}
    for line in lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")  # the source may be empty: a tmpfs without one
        if len(fields) > 5 and len(kind) > 2 and not CONTAINERS.match(fields[4]):
            options = ",".join(sorted(set(fields[5].split(",")) | set(filter(None, VOLATILE_MOUNT_OPTIONS.sub(",", kind[2]).split(",")))))
            found[fields[4]] = " ".join([kind[1], kind[0], options])
    return found


def links() -> dict[str, str]:
    """Return the network links with their MTU and queueing disciplines: tc(8)."""
    found: dict[str, str] = {}
    queues = dict(re.findall(r"^\d+: ([^:@]+)[:@].* qdisc (\S+)", run("ip", "-o", "link", "show"), re.M))
    for name in os.listdir("/sys/class/net"):
        top = os.path.join("/sys/class/net", name)
        if not DYNAMIC.match(name) and os.path.isdir(top):
            state = lines(top + "/operstate")[0]
            found[name] = "mtu " + lines(top + "/mtu")[0] + ", " + state + ", " + queues.get(name, "no queue")
    return found


def addresses() -> dict[str, str]:
    """Return the addresses of the node's links, the loopback interface included, without those that programs assign: ip-address(8)."""
    found = read_addresses(run("ip", "-json", "address", "show", strict=True))
    return {name: value for name, value in found.items() if not NETWORKS_OF_PROGRAMS.match(name)}


def routes() -> dict[str, str]:
    """Return routes, policy rules and permanent neighbours: ip(8). Those of the kernel's table local follow from the addresses."""
    found: dict[str, str] = {}
    for family in ("-4", "-6") if os.path.exists("/proc/net/if_inet6") else ("-4",):
        for one in read_json("ip", "-json", family, "route", "show", "table", "all"):
            if one.get("table") != "local" and one.get("protocol") not in LEARNED and not DYNAMIC.match(one.get("dev", "")):
                name = " ".join(["route", family, one["dst"], "table", str(one.get("table", "main")), "metric", str(one.get("metric", 0))])
                found[name] = "; ".join(filter(None, [found.get(name), plain(one, ("dst", "table", "metric", "flags", "expires", "pref"))]))
        for one in read_json("ip", "-json", family, "rule", "show"):
            if not DYNAMIC.match(one.get("iif", "")) and not DYNAMIC.match(one.get("oif", "")):
                found["rule " + family + " " + plain(one, ())] = "there"
        for one in read_json("ip", "-json", family, "neighbour", "show", "nud", "permanent"):
            if not DYNAMIC.match(one["dev"]):
                found["neighbour " + one["dst"] + " " + one["dev"]] = one.get("lladdr", "none")
    return found


def read_json(*command: str) -> list[dict[str, Any]]:
    """Return the list that a command prints as JSON, and an empty one if it prints nothing."""
    kept: list[dict[str, Any]] = json.loads(run(*command, strict=True) or "[]")
    return [one for one in kept if one]  # iproute2 prints {} for what a filter excludes


def plain(values: dict[str, Any], without: tuple[str, ...]) -> str:
    """Return values as words, in the order of their names."""
    return " ".join(name + " " + json.dumps(values[name]).strip('"') for name in sorted(values) if name not in without)


def address(text: str) -> tuple[str, int]:
    """Return address and port of a row of /proc/net/tcp: 32-bit words in the byte order of the machine."""
    host, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8))
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


def listening() -> dict[str, str]:
    """Return the sockets that other hosts can reach, without those of ordinary users and those that only await a response: udp(7)."""
    found: dict[str, str] = {}
    lowest, highest = map(int, lines("/proc/sys/net/ipv4/ip_local_port_range")[0].split())
    for table, waiting in PROTOCOLS:
        for line in lines("/proc/net/" + table)[1:] if os.path.exists("/proc/net/" + table) else []:
            fields = line.split()
            host, port = address(fields[1])
            passing = table.startswith("udp") and lowest <= port <= highest
            own = passing or host.startswith(("127.", "::ffff:127.")) or host == "::1"
            if fields[3] == waiting and not own and int(fields[7]) < UID_MIN:
                found[" ".join([table, host, str(port)])] = "user " + fields[7]
    return found


def filters() -> dict[str, str]:
    """Return the tables of packet filters by family and name, those of iptables too: nft(8), iptables(8)."""
    found = {line.partition(" ")[2]: "there" for line in run("nft", "list", "tables").splitlines() if line.startswith("table ")}
    for family in ("ip", "ip6"):
        names = "/proc/net/" + family + "_tables_names"
        found.update((family + "tables " + name, "there") for name in (lines(names) if os.path.exists(names) else []))
    return found


def drops() -> dict[str, str]:
    """Return rules and policies that drop packets, by table and chain: nft(8). A check compares rackwright's own table with its file."""
    found: dict[str, str] = {}
    table = chain = ""
    for line in run("nft", "--stateless", "list", "ruleset", strict=True).splitlines():
        words = line.split()
        if line.startswith("table "):
            table = " ".join(words[1:3])
        elif line.startswith("\t") and not line.startswith("\t\t"):
            chain = words[1] if words[:1] == ["chain"] else ""
        elif chain and table not in JUDGED_TABLES and not chain.startswith(PROGRAM_CHAINS) and DROPPED.search(line):
            found[table + " " + chain + ": " + line.strip()] = "there"
    return found


def runs(name: str) -> bool:
    """Return whether a process of this name runs, and no signal has stopped it: proc(5), stat."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            before, _, after = lines("/proc/" + pid + "/stat")[0].rpartition(")")
            if before.partition("(")[2] == name and after.split()[0] not in "TtZX":
                return True
    return False


def reservations() -> dict[str, str]:
    """Return reservations of Slurm on its controller, without their times: a weekly one has new times every week."""
    found: dict[str, str] = {}
    listed = run("scontrol", "--oneliner", "show", "reservations", strict=True) if runs("slurmctld") and runs("munged") else ""
    for line in listed.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "ReservationName" in fields:
            kept = [name + " " + fields.get(name, "") for name in ("Nodes", "Users", "Accounts", "Flags")]
            found[fields["ReservationName"]] = ", ".join(kept)
    return found


def accounting() -> dict[str, str] | None:
    """Return accounts, users and qualities of service of Slurm, on the node of its database: sacctmgr(1)."""
    return read_entries({name: sacctmgr(name) for name in QUERIES}) if accounting_responds() else None


def administrators() -> dict[str, str] | None:
    """Return the users with rights over others in Slurm accounting, on the node of its database."""
    return read_administrators(sacctmgr("user")) if accounting_responds() else None


def accounting_responds() -> bool:
    """Return whether sacctmgr gets an answer on this node. Checks report a daemon that does not run or is suspended."""
    there = runs("slurmdbd") and runs("munged") and (runs("mariadbd") or runs("mysqld")) and any(map(os.path.exists, SLURM_CONF))
    return there and not suspended(("munge.service", "slurmdbd.service", "mariadb.service"))


def sacctmgr(query: str) -> str:
    """Return a listing of sacctmgr."""
    return run("sacctmgr", "--parsable2", "show", *QUERIES[query], strict=True)


def settings() -> dict[str, str]:
    """Return the kernel settings: sysctl(8). A setting that this kernel lacks is left out."""
    found: dict[str, str] = {}
    for name in SETTINGS:
        with contextlib.suppress(OSError):
            found[name] = " ".join(lines("/proc/sys/" + name.replace(".", "/"))[0].split())
    return found


def node() -> dict[str, str]:
    """Return facts about the node as a whole, with the id of its boot and the time of it in seconds since 1970: random(4), proc_stat(5)."""
    return {
        "boot": lines("/proc/sys/kernel/random/boot_id")[0],
        "booted": next(line.split()[1] for line in lines("/proc/stat") if line.startswith("btime ")),
        "hostname": socket.gethostname(),
        "kernel": os.uname().release,
        "life": "".join(lines("/etc/machine-id")[:1]) if os.path.exists("/etc/machine-id") else "",
        "swap": ", ".join(sorted(line.split()[0] for line in lines("/proc/swaps")[1:])) or "none",
    }


HOMES_S = 5.0
"""Seconds for the files in home directories, which may be on a shared file system, times the slowness of the node."""

KINDS = {
    "accounts": accounts, "groups": groups, "keys": keys, "etc": etc, "directories": directories, "cron": cron, "setuid": setuid,
    "packages": packages, "units": units, "mounts": mounts, "links": links, "addresses": addresses, "routes": routes,
    "listening": listening, "filters": filters, "drops": drops,
    "settings": settings, "reservations": reservations, "accounting": accounting, "administrators": administrators, "node": node,
}  # fmt: skip


def main(_request: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return all kinds. A kind that cannot be read is named and does not affect the others; nor does a part of a kind."""
    os.environ.update(LC_ALL="C.UTF-8", PATH="/usr/sbin:/usr/bin:/sbin:/bin")
    result: dict[str, dict[str, str]] = {"error": {}}
    for name, read in KINDS.items():
        try:
            found = read_within(HOMES_S * slowness(), read) if name == "keys" else read()
        except Exception as error:
            result["error"][name] = type(error).__name__ + ": " + str(error)
            continue
        if found is not None:  # None: the daemon that has the answer does not run here
            reason = found.get(UNREAD, "")
            if reason:
                result["error"][name] = reason
            result[name] = found
    return result
