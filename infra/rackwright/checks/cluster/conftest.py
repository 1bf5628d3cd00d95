"""Fixtures of the checks: the record of the node, the plan, the results of probes, and `expect` to compare values."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from testinfra.host import Host

from rackwright.checks.cluster.harness.arguments import Ask, Members
from rackwright.checks.cluster.harness.clock_offsets import Offset, common, offset, sharpened
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.daemon_dependencies import cause_of
from rackwright.checks.cluster.harness.external_probes import ExternalProbe
from rackwright.checks.cluster.harness.probe import KnownCauseError, Probe
from rackwright.checks.cluster.harness.pytest_plugin import PLUGIN, CheckPlugin
from rackwright.checks.cluster.harness.slow_nodes import SlowNodes
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.harness.transport import local_slowness
from rackwright.checks.cluster.probes import control, kubernetes
from rackwright.checks.cluster.probes.access import SSH_BANNER
from rackwright.checks.cluster.probes.identity import CLOCK
from rackwright.checks.cluster.probes.slurm import NODES, SlurmNode
from rackwright.checks.cluster.probes.smoke import SMOKE, SmokeResults
from rackwright.errors import UndeterminedError
from rackwright.report.check_plan import Expected
from rackwright.time_limits import factor

_PATIENCE = 5.0
"""Timeout of one command through testinfra's host, in seconds."""
_SURE = 0.5
"""Uncertainty of a clock offset, in seconds, that is accurate enough for limits in seconds."""


def pytest_collection(session: pytest.Session) -> None:
    """Refuse to run without the plugin of a verification run: there would be no nodes to check."""
    if not session.config.pluginmanager.has_plugin(PLUGIN):
        pytest.exit(
            "run the checks of a cluster with `rackwright verify STACK`, or see `python -m rackwright.checks.cluster --help`", returncode=2
        )


@pytest.fixture(scope="session")
def check_plugin(request: pytest.FixtureRequest) -> CheckPlugin:
    """Return the run."""
    return request.config.pluginmanager.get_plugin(PLUGIN)  # type: ignore[return-value]


@pytest.fixture
def expected_result(request: pytest.FixtureRequest) -> Expected:
    """Return the result that this check must deliver."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def cluster(check_plugin: CheckPlugin) -> SimpleNamespace:
    """Return the plan's record of the cluster."""
    return _record(check_plugin.declared.cluster)


@pytest.fixture(scope="session")
def fabric(check_plugin: CheckPlugin) -> Mapping[str, Any]:
    """Return the plan's record of the fabric, with every cable."""
    assert check_plugin.declared.fabric is not None
    return check_plugin.declared.fabric


@pytest.fixture
def fabric_node(members: Members) -> str:
    """Return the node that runs the probes of the whole fabric."""
    return members("@observer")[0]


@pytest.fixture
def observer(check_plugin: CheckPlugin, fabric_node: str) -> SimpleNamespace:
    """Return the plan's record of the node that runs the probes of the whole fabric."""
    return _record(check_plugin.declared.nodes[fabric_node])


@pytest.fixture
def node(check_plugin: CheckPlugin, expected_result: Expected) -> SimpleNamespace:
    """Return the plan's record of the checked node."""
    return _record(check_plugin.declared.nodes[expected_result.node])


@pytest.fixture
def members(check_plugin: CheckPlugin) -> Members:
    """Return a function that lists the nodes of a group."""
    return check_plugin.declared.members


@pytest.fixture
def limit(expected_result: Expected) -> float:
    """Return the limit from the catalogue, if the plan has none."""
    if expected_result.spec.limit is None:
        raise LookupError(f"{expected_result.spec.key} has no limit in the catalogue")
    return expected_result.spec.limit


@pytest.fixture
def ask(check_plugin: CheckPlugin, expected_result: Expected) -> Ask:
    """Return a function for the result of a probe on the checked node, or on the node `of`. It raises UndeterminedError without one."""

    def answer(question: Probe[Any] | ExternalProbe, of: str | None = None) -> Any:
        name = of or expected_result.node
        if isinstance(question, ExternalProbe):
            return check_plugin.runner.external_answer(question, name)
        try:
            return check_plugin.runner.answer(question, name)
        except UndeterminedError as error:
            raise known_cause(check_plugin, question, name) or error from None

    return answer


def known_cause(check_plugin: CheckPlugin, probe: Probe[Any], node: str) -> KnownCauseError | None:
    """Return the daemon that is down, or the slow node, which explains why a probe has no result."""
    runner = check_plugin.runner
    down = cause_of(probe, node, runner, check_plugin.declared, check_plugin.reports)
    return down or check_plugin.slow_nodes.cause_of(runner.raw(probe, node), node)


@pytest.fixture
def slow_nodes(check_plugin: CheckPlugin) -> SlowNodes:
    """Return the judgements on the nodes' speed."""
    return check_plugin.slow_nodes


@pytest.fixture
def external(check_plugin: CheckPlugin, node: SimpleNamespace, ask: Ask, cluster: SimpleNamespace) -> Ask:
    """Return a function that probes the checked node from outside. It raises UndeterminedError if a time-out would prove nothing."""

    def probe(external_probe: ExternalProbe, beside: ExternalProbe) -> str:
        entry = cluster.access.jump_hosts[0]
        try:
            answers, why = ask(beside, of=entry).startswith(SSH_BANNER), ""
        except UndeterminedError as error:
            answers, why = False, f" ({error})"
        if not answers:
            raise UndeterminedError(f"the control probe of {entry} failed too{why}, so a missing answer proves nothing")
        if not check_plugin.context(node.name).is_reachable(node.name):
            raise UndeterminedError(f"{node.name} is not reachable inside the cluster either, so a missing answer proves nothing")
        return str(ask(external_probe))

    return probe


@pytest.fixture
def node_stack(check_plugin: CheckPlugin) -> SimpleNamespace:
    """Return the planned parts of the nodes of the groups `with_<part>`."""
    return _record(check_plugin.declared.node_stack)


@pytest.fixture
def monitoring(check_plugin: CheckPlugin) -> Mapping[str, Any]:
    """Return the plan of monitoring."""
    assert check_plugin.declared.monitoring is not None
    return check_plugin.declared.monitoring


@pytest.fixture
def planned(node: SimpleNamespace, cluster: SimpleNamespace) -> SimpleNamespace:
    """Return the scheduler's plan of the checked node."""
    found: SimpleNamespace = next(one for one in cluster.scheduler.nodes if one.name == node.name)
    return found


@pytest.fixture
def slurm_node(node: SimpleNamespace, cluster: SimpleNamespace, ask: Ask, expect: Expect) -> SlurmNode:
    """Return the controller's record of the checked node."""
    found: SlurmNode | UnreadableValue | None = ask(NODES, of=cluster.scheduler.controllers[0]).at(node.name)
    if isinstance(found, UnreadableValue):
        raise UndeterminedError(found.why)
    if found is None:
        expect("not a node of Slurm", "a node of Slurm")
    return found  # type: ignore[return-value]


@pytest.fixture
def kubernetes_node(node: SimpleNamespace, cluster: SimpleNamespace, ask: Ask, expect: Expect) -> kubernetes.Node:
    """Return the API server's record of the checked node."""
    found: kubernetes.Node | None = ask(kubernetes.NODES, of=cluster.scheduler.controllers[0]).get(node.name)
    if found is None:
        expect("not a node of Kubernetes", "a node of Kubernetes")
    return found  # type: ignore[return-value]


@pytest.fixture
def kubernetes_pods(node: SimpleNamespace, cluster: SimpleNamespace, ask: Ask) -> Callable[[str, str], tuple[kubernetes.Pod, ...]]:
    """Return a function that lists the pods of kube-system on the checked node with a label."""

    def labelled(key: str, value: str) -> tuple[kubernetes.Pod, ...]:
        pods: tuple[kubernetes.Pod, ...] = ask(kubernetes.PODS, of=cluster.scheduler.controllers[0])
        return tuple(pod for pod in pods if pod.node == node.name and pod.namespace == "kube-system" and pod.labels.get(key) == value)

    return labelled


@pytest.fixture
def planned_objects(check_plugin: CheckPlugin) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that lists the planned Kubernetes objects, of the given kinds or all, as plain dictionaries."""
    planned = check_plugin.declared.cluster["scheduler"]["objects"]
    return lambda *kinds: [one for one in planned if not kinds or one["kind"] in kinds]


@pytest.fixture
def etcd(ask: Ask) -> control.Etcd:
    """Return the etcd member on the checked node. Raise UndeterminedError if it does not respond."""
    found: control.Etcd = ask(control.ETCD)
    if isinstance(found.error, UnreadableValue):
        raise UndeterminedError(found.error.why)
    if found.error:
        raise UndeterminedError(f"etcd: {found.error}")
    return found


@pytest.fixture
def smoke(ask: Ask, members: Members) -> SmokeResults:
    """Return the results of the smoke run."""
    return ask(SMOKE, of=members("@submit")[0])  # type: ignore[no-any-return]


@pytest.fixture
def command_output(check_plugin: CheckPlugin, expected_result: Expected) -> Ask:
    """Return a function for the raw result of a probe, with its times."""
    return lambda question, of=None: check_plugin.runner.raw(question, of or expected_result.node)


@pytest.fixture
def expect(request: pytest.FixtureRequest) -> Expect:
    """Return the comparison of found and planned values."""
    request.node.expect = Expect()
    return request.node.expect  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def clocks(check_plugin: CheckPlugin) -> dict[str, Offset]:
    """Return the clock offset of each node from the control machine, for nodes that respond."""
    found = {}
    for name in check_plugin.declared.members("nodes"):
        answer = check_plugin.runner.raw(CLOCK, name)
        if not answer.error and answer.rc == 0:
            found[name] = sharpened(offset(answer), _reader(check_plugin, name), _SURE)
    return found


@pytest.fixture(scope="session")
def common_clock(clocks: dict[str, Offset]) -> float:
    """Return the offset of the nodes' median clock from the control machine, in seconds."""
    return common(clocks.values(), _SURE)


def _reader(check_plugin: CheckPlugin, node: str) -> Callable[[], float]:
    """Return a function that reads the node's clock over the open connection."""
    speed = check_plugin.runner.speed(node)
    patience = 3.0 * max(local_slowness(), factor(speed.seconds) if speed else 1)
    return lambda: float(Host(check_plugin.backend(node, patience)).check_output("date +%s.%N"))


@pytest.fixture
def host(check_plugin: CheckPlugin, expected_result: Expected) -> Host:
    """Return testinfra's host, for checks that query the node while they run; each query is a separate round trip."""
    return Host(check_plugin.backend(expected_result.node, _PATIENCE * local_slowness()))


@pytest.fixture
def second_answer(check_plugin: CheckPlugin, expected_result: Expected) -> Callable[[float], float]:
    """Return a function that runs a second command on the node: the seconds until it ended, infinite if it did not within a limit."""

    def measure(limit: float) -> float:
        began = time.monotonic()
        try:
            Host(check_plugin.backend(expected_result.node, limit)).check_output("true")
        except (RuntimeError, AssertionError):  # testinfra: ssh's own status, 255, and any other one
            return math.inf
        return time.monotonic() - began

    return measure


def _record(data: Any) -> SimpleNamespace:
    return json.loads(json.dumps(data, default=str), object_hook=lambda values: SimpleNamespace(**values))  # type: ignore[no-any-return]
