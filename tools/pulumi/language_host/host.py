"""The host: serves the engine's LanguageRuntime calls, and exits at once when the engine exits or cancels."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import grpc

from language_host.order import SHOWN, Order, receive_code, send_order


def _without_package_code(name: str) -> None:
    """Allow imports of `name`'s modules without running its `__init__`: the whole SDK costs 0.25 s, the host needs three stubs."""
    parent, _, _ = name.rpartition(".")
    where = sys.modules[parent].__path__ if parent else None
    places = [str(Path(place) / name.rpartition(".")[2]) for place in where] if where else _package_path(name)
    package = types.ModuleType(name)
    package.__path__ = places
    sys.modules[name] = package


def _package_path(name: str) -> list[str]:
    spec = find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        sys.exit(f"language host: the Python package {name} is missing in {sys.prefix}; run `make venv`")
    return list(spec.submodule_search_locations)


for _name in ("pulumi", "pulumi.runtime", "pulumi.runtime.proto"):
    _without_package_code(_name)

from google.protobuf import empty_pb2  # noqa: E402
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2  # noqa: E402

_LARGEST_MESSAGE = 400 * 1024 * 1024
"""Bytes; the engine's own limit (sdk/go/common/util/rpcutil)."""


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The calls that `up`, `preview`, `refresh` and `destroy` make; packages and plugins are never computed from the environment."""

    def __init__(self, fork_server: socket.socket) -> None:
        self._orders = fork_server.makefile("w")
        self._codes = fork_server.makefile("r")
        self._turn = threading.Lock()

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return an empty response: there is nothing to negotiate."""
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return the version of the SDK that this host was written for."""
        return plugin_pb2.PluginInfo(version="3.259.0")

    def GetRequiredPackages(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return no packages: plugins come from Pulumi.yaml or were installed by name."""
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return no plugins, for the same reason."""
        return language_pb2.GetRequiredPluginsResponse()

    def RuntimeOptionsPrompts(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return no prompts."""
        return language_pb2.RuntimeOptionsResponse()

    def About(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return the interpreter that runs programs, for `pulumi about`."""
        return language_pb2.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def GetProgramDependencies(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Return no dependencies: requirements.lock lists them."""
        return language_pb2.GetProgramDependenciesResponse()

    def InstallDependencies(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Print how to install packages, for `pulumi install`."""
        yield language_pb2.InstallDependenciesResponse(stdout=b"dependencies are installed by `make venv` from requirements.lock\n")

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Do nothing: the engine then sends SIGINT, which ends host and runner."""
        return empty_pb2.Empty()

    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Run the program once and wait for it."""
        with self._turn:
            send_order(self._orders, _order(request))
            code = receive_code(self._codes)
        if code == 0:
            return language_pb2.RunResponse()
        if code == SHOWN:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error="the program's process is gone" if code is None else f"the program exited with code {code}")


def _order(request: Any) -> Order:
    directory = request.info.program_directory or request.pwd
    entry = Path(directory, request.info.entry_point or ".")
    return Order(
        monitor=request.monitor_address,
        project=request.project,
        stack=request.stack,
        organization=request.organization,
        root=request.info.root_directory,
        directory=request.pwd or directory,
        entry=str(entry / "__main__.py" if entry.is_dir() else entry),
        args=list(request.args),
        config=dict(request.config),
        secret_keys=list(request.configSecretKeys),
        dry_run=request.dryRun,
        parallel=request.parallel,
    )


def serve(fork_server_socket: socket.socket, fork_server: int) -> NoReturn:
    """Print the port and serve until the engine exits or interrupts; then end the runner and this process. Does not return."""
    signals, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    options = [("grpc.max_receive_message_length", _LARGEST_MESSAGE), ("grpc.max_send_message_length", _LARGEST_MESSAGE)]
    server = grpc.server(ThreadPoolExecutor(max_workers=8), options=options)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageHost(fork_server_socket), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    _wait_for_exit(signals)
    _end(fork_server)


def _wait_for_exit(signals: int) -> None:
    """Wait for SIGINT, SIGTERM, or the end of standard input, which the engine closes when it exits for any reason."""
    waited = [signals]
    if not os.isatty(0):
        waited.append(0)
    while True:
        ready, _, _ = select.select(waited, [], [])
        if signals in ready or not os.read(0, 4096):
            return


def _end(fork_server: int) -> NoReturn:
    """Kill the fork server and thereby its runner, and exit without cleanup: the engine is waiting."""
    try:
        os.kill(fork_server, signal.SIGTERM)
        os.waitpid(fork_server, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
    os._exit(0)
