"""The way to a Kubernetes API, with an `ssh` that is played: what is said here arrives there, and nothing stays open."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from rackwright.drivers import api_tunnel
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.provider.kubernetes import api_tunnel as kubernetes_api_tunnel
from rackwright.provider.protocol.property_values import UNKNOWN, Secret
from rackwright.provider.protocol.resource import RecordedState, RequestContext
from rackwright.yaml_loader import load_yaml

ADMIN = """
clusters: [{name: kubernetes, cluster: {certificate-authority-data: Q0E=, server: "https://10.77.0.16:6443"}}]
users: [{name: kubernetes-admin, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}]
contexts: []
current-context: kubernetes-admin@kubernetes
"""
SSH = """#!/bin/sh
printf '%s\\n' "$*" >> "$0.log"
case "$*" in
  *" -W "*) exec sed -u y/aeghilno/AEGHILNO/ ;;
  *) [ -f "$0.admin" ] || { echo 'no route' >&2; exit 255; }; cat "$0.admin" ;;
esac
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and an ssh that answers in capitals."""
    (tmp_path / "bin").mkdir()
    file = tmp_path / "bin" / "ssh"
    file.write_text(SSH)
    file.chmod(0o755)
    Path(f"{file}.admin").write_text(ADMIN)
    monkeypatch.setenv("PATH", f"{file.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RACKWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(api_tunnel, "_open", {})
    monkeypatch.setattr(api_tunnel, "_TAKEN", 0.2)
    return file


def free() -> int:
    """A port that no process has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def operation(said: list[str]) -> RequestContext:
    """A call whose words are noted."""

    async def say(text: str) -> None:
        said.append(text)

    return RequestContext("urn", "lab", "kubernetes-access", preview=False, status=say, info=say, warn=say)


def inputs(port: int) -> dict[str, Any]:
    """Of an access."""
    return {"controller": "control0", "through": "login0", "endpoint": "10.77.0.16:6443", "port": port, "instance_uid": "life-1"}


async def asked(port: int, text: bytes) -> bytes:
    """What comes back over the way."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    found = await asyncio.wait_for(reader.readexactly(len(text)), 5)
    writer.close()
    return found


def played(act: Callable[[], Awaitable[None]]) -> None:
    """An act to its end, and nothing left of it."""

    async def whole() -> None:
        try:
            await act()
        finally:
            await api_tunnel.forget("lab")

    asyncio.run(whole())


def test_the_access_names_a_port_of_this_machine_and_the_port_leads_to_the_api(ssh: Path) -> None:
    port = free()

    async def act() -> None:
        made = await kubernetes_api_tunnel.ApiTunnel().create(operation([]), inputs(port))
        config = made.outputs["kubeconfig"]
        assert isinstance(config, Secret)
        found = load_yaml(config.value)
        assert found["clusters"] == [
            {
                "name": "lab",
                "cluster": {"certificate-authority-data": "Q0E=", "server": f"https://127.0.0.1:{port}", "tls-server-name": "kubernetes"},
            }
        ]
        assert found["users"][0]["user"]["client-key-data"] == "S0VZ"
        assert found["current-context"] == found["contexts"][0]["name"] == "lab"
        assert await asked(port, b"hello\n") == b"HELLO\n"

    played(act)
    log = Path(f"{ssh}.log").read_text().splitlines()
    assert log[0].endswith("control0 sudo -n cat /etc/kubernetes/admin.conf")
    assert log[1].endswith("-W 10.77.0.16:6443 login0")


def test_a_later_operation_opens_the_way_before_anybody_asks(ssh: Path) -> None:
    """A refresh runs no program, and Pulumi's provider looks for the API as soon as it is configured."""
    port = free()
    paths.prepare("lab")
    paths.api_tunnel("lab").write_text(json.dumps({"port": port, "through": "login0", "endpoint": "10.77.0.16:6443"}))

    async def act() -> None:
        await api_tunnel.open_tunnel("lab")
        await api_tunnel.open_tunnel("lab")
        assert await asked(port, b"again\n") == b"AGAIN\n"

    played(act)


def test_a_stack_without_a_way_listens_nowhere(ssh: Path) -> None:
    asyncio.run(api_tunnel.open_tunnel("lab"))
    assert api_tunnel._open == {}


def test_after_the_deletion_nobody_listens(ssh: Path) -> None:
    port = free()

    async def act() -> None:
        access = kubernetes_api_tunnel.ApiTunnel()
        await access.create(operation([]), inputs(port))
        await access.delete(operation([]), RecordedState("x", inputs(port), {}))
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        assert not paths.api_tunnel("lab").exists()

    played(act)


@pytest.mark.usefixtures("sleeps_skipped")
def test_a_port_that_somebody_has_is_said(ssh: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])

        async def act() -> None:
            with pytest.raises(RackwrightError, match=f"127.0.0.1:{port}, the tunnel to its Kubernetes API, cannot be opened"):
                await api_tunnel.record("lab", api_tunnel.ApiEndpoint(port, "login0", "10.77.0.16:6443"))

        played(act)


def test_a_controller_that_does_not_answer_is_an_error_when_made_and_a_warning_when_looked_at(ssh: Path) -> None:
    Path(f"{ssh}.admin").unlink()
    said: list[str] = []

    async def act() -> None:
        access, port = kubernetes_api_tunnel.ApiTunnel(), free()
        with pytest.raises(RackwrightError, match=r"control0: .*no route"):
            await access.create(operation([]), inputs(port))
        found = await access.read(operation(said), RecordedState("x", inputs(port), {**inputs(port), "kubeconfig": "OLD"}))
        assert found is not None and found.outputs["kubeconfig"] == Secret("OLD")

    played(act)
    assert len(said) == 1 and "no route" in said[0]


def test_a_preview_knows_everything_but_the_credentials() -> None:
    assert kubernetes_api_tunnel.ApiTunnel().preview_outputs(inputs(1)) == {**inputs(1), "kubeconfig": Secret(UNKNOWN)}
