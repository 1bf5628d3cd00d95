"""Converge: the playbooks applied to the hosts of a plan, recorded as converged or not, and compared again on refresh."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from rackwright.drivers import ansible, ssh_connections
from rackwright.drivers.power import PowerSavingNodes, wake_nodes
from rackwright.drivers.rolling_update import RollingUpdate
from rackwright.errors import RackwrightError
from rackwright.inventory import paths
from rackwright.inventory.reader import load
from rackwright.operations import stack_files, tracing
from rackwright.operations.check_mode.runner import PlaybookRun, run
from rackwright.operations.monitoring import silences
from rackwright.operations.run_records import RunWriter
from rackwright.provider.protocol.diff import DiffResult, PropertyDiffKind, diff_properties
from rackwright.provider.protocol.property_values import UNKNOWN, Properties
from rackwright.provider.protocol.resource import LiveResource, RecordedState, RequestContext, Resource, refreshes_resources_only
from rackwright.provider.stack.node_causes import cause_reader
from rackwright.report.spans import Span, Value, of_playbook

_BUSY: Final = 45.0
"""Seconds a running node may take to respond before it is changed; a new node has the boot time-out of its target."""
_LOOK: Final = 10.0
"""Seconds a node may take to respond when it is only read."""


class Converge(Resource):
    """Inputs: plan, hosts {name: record}, secrets, digests, options, cluster_spec (the stack file, for the record).

    Outputs: `converged`, `reasons`, `changes` (number of changed tasks), `members` (nodes that belong to the cluster), `host_key_rotated`
    (instance_uids that have their own host key), `generation` (new with every run that may have changed something, so that an earlier
    verification no longer counts).
    """

    token: ClassVar[str] = "rackwright:ansible:Converge"
    required: ClassVar[tuple[str, ...]] = ("plan", "hosts", "secrets", "digests")

    def diff(self, state: RecordedState, news: Properties) -> DiffResult:
        """Return changed inputs, or a record that is not converged."""
        found = diff_properties(_with_plan_open(state.inputs), _with_plan_open(news), ignore=frozenset({"cluster_spec"}))
        return found if state.outputs.get("converged") else found.with_change("converged", PropertyDiffKind.UPDATE)

    def preview_outputs(self, news: Properties) -> Properties:
        """Return the inputs and the members; whether the phases succeed, and what they change, is unknown until they have run."""
        return {
            **news,
            "converged": UNKNOWN,
            "reasons": UNKNOWN,
            "changes": UNKNOWN,
            "members": sorted(news["hosts"]),
            "host_key_rotated": UNKNOWN,
            "generation": UNKNOWN,
        }

    async def create(self, operation: RequestContext, news: Properties) -> LiveResource:
        """Apply all phases to all hosts."""
        return await self._apply(operation, news, news["hosts"], (), None)

    async def update(self, operation: RequestContext, state: RecordedState, news: Properties) -> LiveResource:
        """Remove nodes that are no longer declared in order, then apply all phases to those that are."""
        newcomers = [name for name in news["hosts"] if name not in state.outputs.get("members", [])]
        saving = _power_saving_nodes(news, state.inputs)
        leaving = sorted(set(state.outputs.get("members", [])) - set(news["hosts"]))
        if not leaving:
            return await self._apply(operation, news, newcomers, _rotated(state), saving)
        files = await self._removal_files(operation, state, leaving)
        drain_s = json.loads(news["plan"])["scheduler"]["drain_timeout_s"]
        run = RunWriter(operation.stack, "up", state.inputs["hosts"])
        async with silences.of_removal(load(files.inventory), leaving, drain_s, operation.warn):
            await self._leave(operation, files, drain_s, leaving, run)
            return await self._apply(operation, news, newcomers, _rotated(state), saving, run)

    async def read(self, operation: RequestContext, state: RecordedState) -> LiveResource:
        """Return what the phases would change now. Where check mode did not run, the record remains, a failure included."""
        if refreshes_resources_only(state.inputs):
            return LiveResource(state.id, state.outputs, init_errors=tuple(state.outputs.get("reasons", [])))
        try:
            lost, applied = await self._play(
                operation, state.inputs, _rotated(state), _power_saving_nodes(state.inputs), within=_LOOK, check=True
            )
        except stack_files.PlanVersionError as error:
            return LiveResource(state.id, {**state.outputs, "converged": False, "reasons": [str(error)]}, init_errors=(str(error),))
        drift = [f"{result} (would change)" for result in applied.changed]
        drift += [f"{result.host}: waits for a rolling update: {result.detail}" for result in applied.requires_drain]
        reasons = [*lost, *applied.reasons, *drift]
        return LiveResource(state.id, {**state.outputs, "converged": not reasons, "reasons": reasons}, init_errors=tuple(reasons))

    async def delete(self, operation: RequestContext, state: RecordedState) -> None:
        """Remove the stack's files; the configuration is deleted with the nodes."""
        stack_files.remove(operation.stack)

    async def _apply(
        self,
        operation: RequestContext,
        news: Properties,
        newcomers: Sequence[str],
        rotated: Sequence[str],
        power_saving: PowerSavingNodes | None,
        run: RunWriter | None = None,
    ) -> LiveResource:
        run = run or RunWriter(operation.stack, "up", news["hosts"])
        started, began = time.monotonic(), time.time()
        stack_files.invalidate_report(operation.stack)
        stack_files.record(operation.stack, news, converged=False)
        for name in newcomers:
            await ssh_connections.close(operation.stack, name)
        lost, applied = await self._play(operation, news, rotated, power_saving, within=_BUSY, check=False, record=run.file)
        reasons = run.end([*lost, *applied.reasons])
        for problem in filter(None, (run.problem, applied.unrecorded)):
            await operation.warn(problem)
        if why := tracing.record(operation.stack, _spans(operation, began, applied, failed=bool(reasons))):
            await operation.warn(why)
        if not reasons:
            rotated = _rotated_now(news, rotated)
            stack_files.write(operation.stack, news, rotated)
            stack_files.record(operation.stack, news, converged=True)
            await operation.status(f"converged: {len(applied.changed)} changes in {time.monotonic() - started:.1f} s")
        outputs = {
            **news,
            "converged": not reasons,
            "reasons": reasons,
            "changes": len(applied.changed),
            "members": sorted(news["hosts"]),
            "host_key_rotated": list(rotated),
            "generation": uuid.uuid4().hex,
        }
        return LiveResource(operation.name, outputs, init_errors=tuple(reasons))

    async def _play(
        self,
        operation: RequestContext,
        inputs: Properties,
        rotated: Sequence[str],
        power_saving: PowerSavingNodes | None,
        *,
        within: float,
        check: bool,
        record: Path | None = None,
    ) -> tuple[list[str], ansible.PlaybookResult]:
        """Wake suspended nodes and run the phases on every reachable host. Return the reasons for unreachable ones, and the result."""
        files = stack_files.write(operation.stack, inputs, rotated)
        async with wake_nodes(operation.stack, power_saving, operation.status, within=within) as asleep:
            lost = await self._reach(operation, files, _new_instances(inputs, files.hosts, rotated) if not check else (), within=within)
            applied = await self._applied(operation, files, lost, within=within, check=check, record=record)
            if applied.requires_drain and not applied.reasons and not check:
                await self._roll(operation, files, inputs, applied, record)
        told = dict.fromkeys(
            power_saving.nodes if power_saving and asleep else (), f"; it may be suspended, and Slurm did not resume it: {asleep}"
        )
        return [f"{name}: {reason}{told.get(name, '')}" for name, reason in lost.items()], applied

    async def _reach(
        self, operation: RequestContext, files: stack_files.StackFiles, young: Sequence[str], *, within: float
    ) -> dict[str, str]:
        """Connect to new nodes first, one may be the jump host of all others. Return the reason for each unreachable node."""
        await operation.status("waiting for the nodes to respond over SSH")
        cause = cause_reader(operation.stack, files.target)
        lost = await ssh_connections.connect_all(operation.stack, young, within=files.boot_timeout, cause=cause) if young else {}
        others = [name for name in files.hosts if name not in young]
        return lost | (await ssh_connections.connect_all(operation.stack, others, within=within, cause=cause) if others else {})

    async def _applied(
        self,
        operation: RequestContext,
        files: stack_files.StackFiles,
        lost: dict[str, str],
        *,
        within: float,
        check: bool,
        record: Path | None,
    ) -> ansible.PlaybookResult:
        """Run the phases on all reachable nodes, and once more where a connection broke."""
        reached = [name for name in files.hosts if name not in lost]
        if not reached:
            return ansible.PlaybookResult()
        if check:
            phases = PlaybookRun(operation.stack, files.inventory, files.secrets, files.site, files.skip_tags)
            found = await run(phases, lost, operation.status)
            # A refresh has no check that reports the daemon: the incomplete comparison is its reason.
            lost |= {name: reason for name, reason in found.incomplete if name not in lost}
            return found.applied
        applied = await self._site(operation, files, lost, record)
        if applied.connection_lost:
            await operation.info("a connection broke during a task; applying the playbooks again")
            for name in reached:
                await ssh_connections.close(operation.stack, name)
            await ssh_connections.connect_all(operation.stack, reached, within=within)
            applied = await self._site(operation, files, lost, record)
        return applied

    async def _roll(
        self,
        operation: RequestContext,
        files: stack_files.StackFiles,
        inputs: Properties,
        applied: ansible.PlaybookResult,
        record: Path | None,
    ) -> None:
        """Apply the changes that the roles deferred because of possible jobs, on nodes that are drained one batch after the other."""
        why = {result.host: result.detail for result in applied.requires_drain}
        await operation.info("\n".join(f"rolling update of {name}: {reason}" for name, reason in why.items()))
        plan = json.loads(inputs["plan"])
        silence = silences.of_batches(load(files.inventory), plan["scheduler"].get("drain_timeout_s", 0), operation.warn)
        roll = RollingUpdate(
            files.root,
            files.inventory,
            files.secrets,
            files.skip_tags,
            plan["rolling"]["batch"],
            site=files.site,
            around=silence,
            record=record,
        )
        done = await roll.run([name for name in files.hosts if name in why], operation.info, operation.status)
        applied.changed += done.changed
        if done.reasons:
            applied.status, applied.message = 1, "\n".join(done.reasons)

    async def _site(
        self, operation: RequestContext, files: stack_files.StackFiles, lost: Collection[str], record: Path | None
    ) -> ansible.PlaybookResult:
        """Run all phases on all nodes but the lost ones."""
        return await ansible.play(
            files.root,
            files.site,
            inventory=files.inventory,
            extra_vars=[files.secrets],
            limit=[name for name in files.hosts if name not in lost] if lost else (),
            lost=lost,
            skip_tags=files.skip_tags,
            record=record,
            on_progress=operation.status,
        )

    async def _removal_files(self, operation: RequestContext, state: RecordedState, leaving: Sequence[str]) -> stack_files.StackFiles:
        """Write the files with which nodes are removed. Raise an error for the plan of another version."""
        await operation.info(f"removing from the cluster: {', '.join(leaving)}")
        try:
            return stack_files.write_removal_inventory(operation.stack, state.inputs, _rotated(state))
        except stack_files.PlanVersionError as error:
            hint = "declare them again and run `up`, which applies this version's plan; they can be removed after that"
            raise RackwrightError(f"{', '.join(leaving)} cannot be removed yet: {error.cause}", hint=hint) from None

    async def _leave(
        self, operation: RequestContext, files: stack_files.StackFiles, drain_s: int, leaving: Sequence[str], run: RunWriter
    ) -> None:
        """Drain removed nodes for as long as the new plan allows and stop their services. Raise an error with the jobs that do not end."""
        # Suspended nodes have no job and no daemon.
        asked = [name for name in files.hosts if not paths.suspended_file(operation.stack, name).exists()]
        lost = await ssh_connections.connect_all(operation.stack, asked, within=_LOOK)
        applied = await ansible.play(
            files.root,
            "remove-nodes.yml",
            inventory=files.inventory,
            extra_vars=[files.secrets],
            values={"nodes_to_remove": list(leaving), "drain_timeout_s": drain_s},
            limit=[name for name in asked if name not in lost] if len(asked) - len(lost) < len(files.hosts) else (),
            record=run.file,
            on_progress=operation.status,
        )
        if applied.reasons:
            raise RackwrightError(
                "\n".join([f"{', '.join(leaving)} cannot be removed yet:", *run.end(applied.reasons)]),
                hint="nothing was removed; end those jobs (scancel) or raise scheduler.drain_timeout, then run the command again",
            )


def _spans(operation: RequestContext, began: float, applied: ansible.PlaybookResult, *, failed: bool) -> Iterator[Span]:
    """Yield the run with its phases, roles and hosts."""
    names: dict[str, Value] = {"rackwright.changed_tasks": len(applied.changed), "rackwright.resource": operation.name}
    whole = Span("converge", began, time.time(), names, failed)
    yield whole
    yield from of_playbook(applied.times, whole.span_id)


def _new_instances(inputs: Properties, names: Sequence[str], rotated: Sequence[str]) -> list[str]:
    """Return the nodes whose instance was never converged: they may still be starting."""
    return [name for name in names if inputs["hosts"].get(name, {}).get("instance_uid") not in rotated]


def _rotated_now(news: Properties, before: Sequence[str]) -> list[str]:
    """Return every instance of a successful run. A node that is out was not part of it and keeps its earlier state."""
    out = {node["name"] for node in json.loads(news["plan"]).get("nodes", ()) if node["state"] == "out"}
    lives = {name: host.get("instance_uid", "") for name, host in news["hosts"].items()}
    return sorted(life for name, life in lives.items() if name not in out or life in before)


def _rotated(state: RecordedState) -> tuple[str, ...]:
    """Return the instance_uids that have their own host key."""
    return tuple(state.outputs.get("host_key_rotated", ()))


def _power_saving_nodes(*inputs: Properties) -> PowerSavingNodes | None:
    """Return the nodes that may be suspended by any of these inputs, since Slurm follows the old plan until it reads the new one.

    Only nodes with the same instance in all inputs count: a recreated node is running and cannot report that to Slurm before it is
    converged.
    """
    found = [power_saving for one in inputs if (power_saving := PowerSavingNodes.of(json.loads(one["plan"])["scheduler"]))]
    lives = [{name: host.get("instance_uid") for name, host in one["hosts"].items()} for one in inputs]
    old = {name for name in lives[0] if all(name in others and others[name] == lives[0][name] for others in lives)}
    nodes = dict.fromkeys(name for power_saving in found for name in power_saving.nodes if name in old)
    return replace(found[0], nodes=tuple(nodes)) if nodes else None


def _with_plan_open(inputs: Properties) -> Properties:
    """Return the inputs with the plan as data, so that a diff names the fields."""
    return {**inputs, "plan": json.loads(inputs["plan"])} if inputs.get("plan") else inputs
