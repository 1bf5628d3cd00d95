"""Stop and start the control plane's static pods by moving their manifests: the kubelet runs those in its folder only."""

from __future__ import annotations

import glob
import os
import socket
import time

from ansible_collections.rackwright.cluster.plugins.module_utils.probe import ticks

PORTS = {"etcd": 2379, "kube-apiserver": 6443, "kube-controller-manager": 10257, "kube-scheduler": 10259}
PODS = "/var/lib/kubelet/pods"
FORGETTING = 40  # seconds for the kubelet to clean up an ended pod
PATIENCE = 120  # seconds: the kubelet reads its folder every 20 s, and a pod has 30 s to end


class StaticPodsError(Exception):
    """A static pod that does not stop: place, problem, hint."""


def is_open(port: int) -> bool:
    """Return whether the port is open on this node."""
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class StaticPods:
    """Manage this node's manifests; stopped ones are in a folder outside the kubelet's, on the same file system."""

    def __init__(self, manifests: str, held: str) -> None:
        self.manifests = manifests
        self.held = held

    def interrupted(self) -> bool:
        """Return whether an interrupted run left the static pods stopped."""
        return bool(self._in(self.held))

    def stop(self) -> None:
        """Stop the static pods, and wait until they have ended."""
        os.makedirs(self.held, mode=0o700, exist_ok=True)
        for name in self._in(self.manifests):
            os.rename(os.path.join(self.manifests, name), os.path.join(self.held, name))
        running: list[str] = []
        for _ in ticks(time.monotonic() + PATIENCE):
            running = [part for part, port in PORTS.items() if is_open(port)]
            if not running:
                self._await_cleanup()
                return
        self.start()
        raise StaticPodsError(f"still running after {PATIENCE} s: {', '.join(running)} - run `journalctl -u kubelet`; nothing was changed")

    def _await_cleanup(self) -> None:
        """Wait until the kubelet has cleaned up: a pod that returns earlier stays pending for minutes."""
        for _ in ticks(time.monotonic() + FORGETTING):
            if not any(glob.glob(f"{PODS}/*/containers/{part}") for part in PORTS):
                return

    def start(self) -> None:
        """Start the static pods."""
        for name in self._in(self.held):
            os.rename(os.path.join(self.held, name), os.path.join(self.manifests, name))

    def _in(self, folder: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(folder) if name[: -len(".yaml")] in PORTS)
        except FileNotFoundError:
            return []
