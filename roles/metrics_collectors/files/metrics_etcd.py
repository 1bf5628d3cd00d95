#!/usr/bin/python3
"""The etcd member of this node, as far as alert rules read it, from its port for metrics on 127.0.0.1, which asks for no credentials.

The certificates that open etcd's other port read every secret of the cluster: Prometheus does not get them.
"""

from __future__ import annotations

import http.client
import re
import sys
from collections.abc import Mapping
from typing import Any

from rackwright_metrics import PATIENCE, CollectError, Samples, run

PORT = 2381
"""listen-metrics-urls, as kubeadm sets it (kubeadm: cmd/kubeadm/app/phases/etcd/local.go)."""
KEPT = (
    *("etcd_server_has_leader", "etcd_server_is_leader", "etcd_server_leader_changes_seen_total", "etcd_server_proposals_failed_total"),
    *("etcd_mvcc_db_total_size_in_bytes", "etcd_server_quota_backend_bytes"),
    *("etcd_disk_wal_fsync_duration_seconds_bucket", "etcd_disk_backend_commit_duration_seconds_bucket"),
)


def read() -> str:
    """Return the metrics of etcd. Raise CollectError without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=PATIENCE)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise CollectError(f"etcd: {error}") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise CollectError(f"etcd: status {answer.status}")
    return text


def add(text: str, samples: Samples) -> None:
    """Copy the series that are kept. Raise CollectError for a text without etcd_server_has_leader."""
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line.strip())
        if found and found[1] in KEPT:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
            try:
                samples.set(found[1], float(found[3]), **labels)
            except ValueError:
                raise CollectError(f'etcd: "{line[:80]}" has no value') from None
    if "etcd_server_has_leader " not in samples.text():
        raise CollectError("etcd: it reports no etcd_server_has_leader")


def collect(configuration: Mapping[str, Any], samples: Samples) -> None:
    """Read the member once."""
    add(read(), samples)


if __name__ == "__main__":
    sys.exit(run("etcd", collect))
