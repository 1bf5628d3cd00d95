"""What a removed stack left on a machine: in Podman, in its storage, among the user's processes."""

from __future__ import annotations

import itertools

_PROCESSES = frozenset({"aardvark-dns", "conmon", "netavark", "pasta", "pasta.avx2", "rootlessport", "rootlessport-child", "slirp4netns"})
"""Processes that serve containers; Podman's pause process is none of them and stays."""
_QUOTA_DEVICE = "backingFsBlockDev"
"""Device node that root's Podman creates in its folder of volumes to set quotas (containers/storage, drivers/quota)."""
_LABEL = "label=rackwright.stack={stack}"


def listing_script(stack: str, *, root: bool) -> str:
    """Return the shell script whose output `parse_leftovers` reads, for the user that runs Podman."""
    label = _LABEL.format(stack=stack)
    unshare = "" if root else "podman unshare "
    places = r"""\( -path "$store/volumes/*" -o -path "$store/*-containers/*" \)"""
    find = rf"""find "$store" -mindepth 2 -maxdepth 2 {places} ! -name '*containers.*' -printf 'storage %p\n'"""
    return "\n".join(
        [
            "set -e",
            f"podman ps --all --filter {label} --format 'container {{{{.Names}}}}'",
            f"podman volume ls --filter {label} --format 'volume {{{{.Name}}}}'",
            f"podman network ls --filter {label} --format 'network {{{{.Name}}}}'",
            "podman secret ls --format 'secret {{.Name}}'",
            "store=$(podman info --format '{{.Store.GraphRoot}}')",
            f"{unshare}{find}",
            "ps -eo user:32=,comm=,args= | sed 's/^/process /'",
        ]
    )


def parse_leftovers(listing: str, *, stack: str, user: str) -> list[str]:
    """Return what remains of the stack, one item a line; an empty list if nothing does."""
    return [line for line in listing.splitlines() if _is_leftover(line, stack, user)]


def _is_leftover(line: str, stack: str, user: str) -> bool:
    kind, _, rest = line.partition(" ")
    if kind == "secret":
        return rest.startswith(f"rackwright.{stack}.")
    if kind == "process":
        owner, command, *arguments = rest.split()
        # Podman re-executes itself for some of them, so the command is `exe` and the first argument is the name.
        names = {command, *(argument.rsplit("/", 1)[-1] for argument in arguments[:1])}
        return owner == user and bool(names & _PROCESSES)
    if kind == "storage":
        return rest.rpartition("/")[2] != _QUOTA_DEVICE
    return kind in {"container", "volume", "network"}


def administrator_block(output: str) -> list[str]:
    """Return the commands that the output asks an administrator to run; an empty list if it asks for nothing."""
    lines = iter(output.splitlines())
    if not any("Ask an administrator of this machine to run these commands" in line for line in lines):
        return []
    next(lines, "")
    # make reports the exit code right below the block.
    return list(itertools.takewhile(lambda line: line and not line.startswith("make: "), lines))
