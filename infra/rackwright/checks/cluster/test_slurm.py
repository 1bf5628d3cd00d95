"""Slurm runs, is consistent, and has the planned nodes."""

from __future__ import annotations

from collections import Counter

from rackwright.checks.cluster.harness.arguments import Ask, Members, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import Lines, MissingAnswer, UnreadableValue
from rackwright.checks.cluster.probes.slurm import (
    CONFIGURATION,
    LAST_HEALTH_CHECK,
    MESSAGE_TIMEOUT,
    NODES,
    PARTITIONS,
    PING,
    SETTINGS,
    VERSION,
    SlurmNode,
)
from rackwright.checks.cluster.probes.slurm_options import (
    FILE,
    NODE_OPTIONS,
    PARTITION_OPTIONS,
    log_differences,
    node_differences,
    partition_differences,
    require_every_line,
)
from rackwright.checks.cluster.probes.slurm_ports import CONTROLLER_PORTS
from rackwright.checks.cluster.probes.slurm_states import is_working
from rackwright.checks.cluster.probes.units import CONTROLLER, LOGIN_DAEMON, NODE_DAEMON, UNITS
from rackwright.errors import UndeterminedError

HEALTH = "/usr/local/sbin/rackwright-node-health"


def test_controller_runs(ask: Ask, expect: Expect) -> None:
    """Without slurmctld no job starts. The state is the one of the daemon in systemd."""
    unit = ask(UNITS)[CONTROLLER]
    expect(unit.described, "active", holds=unit.state == "active")


def test_controller_answers_here(ask: Ask, command_output: Ask, cluster: Record, expect: Expect) -> None:
    """Every Slurm node must reach the controller, through its firewall and with its key."""
    found = {host: up or _why_down(host, ask, command_output) for host, up in ask(PING).items()}
    expect(found, dict.fromkeys(cluster.scheduler.controllers, True))


def test_node_daemon_runs(ask: Ask, expect: Expect) -> None:
    """State of the daemon in systemd: the controller notices a failure minutes later."""
    unit = ask(UNITS)[NODE_DAEMON]
    expect(unit.described, "active", holds=unit.state == "active")


def test_login_daemon_runs(ask: Ask, expect: Expect) -> None:
    """Slurm's commands on a login node read the configuration that sackd fetches."""
    unit = ask(UNITS)[LOGIN_DAEMON]
    expect(unit.described, "active", holds=unit.state == "active")


def test_version_matches_controller(ask: Ask, cluster: Record, expect: Expect) -> None:
    """Daemons of different releases work together only if they are updated in the documented order."""
    expect(ask(VERSION), ask(VERSION, of=cluster.scheduler.controllers[0]))


def test_configuration_is_the_same_everywhere(ask: Ask, members: Members, expect: Expect) -> None:
    """A node with an old slurm.conf works until a job needs a changed setting."""
    own, kept = ask(CONFIGURATION), {}
    for name in members("slurm"):
        try:
            kept[name] = ask(CONFIGURATION, of=name)
        except UndeterminedError:  # the check of that node reports the error
            continue
    common = {file: Counter(files[file] for files in kept.values() if file in files).most_common(1)[0][0] for file in own}
    expect([file for file, digest in own.items() if digest != common[file]], "no file that differs from most nodes", holds=own == common)
    if own.unread:
        raise UndeterminedError(f'a file of the configuration cannot be compared: "{own.unread[0]}"')


def test_node_is_usable(node: Record, slurm_node: SlurmNode, expect: Expect) -> None:
    """A node that is drained, down or not responding runs no jobs."""
    states = slurm_node.states
    why = f" ({slurm_node.reason})" if slurm_node.reason else ""
    if isinstance(states, UnreadableValue):
        raise UndeterminedError(states.why)
    expect("+".join(sorted(states)).lower() + why, "idle or in use", holds=is_working(states))


def test_node_has_planned_cpus(slurm_node: SlurmNode, planned: Record, expect: Expect) -> None:
    """Slurm allocates the CPUs of its configuration, whatever the machine has."""
    expect(slurm_node.cpus, planned.cpus)


def test_node_has_planned_memory(slurm_node: SlurmNode, planned: Record, expect: Expect) -> None:
    """Slurm allocates the memory of its configuration, whatever the machine has."""
    expect(slurm_node.memory_mib, planned.memory_mib)


def test_node_has_planned_gpus(slurm_node: SlurmNode, planned: Record, expect: Expect) -> None:
    """A GPU that Slurm does not know is never used."""
    whole = {planned.gpu_type or "": planned.gpus} if planned.gpus else {}
    expect(slurm_node.gpus, dict(Counter(one.type for one in planned.gres)) or whole)


def test_partitions_match_plan(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """Partitions define where jobs may run, and the default for jobs that request none."""
    planned = {one.name: (tuple(sorted(one.nodes)), one.default, "UP") for one in cluster.scheduler.partitions}
    found = ask(PARTITIONS)
    expect(Lines({name: (one.nodes, one.default, one.state) for name, one in found.items()}, found.unread), planned)


def test_no_unplanned_nodes(node: Record, ask: Ask, cluster: Record, expect: Expect) -> None:
    """A node that left the plan but not Slurm gets jobs that never start."""
    found = ask(NODES)
    expect(Lines(dict.fromkeys(found, "in Slurm"), found.unread), dict.fromkeys((one.name for one in cluster.scheduler.nodes), "in Slurm"))


def test_cluster_name_matches_plan(ask: Ask, cluster: Record, expect: Expect) -> None:
    """Accounting records jobs under this name; a controller with another name starts an empty history."""
    expect(ask(SETTINGS)["ClusterName"], cluster.scheduler.cluster_name)


def test_controller_runs_its_configuration(ask: Ask, expect: Expect) -> None:
    """An edited file that is not loaded takes effect at the next restart, unplanned."""
    found = ask(SETTINGS).get("HASH_VAL", "not reported")
    expect("as on disk" if found == "Match" else found, "as on disk")


def test_partition_options_match_file(ask: Ask, expect: Expect) -> None:
    """`scontrol update partition` changes who may submit, how long and with which priority, until the next restart."""
    found = ask(PARTITION_OPTIONS)
    expect(*partition_differences(ask(FILE), found))
    require_every_line(found)


def test_node_options_match_file(ask: Ask, expect: Expect) -> None:
    """Jobs that request a feature, and the order in which nodes are allocated, depend on these options."""
    found = ask(NODE_OPTIONS)
    expect(*node_differences(ask(FILE), found))
    require_every_line(found)


def test_log_settings_match_file(ask: Ask, expect: Expect) -> None:
    """A log level that was raised for an investigation fills the disk of the controller."""
    expect(*log_differences(ask(FILE), ask(SETTINGS)))


def test_health_check_configured(ask: Ask, cluster: Record, expect: Expect) -> None:
    """A node that lost a GPU keeps getting jobs: Slurm must run the health check at its interval and before each job."""
    planned = {
        "HealthCheckInterval": f"{cluster.scheduler.health_interval_s} sec",
        "HealthCheckNodeState": "CYCLE,ANY",
        "HealthCheckProgram": HEALTH,
        "Prolog": f"{HEALTH}-prolog",
    }
    found = {name.partition("[")[0]: value for name, value in ask(SETTINGS).items()}
    expect({name: found.get(name, "not reported") for name in planned}, planned)


def test_health_check_runs(ask: Ask, cluster: Record, expect: Expect, limit: float) -> None:
    """Slurm does not report a health check program that it cannot run. A slow node may miss more of them, since each run takes longer."""
    last = ask(LAST_HEALTH_CHECK)
    most = (limit + last.slowness - 1) * cluster.scheduler.health_interval_s
    expect(f"{last.seconds} s ago", f"at most {most:g} s ago", holds=0 <= last.seconds <= most)


def test_gpu_tres_tracked(ask: Ask, expect: Expect) -> None:
    """Without it sacct and sreport have no GPU figures, and GPU limits are not enforced."""
    tracked = ask(SETTINGS)["AccountingStorageTRES"].split(",")
    expect([one for one in tracked if one.startswith("gres/")], "gres/gpu among them", holds="gres/gpu" in tracked)


def _why_down(host: str, ask: Ask, command_output: Ask) -> bool | UnreadableValue:
    """Return False for a controller that refuses connections. Return why that is unknown where scontrol or its connection timed out."""
    port = ask(CONTROLLER_PORTS).at(host)
    if isinstance(port, UnreadableValue):
        return port
    seconds = command_output(PING).seconds
    return MissingAnswer(f"slurmctld on {host}", f"no answer within {seconds:.0f} s") if seconds >= MESSAGE_TIMEOUT else False
