#!/usr/bin/python3
"""Stops and starts EC2 instances as Slurm's power saving asks: one request file for each node, removed when it has been carried out.

usage: ec2_power.py SETTINGS      a JSON file with `stack`, `nodes` and, if the instance shall not be asked, `region`
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
"""Seconds between looks at the folder; AWS is asked only while something is wanted."""
TROUBLE = 10.0
"""Seconds until AWS is asked again where it refused."""
METADATA = "http://169.254.169.254/latest"


def region() -> str:
    """The region this instance is in (EC2 user guide: instance metadata, IMDSv2)."""
    asked = urllib.request.Request(f"{METADATA}/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    with urllib.request.urlopen(asked, timeout=5) as answer:
        token = answer.read().decode()
    place = urllib.request.Request(f"{METADATA}/meta-data/placement/region", headers={"X-aws-ec2-metadata-token": token})
    with urllib.request.urlopen(place, timeout=5) as answer:
        return str(answer.read().decode())


def requests(folder: Path, nodes: list[str]) -> dict[str, tuple[str, int]]:
    """Node -> (wish, when in ns since 1970), the latest for each; links and names that are no node of ours are not looked at."""
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
    """The living instances of these nodes, found by the stack's tag and their names."""
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
    """Do what is wanted of one instance; whether that is all there is to do."""
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
    """Remove a request that was carried out, unless it was made anew meanwhile."""
    file = folder / wish / node
    try:
        if os.lstat(file).st_mtime_ns == asked:
            file.unlink()
    except FileNotFoundError:
        pass


def round_(ec2: object, folder: Path, stack: str, nodes: list[str]) -> None:
    """One look: everything that is wanted and can be done now."""
    wanted = requests(folder, nodes)
    if not wanted:
        return
    there = instances(ec2, stack, list(wanted))
    for node, (wish, asked) in sorted(wanted.items()):
        if node not in there:
            print(f"{wish} {node}: there is no such instance", flush=True)
        if carry_out(ec2, wish, asked, there.get(node)):
            print(f"{wish} {node}: asked for", flush=True)
            settle(folder, node, wish, asked)


def main() -> None:
    """For ever; systemd starts it anew when it ends."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    settings = json.loads(Path(sys.argv[1]).read_text())
    ec2 = boto3.client("ec2", region_name=settings.get("region") or region())
    while True:
        try:
            round_(ec2, FOLDER, settings["stack"], settings["nodes"])
            time.sleep(POLL)
        except (BotoCoreError, ClientError) as refused:
            print(f"AWS refused: {refused}", file=sys.stderr, flush=True)
            time.sleep(TROUBLE)


if __name__ == "__main__":
    main()
