"""Run kubeadm and kubectl on a node, and extract the reason of a failure. Standard library only, Python 3.9 or newer."""

from __future__ import annotations

import subprocess

FOLDER = "/etc/kubernetes"
HERE = "https://127.0.0.1:6443"  # the local API: another controller may hold the cluster's address


class KubeadmError(Exception):
    """An error of kubeadm or the cluster: place, problem, hint."""


def complaint(text: str) -> str:
    """Return the decisive lines of kubeadm's output: its preflight errors, otherwise its last lines.

    >>> complaint("[preflight] Running\\nerror execution phase preflight\\n\\t[ERROR Port-6443]: Port is in use\\n")
    '[ERROR Port-6443]: Port is in use'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "[ERROR" in line] or [line for line in lines if line.lower().startswith("error")]
    hints = ("To see the stack trace", "[preflight] If you know")
    return "; ".join((errors or [line for line in lines if not line.startswith(hints)][-3:])[:5]) or "no output"


def run(*words: str, timeout: int = 240) -> str:
    """Return the output of a command. Raise KubeadmError if it fails."""
    try:
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL, timeout=timeout
        )
    except FileNotFoundError:
        raise KubeadmError(f"{words[0]}: command not found - check that the install steps ran on this node") from None
    except subprocess.TimeoutExpired:
        raise KubeadmError(f"{' '.join(words[:3])}: not finished after {timeout} s - see `journalctl -u kubelet`") from None
    if done.returncode:
        raise KubeadmError(f"{' '.join(words[:3])}: {complaint(done.stdout + done.stderr)} - see `journalctl -u kubelet`")
    return done.stdout


def kubectl(*words: str) -> str:
    """Run kubectl as the cluster's administrator, against the local API."""
    return run("kubectl", f"--kubeconfig={FOLDER}/admin.conf", f"--server={HERE}", "--request-timeout=10s", *words, timeout=60)
