#!/usr/bin/python3
"""Stop and start EC2 instances for Slurm's power saving: one request file per node, deleted when the request has been executed.

usage: ec2_power.py SETTINGS      a JSON file with `stack`, `nodes` and, to skip the query of the instance metadata, `region`
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
import urllib.request
from pathlib import Path

FOLDER = Path("/var/lib/rackwright/power")
POLL = 2.0
"""Seconds between reads of the folder; AWS is queried only while there are requests."""
TROUBLE = 10.0
"""Seconds until a retry after an error of AWS."""
METADATA = "http://169.254.169.254/latest"


def region() -> str:
    """Return the region of this instance (EC2 user guide: instance metadata, IMDSv2)."""
    asked = urllib.request.Request(f"{METADATA}/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    with urllib.request.urlopen(asked, timeout=5) as answer:
        token = answer.read().decode()
    place = urllib.request.Request(f"{METADATA}/meta-data/placement/region", headers={"X-aws-ec2-metadata-token": token})
    with urllib.request.urlopen(place, timeout=5) as answer:
        return str(answer.read().decode())


def requests(folder: Path, nodes: list[str]) -> dict[str, tuple[str, int]]:
    """Return the latest request per node as (action, time in ns since 1970); links and unknown names are ignored."""
    found: dict[str, tuple[str, int]] = {}
    for wish in ("suspend", "resume"):
        for node in nodes:
            try:
                told = os.lstat(folder / wish / node)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(told.st_mode) and (node not in found or told.st_mtime_ns > found[node][1]):
                found[node] = (wish, told.st_mtime_ns)
    return found


def instances(ec2: object, stack: str, nodes: list[str]) -> dict[str, dict]:
    """Return the instances of these nodes that are not terminated, by the stack's tag and their names."""
    names = [f"{stack}-{node}" for node in nodes]
    asked = [
        {"Name": "tag:rackwright.stack", "Values": [stack]},
        {"Name": "tag:Name", "Values": names},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]},
    ]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=asked)  # type: ignore[attr-defined]
    every = [one for page in pages for reservation in page["Reservations"] for one in reservation["Instances"]]
    return {{tag["Key"]: tag["Value"] for tag in one["Tags"]}["Name"][len(stack) + 1 :]: one for one in every}


def carry_out(ec2: object, wish: str, asked: int, instance: dict | None) -> bool:
    """Execute the request for one instance; return whether it is done."""
    if instance is None:
        return True
    state, chosen = instance["State"]["Name"], {"InstanceIds": [instance["InstanceId"]]}
    if wish == "suspend":
        if state == "running":
            ec2.stop_instances(**chosen)  # type: ignore[attr-defined]
        return state != "pending"
    if state == "stopped":
        ec2.start_instances(**chosen)  # type: ignore[attr-defined]
    elif state == "running" and instance["LaunchTime"].timestamp() * 1e9 < asked:
        ec2.reboot_instances(**chosen)  # type: ignore[attr-defined]  # Slurm waits for a boot after its request.
    return state != "stopping"


def settle(folder: Path, node: str, wish: str, asked: int) -> None:
    """Delete an executed request, unless a newer one has replaced it."""
    file = folder / wish / node
    try:
        if os.lstat(file).st_mtime_ns == asked:
            file.unlink()
    except FileNotFoundError:
        pass


def round_(ec2: object, folder: Path, stack: str, nodes: list[str]) -> None:
    """Execute all requests that can be executed now."""
    wanted = requests(folder, nodes)
    if not wanted:
        return
    there = instances(ec2, stack, list(wanted))
    for node, (wish, asked) in sorted(wanted.items()):
        if node not in there:
            print(f"{wish} {node}: instance not found", flush=True)
        if carry_out(ec2, wish, asked, there.get(node)):
            print(f"{wish} {node}: requested", flush=True)
            settle(folder, node, wish, asked)


def main() -> None:
    """Run forever; systemd restarts the program when it ends."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    settings = json.loads(Path(sys.argv[1]).read_text())
    ec2 = boto3.client("ec2", region_name=settings.get("region") or region())
    while True:
        try:
            round_(ec2, FOLDER, settings["stack"], settings["nodes"])
            time.sleep(POLL)
        except (BotoCoreError, ClientError) as refused:
            print(f"AWS error: {refused}", file=sys.stderr, flush=True)
            time.sleep(TROUBLE)


if __name__ == "__main__":
    main()
