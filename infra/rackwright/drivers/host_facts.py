"""Facts of a machine, and the changes that adopting and releasing it make."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from typing import Final

from rackwright.drivers.ssh_login import LoginRefusedError, Session
from rackwright.os_release import os_name, read_os_release

_FACTS: Final = r"""
cat /etc/os-release /usr/lib/os-release 2>/dev/null | sed 's/^ */release./' | awk -F= '!seen[$1]++'
echo "cpus=$(nproc)"
echo "memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
echo "free_kib=$(df -Pk / | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4)"
echo "machine_id=$(cat /etc/machine-id)"
echo "serial=$(cat /sys/class/dmi/id/product_serial 2>/dev/null)"
echo "container=$(systemd-detect-virt --container 2>/dev/null)"
echo "init=$(cat /proc/1/comm)"
echo "python=$(command -v python3)"
gpus=0
for device in /sys/bus/pci/devices/*; do
  case $(cat "$device/vendor" "$device/class" 2>/dev/null | tr -d '\n') in
    0x10de0x0300*|0x10de0x0302*|0x10020x0380*|0x10020x1200*) gpus=$((gpus + 1)) ;;
  esac
done
echo "gpus=$gpus"
active() { [ "$(systemctl is-active "$1" 2>/dev/null)" = active ]; }
foreign() {
  unit=$1; shift
  active "$unit" && ! grep -qsi 'written by rackwright' "$@" && echo "conflict=$unit"
}
active firewalld && echo conflict=firewalld
grep -qsi '^ENABLED=yes' /etc/ufw/ufw.conf && echo conflict=ufw
for unit in k3s k3s-agent rke2-server rke2-agent; do active "$unit" && echo "conflict=$unit"; done
foreign kubelet /etc/systemd/system/kubelet.service.d/*.conf
foreign slurmctld /etc/slurm/slurm.conf
foreign slurmd /etc/default/slurmd /etc/sysconfig/slurmd
foreign slurmdbd /etc/slurm/slurmdbd.conf
true
"""
"""GPUs are counted on the PCI bus, because a driver may not be installed yet: vendor 10de (NVIDIA) with the class of a display or 3D
controller, and 1002 (AMD) with that of a processing accelerator (MI300) or of a display controller without VGA (MI200).
ufw.service of Ubuntu is active, too, where ufw is off: ufw(8) keeps the state in ufw.conf. Daemons that the stack's own roles configured
are no conflict: a host is inspected again at each refresh."""
_KUBERNETES: Final = "the machine belongs to a Kubernetes cluster"
_SLURM: Final = "the machine belongs to another Slurm cluster (`systemctl disable --now {unit}`, then remove its configuration)"
_CONFLICTS: Final = {
    "firewalld": "its rules would conflict with the stack's rules (`systemctl disable --now firewalld`)",
    "ufw": "its rules would conflict with the stack's rules (`ufw disable`)",
    **dict.fromkeys(("kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent"), _KUBERNETES),
    **{unit: _SLURM.format(unit=unit) for unit in ("slurmctld", "slurmd", "slurmdbd")},
}
_LEAST_FREE: Final = 4 * 2**20
"""Free KiB on / for the first installation of packages and logs: MariaDB, Slurm and MooseFS take about 1 GiB on Debian 13."""
MEMORY_SHOWN: Final = 0.95
"""Share of the declared memory that MemTotal must show: firmware and kernel reserve up to 5 %."""

_KEYS: Final = """
umask 077
mkdir -p "$HOME/.ssh"
file=$HOME/.ssh/authorized_keys
touch "$file"
file=$(readlink -f "$file")
awk -v mark={mark} 'substr($0, length($0) - length(mark) + 1) != mark' "$file" > "$file.rackwright" || exit 1
{last}
chmod --reference="$file" "$file.rackwright" && chown --reference="$file" "$file.rackwright" 2>/dev/null
mv "$file.rackwright" "$file"
"""
"""Removes lines with the mark, including a key of the same stack whose state was lost. awk terminates a last line without a newline. A
file that is a link stays one, and the file keeps owner and mode."""

_CLEAN: Final = r"""
ours() {
  grep -rliIs -m1 'written by rackwright' /etc | while read -r file; do
    head -n 3 "$file" | grep -qi 'written by rackwright' && echo "$file"
  done
}
wrote=$(ours)
[ -n "$wrote" ] || exit 0
systemctl disable --now slurmd slurmctld slurmdbd sackd moosefs-master moosefs-chunkserver 2>/dev/null
for unit in $(cd /etc/systemd/system && grep -lsiI -m1 'written by rackwright' *.mount *.service); do
  timeout 20 systemctl disable --now "$unit" || umount --force --lazy "$(systemctl show --property=Where --value "$unit")"
done
echo "$wrote" | grep -qx /etc/exports.d/rackwright.exports && systemctl disable --now nfs-server
nft delete table inet rackwright 2>/dev/null
echo "$wrote" | grep -qxE '/etc/(sysconfig/)?nftables.conf' && systemctl disable --now nftables
echo "$wrote" | grep -vx /etc/hosts | while read -r file; do rm -f "$file"; done
if echo "$wrote" | grep -qx /etc/hosts; then
  printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n127.0.1.1\t%s\n' "$(hostname)" > /etc/hosts
fi
rm -f /etc/munge/munge.key /etc/systemd/system/*.d/rackwright.conf
systemctl daemon-reload
systemctl reload ssh 2>/dev/null || systemctl reload sshd 2>/dev/null
left=$(ours; for unit in slurmd slurmctld slurmdbd; do [ "$(systemctl is-active "$unit")" = active ] && echo "$unit"; done)
[ -z "$left" ] || { echo "still there: $left" >&2; exit 1; }
"""
"""Files of the roles have a mark in their first three lines; without a marked file nothing is changed. Users, packages and data stay. A
mount whose server has been removed before is given up after 20 s."""
_LONGEST_CLEAN: Final = 600.0
"""Seconds that this script may take; it prints nothing. It stops several services, which systemd kills after 90 s each
(DefaultTimeoutStopSec, systemd-system.conf(5)), and gives up mounts after 20 s each."""


_NO_SERIALS: Final = frozenset(
    {
        "",
        "0",
        "none",
        "n/a",
        "not specified",
        "not applicable",
        "default string",
        "system serial number",
        "system serial#",
        "0123456789",
        "1234567890",
        "123456789",
        "empty",
        "invalid",
        "null",
        "to be filled by o.e.m.",
        "unknown",
    }
)
"""Serial numbers of boards whose vendor set none, in lower case: dmidecode prints them as they are."""


@dataclass(frozen=True)
class Facts:
    """Facts of a machine, as read over SSH."""

    os: str
    cpus: int
    memory_mib: int
    free_kib: int
    machine_id: str
    container: str
    """Kind of container, as systemd-detect-virt(1) names it; `none` for a machine."""
    init: str
    python: str
    gpus: int
    conflicts: tuple[str, ...]
    serial: str = ""
    """Serial number of its firmware (DMI); empty on many VMs and all containers."""
    sshd_port: int | None = None
    """Port on which its sshd accepted this connection; None if the login shell does not report it."""
    seen_address: str = ""
    """Address from which this connection reached its sshd; empty if the login shell does not report it, or for the machine itself."""


@dataclass(frozen=True)
class Declared:
    """Facts that the stack declares."""

    os: str
    cpus: int
    memory_mib: int
    gpus: int
    container: bool
    serial: str | None = None
    sshd_port: int | None = None
    admitted: tuple[str, ...] = ()
    """Networks from which the machine's packet filter will admit SSH; empty where this is not compared."""


def require_root(session: Session) -> None:
    """Raise LoginRefusedError unless the login user is root or has passwordless sudo."""
    result = session.run("id -u", root=True)
    if result.status == 0 and result.output.strip() == "0":
        return
    user, why = session.route.user, result.stderr.splitlines()[-1] if result.stderr else "sudo failed"
    raise LoginRefusedError(
        f"{session.route}: {user} has no passwordless sudo ({why})",
        hint=f"on the machine, as root: echo '{user} ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/{user} && chmod 0440 /etc/sudoers.d/{user}",
    )


def facts(session: Session) -> Facts:
    """Return the facts of a machine. Raise an error where they cannot be read."""
    result = session.run(_FACTS, root=True)
    pairs = [line.split("=", 1) for line in result.output.splitlines() if "=" in line]
    found = dict(pairs)
    if result.status != 0 or not found.get("machine_id"):
        raise LoginRefusedError(
            f"{session.route}: its facts cannot be read: {result.stderr or result.output}", hint="a Linux machine with systemd is needed"
        )
    try:
        read = _facts(found, tuple(value for name, value in pairs if name == "conflict"))
        connection = session.run('echo "$SSH_CONNECTION"').output
        return replace(read, sshd_port=_sshd_port(connection), seen_address=_seen_address(connection))
    except (KeyError, ValueError) as error:
        raise LoginRefusedError(
            f"{session.route}: its facts cannot be read: {error}{f' ({result.stderr})' if result.stderr else ''}",
            hint="check /etc/os-release, /proc/meminfo, and `nproc` and `df -Pk /` on the machine",
        ) from None


def _facts(found: Mapping[str, str], conflicts: tuple[str, ...]) -> Facts:
    """Return the facts of lines `name=value`. Raise KeyError or ValueError for a value that is missing or unreadable."""
    release = "\n".join(f"{name.removeprefix('release.')}={value}" for name, value in found.items() if name.startswith("release."))
    return Facts(
        os=os_name(read_os_release(release)),
        cpus=_number(found, "cpus"),
        memory_mib=_number(found, "memory_kib") // 1024,
        free_kib=_number(found, "free_kib"),
        machine_id=found["machine_id"],
        container=found["container"],
        init=found["init"],
        python=found["python"],
        gpus=_number(found, "gpus"),
        conflicts=conflicts,
        serial=_serial(found.get("serial", "")),
    )


def _sshd_port(connection: str) -> int | None:
    """Return the port of the server's end of a connection: the last word of SSH_CONNECTION (ssh(1)), behind any port forward.

    >>> _sshd_port("10.0.2.2 45122 10.0.2.15 22\\n"), _sshd_port("\\n")
    (22, None)
    """
    words = connection.split()
    return int(words[3]) if len(words) == 4 and words[3].isdecimal() else None


def _seen_address(connection: str) -> str:
    """Return the client's address, the first word of SSH_CONNECTION (ssh(1)), without a zone; an IPv4 address in its own form.

    A connection from the machine itself comes through its loopback interface, which the packet filter admits: the result is empty.

    >>> _seen_address("::ffff:10.0.2.2 45122 ::ffff:10.0.2.15 22"), _seen_address("fe80::2%eth0 45122 fe80::1%eth0 22"), _seen_address("")
    ('10.0.2.2', 'fe80::2', '')
    >>> _seen_address("::1 45122 ::1 22"), _seen_address("10.0.2.15 45122 10.0.2.15 22")
    ('', '')
    """
    words = connection.split()
    try:
        address = ip_address(words[0].partition("%")[0]) if len(words) == 4 and words[0] != words[2] else None
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address or "")


def _is_admitted(address: str, networks: Iterable[str]) -> bool:
    return any(ip_address(address) in ip_network(network) for network in networks)


def _number(found: Mapping[str, str], name: str) -> int:
    if not found[name].strip().isdigit():
        raise ValueError(f'{name} is "{found[name]}"')
    return int(found[name])


def _serial(text: str) -> str:
    """Return a serial number; empty for the texts that vendors leave in its place (SMBIOS, type 1)."""
    return "" if text.strip().lower() in _NO_SERIALS else text.strip()


def mismatches(found: Facts, declared: Declared, *, adopted: bool) -> list[str]:
    """Return every mismatch with the declaration. Free space counts only before the first installation."""
    wrong = [f"{unit} runs: {_CONFLICTS[unit]}" for unit in found.conflicts]
    if declared.serial and found.serial and found.serial.casefold() != declared.serial.casefold():
        wrong.append(f"has serial number {found.serial}, declared is {declared.serial}: this is another machine")
    if declared.sshd_port and found.sshd_port and found.sshd_port != declared.sshd_port:
        wrong.append(
            f"its sshd listens on port {found.sshd_port}, declared is {declared.sshd_port}: a port forward is in between "
            f"(`sshd_port: {found.sshd_port}`)"
        )
    if found.init != "systemd":
        wrong.append(f"is not run by systemd but by {found.init}")
    if (found.container != "none") != declared.container:
        kind = "system-container" if declared.container else "machine"
        wrong.append(f"is {_kind(found.container)}, declared is target.machine_type: {kind}")
    if not found.python:
        wrong.append("has no python3")
    if found.os != declared.os:
        wrong.append(f"runs {found.os}, declared is {declared.os}")
    if found.cpus < declared.cpus:
        wrong.append(f"has {found.cpus} CPUs, declared are {declared.cpus}")
    if found.memory_mib < declared.memory_mib * MEMORY_SHOWN:
        wrong.append(f"has {found.memory_mib} MiB of memory, declared are {declared.memory_mib}")
    if found.gpus != declared.gpus:
        wrong.append(f"has {found.gpus} GPUs of NVIDIA or AMD, declared are {declared.gpus}")
    if not adopted and declared.admitted and found.seen_address and not _is_admitted(found.seen_address, declared.admitted):
        wrong.append(
            f"its sshd receives this connection from {found.seen_address}, and its packet filter will admit SSH from "
            f"{', '.join(declared.admitted)} only (`access.allowed_cidrs`, or the jump host's `address`)"
        )
    if not adopted and found.free_kib < _LEAST_FREE:
        wrong.append(f"has {found.free_kib // 1024} MiB free on /, {_LEAST_FREE // 1024} are needed")
    return wrong


def authorize_key(session: Session, public_key: str) -> None:
    """Authorise the stack's own key and keep other keys."""
    key = public_key.strip()
    last = f"printf '%s\\n' {shlex.quote(key)} >> \"$file.rackwright\" || exit 1"
    _run_checked(session, _KEYS.format(mark=_mark(key), last=last), "cannot add the stack's key")


def revoke_key(session: Session, public_key: str) -> None:
    """Remove the stack's key."""
    _run_checked(session, _KEYS.format(mark=_mark(public_key.strip()), last=""), "cannot remove the stack's key")


def _mark(key: str) -> str:
    """Return the end of lines with a key of this stack: its comment."""
    return shlex.quote(f" {key.split(' ', 2)[2]}")


def clean(session: Session) -> None:
    """Stop the stack's services and remove the files of its roles."""
    result = session.run(_CLEAN, root=True, silence=_LONGEST_CLEAN)
    if result.status != 0:
        raise LoginRefusedError(f"{session.route}: cannot be cleaned: {result.stderr}")


def _run_checked(session: Session, script: str, what: str) -> None:
    result = session.run(script)
    if result.status != 0:
        raise LoginRefusedError(f"{session.route}: {what}: {result.stderr}", hint="check ~/.ssh on the machine: owner, modes, free space")


def _kind(container: str) -> str:
    return "a machine with a kernel of its own" if container == "none" else f"a container ({container})"
