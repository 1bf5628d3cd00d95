"""A lab node: a container that runs systemd and, from its SSH port inwards, behaves like any other machine."""

from __future__ import annotations

import hashlib
import json
from typing import ClassVar, Final

from rackwright.drivers import cgroups, ssh_connections
from rackwright.drivers.cgroups import rootless
from rackwright.drivers.podman import (
    NODE_LABEL,
    SECRET_PREFIX,
    SPEC_LABEL,
    STACK_LABEL,
    Container,
    SecretFile,
    inspect,
    limits,
    podman,
    podman_secrets,
    run_checked,
)
from rackwright.inventory import paths
from rackwright.provider.lab import node_drift, power
from rackwright.provider.lab.live_nodes import nodes_now
from rackwright.provider.protocol.diff import DiffResult
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource

_SIMULATED_GPU_MAJOR: Final = 61
"""A character-device major for local and experimental use (kernel: Documentation/admin-guide/devices.txt): never a real driver's."""
_SPEC: Final = ("name", "network", "address", "mac", "hostname", "gpus", "volumes", "published", "host_public_key", "authorized_key")
_RUNNING: Final = "running"


class Node(Resource):
    """Inputs: see `required`, and `gpus` (count), `nests` (runs containers itself), `volumes` {mount: name}, `published` ["ip:port:22"].

    Outputs: the inputs, with `image` as the image of the container, and `instance_uid`, which changes at every start of
    the node except a resume by Slurm: a node that Slurm resumes returns to service without another converge.
    """

    token: ClassVar[str] = "rackwright:lab:Node"
    required: ClassVar[tuple[str, ...]] = (
        "stack",
        "name",
        "hostname",
        "image",
        "network",
        "address",
        "mac",
        "host_key",
        "host_public_key",
        "authorized_key",
    )
    replace_on_changes: ClassVar[frozenset[str]] = frozenset({"stack", "nests", *_SPEC})
    ignore_changes: ClassVar[frozenset[str]] = frozenset({"image", "host_key"})

    def apply_defaults(self, news: Properties) -> Properties:
        """Add the defaults; a declared node runs."""
        return {"gpus": 0, "volumes": {}, "published": [], **news, "status": _RUNNING}

    def diff(self, state: RecordedState, news: Properties) -> DiffResult:
        """Return the changes. A node created as declared is restored in place where it differs now; a changed declaration replaces it."""
        made_so = [name for name in node_drift.BROUGHT_BACK if state.outputs.get(name) == news.get(name)]
        return super().diff(state, news).in_place(made_so)

    async def add_live_changes(self, stack: str, state: RecordedState, found: DiffResult) -> DiffResult:
        """Add `status` for a container that was stopped, removed or restarted since the last run: a reboot stops all of them."""
        if found.changes or _is_as_recorded(stack, state, (await nodes_now(stack)).get(state.id)):
            return found
        slept = paths.suspended_file(stack, state.inputs["hostname"]).exists()
        # The containers of a stack are inspected together; one that is just waking up may have started since.
        if _is_as_recorded(stack, state, await inspect(state.id), slept=slept):
            return found
        return found.with_change("status")

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs with an unknown instance_uid."""
        return {**news, "instance_uid": UNKNOWN}

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Create and start the container. Adopt a running one of the same shape from a killed run; replace any other."""
        found = await inspect(news["name"])
        if found is not None and not (found.status == _RUNNING and found.labels.get(SPEC_LABEL) == _spec(news)):
            await self._remove(news["stack"], news["hostname"], news["name"])
            found = None
        if found is None:
            _clear_power_marks(news["stack"], news["hostname"])
            await operation.status("starting")
            async with podman_secrets(_identity(news)) as secrets:
                await run_checked("run", "--detach", *_options(news), *secrets, news["image"], *_init(news))
            found = await inspect(news["name"])
            assert found is not None
        return _made(found, news)

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource | None:
        """Return the container's state. A paused or stopped one differs from its declaration; one that Slurm suspended does not."""
        slept = paths.suspended_file(operation.stack, state.inputs["hostname"]).exists()
        found = await inspect(state.id)
        if found is None:
            return None
        if _is_suspended_or_resumed(operation.stack, state, found, slept=slept):
            return LiveResource(state.id, state.outputs, inputs={**state.inputs, "status": _RUNNING})
        if node_drift.replaced(found, state):
            news = {"status": node_drift.REPLACED, "image": found.image}
            return LiveResource(state.id, {**state.outputs, "status": node_drift.REPLACED}, inputs={**state.inputs, **news})
        inputs = {**state.inputs, "status": found.status, **node_drift.read_live_properties(found, state)}
        return LiveResource(state.id, _made(found, {**state.inputs, **state.outputs}).outputs, inputs=inputs)

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Start the container again with the settings of its creation, or create it again."""
        found = await inspect(news["name"])
        if found is not None and node_drift.replaced(found, state):
            await self._remove(news["stack"], news["hostname"], news["name"])
            found = None
        if found is None:
            return await self.create(operation, news)
        if found.paused:
            await run_checked("unpause", news["name"])
        elif not found.running:
            _clear_power_marks(news["stack"], news["hostname"])
            await run_checked("start", news["name"])
        await ssh_connections.close(operation.stack, news["hostname"])
        found = await inspect(news["name"])
        assert found is not None
        await node_drift.restore(found, news)
        return _made(found, news)

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove the container, reachable or not."""
        await self._remove(operation.stack, state.inputs["hostname"], state.id)

    async def _remove(self, stack: str, hostname: str, name: str) -> None:
        await podman("rm", "--force", "--time", "0", "--volumes", name)
        _clear_power_marks(stack, hostname)
        await ssh_connections.close(stack, hostname)


def _is_as_recorded(stack: str, state: RecordedState, found: Container | None, *, slept: bool = False) -> bool:
    """Return whether the container runs since the recorded start, or Slurm has suspended or resumed it.

    Without a power agent, after a reboot for example, no process resumes a container; slurmctld may have lost its power-down state.
    """
    if found is None:
        return False
    unchanged = found.running and not found.paused and found.instance_uid == state.outputs.get("instance_uid")
    wakes = found.running or power.running_agent(stack) is not None
    return unchanged or (wakes and _is_suspended_or_resumed(stack, state, found, slept=slept))


def _is_suspended_or_resumed(stack: str, state: RecordedState, found: Container, *, slept: bool) -> bool:
    """Return whether power saving stopped or started the recorded container; `slept`: it was suspended before the inspection."""
    same = str(state.outputs.get("instance_uid", "")).startswith(found.short_id)
    asleep = slept or paths.suspended_file(stack, state.inputs["hostname"]).exists()
    return same and not found.paused and (asleep or (found.running and _was_resumed(stack, state, found)))


def _was_resumed(stack: str, state: RecordedState, found: Container) -> bool:
    """Return whether the power agent started the container last."""
    file = paths.resumed_file(stack, state.inputs["hostname"])
    return file.exists() and file.read_text() == found.instance_uid


def _clear_power_marks(stack: str, hostname: str) -> None:
    for mark in (paths.suspended_file(stack, hostname), paths.resumed_file(stack, hostname)):
        mark.unlink(missing_ok=True)


def _made(found: Container, news: Properties) -> LiveResource:
    return LiveResource(found.name, {**news, "image": found.image, "status": found.status, "instance_uid": found.instance_uid})


def _spec(news: Properties) -> str:
    """Return a digest of the settings that a container cannot change after its creation."""
    shape = {key: news.get(key) for key in _SPEC} | ({"nests": True} if news.get("nests") else {})
    return hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:16]


def _options(news: Properties) -> list[str]:
    return [
        *("--name", news["name"], "--hostname", news["hostname"], "--no-hosts", "--http-proxy=false"),
        *(
            "--label",
            f"{STACK_LABEL}={news['stack']}",
            "--label",
            f"{NODE_LABEL}={news['hostname']}",
            "--label",
            f"{SPEC_LABEL}={_spec(news)}",
        ),
        *("--network", news["network"], "--ip", news["address"], "--mac-address", news["mac"]),
        *("--systemd=always", "--stop-signal", "SIGRTMIN+3"),
        *limits(),
        *(_NESTING if news.get("nests") else ("--cap-add", "SYS_ADMIN,NET_ADMIN,MKNOD", "--device", "/dev/fuse", *_gpus(news["gpus"]))),
        *(option for mount, name in sorted(news["volumes"].items()) for option in ("--volume", f"{name}:{mount}")),
        *(option for address in news["published"] for option in ("--publish", address)),
    ]


_NESTING: Final = ("--privileged", "--cgroupns=private")
"""For nodes that run containers. In the machine's cgroup namespace, systemd would create hierarchies for the machine itself."""


_OWN_HIERARCHY: Final = "umount -l /sys/fs/cgroup/systemd"
"""On cgroup v1, podman 4.3 mounts the machine's own systemd hierarchy over a private one: nodes would share it."""
_KEEP_KERNEL: Final = (
    "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys"
    " && mount --bind /proc/sys/net /proc/sys/net && mount -o remount,bind,rw /proc/sys/net"
)
"""A privileged container may write kernel settings, and its systemd does (fs.file-max): all settings except the network's are the
machine's."""


def _init(news: Properties) -> list[str]:
    """Return the command of the first process."""
    nests = news.get("nests")
    steps = [_KEEP_KERNEL] if nests else []
    if not cgroups.is_cgroup_v2() and not rootless():
        steps += [_OWN_HIERARCHY] if nests else []
        steps += cgroups.hide_unmounted()
    return ["/bin/sh", "-c", "; ".join([*steps, "exec /sbin/init"])] if steps else ["/sbin/init"]


def _gpus(count: int) -> tuple[str, ...]:
    """Return options that let the gpu role create devices with numbers of their own; without a right to do so, the role does without."""
    return ("--device-cgroup-rule", f"c {_SIMULATED_GPU_MAJOR}:* rwm") if count and not rootless() else ()


def _identity(news: Properties) -> list[SecretFile]:
    """Return the host key and the authorised key, which exist before sshd starts for the first time."""
    prefix = f"{SECRET_PREFIX}.{news['stack']}.{news['hostname']}"
    return [
        SecretFile(f"{prefix}.host-key", node_drift.KEY_FILE, news["host_key"]),
        SecretFile(f"{prefix}.host-public-key", f"{node_drift.KEY_FILE}.pub", news["host_public_key"] + "\n"),
        SecretFile(f"{prefix}.authorized-key", "/root/.ssh/authorized_keys", news["authorized_key"] + "\n"),
    ]
