"""Drain and resume Slurm nodes; running jobs finish, and drains by an administrator stay.

Runs on a controller. Standard library only, Python 3.9 or newer on the node.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.rackwright.cluster.plugins.module_utils.systemd import suspended_units

DOCUMENTATION = r"""
module: slurm_drain
short_description: Drain and resume Slurm nodes
options:
  nodes: {type: list, elements: str, required: true, description: Names of the nodes.}
  state:
    description:
      - C(drained) drains the nodes and waits until their jobs have ended. Jobs that run longer than C(timeout) are an error that lists
        them; the nodes then stay drained, so that the next attempt has less to wait for.
      - C(resumed) waits until the nodes are registered and lifts drains by rackwright, and drains by Slurm after a bad registration that
        has been corrected; a node that slurmctld gave up pinging is resumed as well. Nodes that an administrator drained stay drained and
        are returned as C(held), and so are nodes that drained themselves after a failed check, which resume by themselves.
      - C(absent) sets the nodes to DOWN before the configuration removes them.
      - Nodes unknown to Slurm are an error for C(resumed), and ignored otherwise.
    choices: [drained, resumed, absent]
    required: true
  reason: {type: str, default: leaving, description: Reason; the module adds the prefix C(rackwright).}
  timeout: {type: int, default: 60, description: Seconds to wait for jobs to end (drained) or for nodes to register (resumed).}
notes:
  - No module drains Slurm nodes. C(scontrol update) alone lifts drains that an administrator set.
"""

EXAMPLES = r"""
- name: Drain a worker before a reboot
  rackwright.cluster.slurm_drain:
    nodes: [worker0]
    state: drained
    reason: rolling
    timeout: 3600

- name: Take the worker into service again
  rackwright.cluster.slurm_drain:
    nodes: [worker0]
    state: resumed
"""

RETURN = r"""
changed_hosts: {description: "Nodes that were, or would be, changed, with their previous state.", returned: always, type: dict}
actions: {description: "Actions that were, or in check mode would be, executed, as C(worker1: drain).", returned: always, type: list}
held: {description: "Nodes drained by others, with state and reason.", returned: always, type: list}
"""

ARGUMENTS = {
    "nodes": {"type": "list", "elements": "str", "required": True},
    "state": {"type": "str", "choices": ["drained", "resumed", "absent"], "required": True},
    "reason": {"type": "str", "default": "leaving"},
    "timeout": {"type": "int", "default": 60},
}
OURS = "rackwright:"
BY_A_CHECK = re.compile(r"rackwright: [a-z_]+\.[a-z_]+(:|$)")  # drained by the node's health check, which also lifts the drain
# Reasons that slurmctld sets after a bad or missing registration; obsolete after a correct one.
CURED_BY_REGISTRATION = re.compile(
    r"not responding|node unexpectedly rebooted|resumetimeout reached|low (realmemory|cpus|tmpdisk|socket)|gres/\S+ count reported lower",
    re.IGNORECASE,
)
# Reason that Slurm sets after a failed prolog. A node that is still unhealthy has replaced it by its own.
BY_PROLOG = "Prolog error"
# Seen with Slurm 24.11: a node that is DOWN for this reason is not pinged again, even if slurmd kept running and only munged or the
# network was unavailable.
GIVEN_UP = "not responding"
HELD = {"DRAIN", "DOWN", "FAIL"}  # flags and base states in which a node gets no jobs
UNREGISTERED = {"NOT_RESPONDING", "INVALID_REG", "UNKNOWN", "REBOOT_ISSUED"}
ASLEEP = {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP"}
SUFFIXES = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN", "^": "REBOOT_ISSUED"}
SYNONYMS = {"DRAINED": "DRAIN", "DRAINING": "DRAIN", "FAILING": "FAIL", "NO_RESPOND": "NOT_RESPONDING", "POWER": "POWERED_DOWN"}
# States of a job that has CPUs of a node: squeue(1), JOB STATE CODES.
ON_NODES = "RUNNING,COMPLETING,CONFIGURING,SUSPENDED,STOPPED,RESIZING,SIGNALING,STAGE_OUT"
JOBS_SHOWN = 10


class SlurmError(Exception):
    """A Slurm error or timeout: place, problem, hint."""


class Node(NamedTuple):
    """A node as slurmctld reports it."""

    name: str
    state: frozenset[str]
    reason: str
    by: str  # user who set the reason

    @property
    def is_held(self) -> bool:
        return bool(self.state & HELD)

    @property
    def is_registered(self) -> bool:
        return not self.state & UNREGISTERED or bool(self.state & ASLEEP)

    @property
    def is_given_up(self) -> bool:
        """Return whether slurmctld gave up pinging the node: it returns only after a restart of slurmd or a resume."""
        return {"DOWN", "NOT_RESPONDING"} <= self.state and self.by == "slurm" and self.reason.lower() == GIVEN_UP

    @property
    def is_ours(self) -> bool:
        """Return whether rackwright may resume the node."""
        return not self.is_unwell and self._is_rackwrights

    @property
    def is_unwell(self) -> bool:
        """Return whether the node drained itself after a failed check."""
        return bool(BY_A_CHECK.match(self.reason))

    @property
    def _is_rackwrights(self) -> bool:
        cured = self.reason == BY_PROLOG or bool(CURED_BY_REGISTRATION.match(self.reason))
        return self.reason.startswith(OURS) or (self.by == "slurm" and cured)

    def __str__(self) -> str:
        reason = f' "{printable(self.reason)}" (by {printable(self.by)})' if self.reason else ""
        return f"{self.name} is {'+'.join(sorted(self.state))}{reason}"


class Job(NamedTuple):
    """A job on a node."""

    id: str
    user: str
    nodes: str
    name: str

    def __str__(self) -> str:
        return f"{self.id} ({printable(self.name)}) of {self.user} on {self.nodes}"


def printable(text: str) -> str:
    """Return a text of a user without characters on which a terminal acts."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def records(text: str, head: str) -> list[str]:
    """Return the records of an output. A line that does not begin as a record does belongs to the free text before it."""
    found: list[str] = []
    for line in filter(str.strip, text.split("\n")):
        if found and not re.match(head, line):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


def parse_nodes(text: str) -> dict[str, Node]:
    """Parse `scontrol --oneliner show nodes`; return nodes by name.

    >>> parse_nodes("NodeName=w1 Arch=x State=IDLE*+DRAIN ThreadsPerCore=1 Reason=bad disk [root@2026-11-21T03:00:00]")["w1"].reason
    'bad disk'
    """
    nodes: dict[str, Node] = {}
    if not text.strip():
        raise SlurmError("scontrol: no output, so that no node is known - see `journalctl -u slurmctld`")
    if text.strip().lower().startswith("no nodes in the system"):
        return nodes
    for line in records(text.replace("\r\n", "\n"), "NodeName="):
        name = re.match(r"NodeName=(\S+)", line)
        state = re.search(r" State=(\S+)", line)
        if not name or not state:
            raise SlurmError(f"scontrol: cannot parse line {line[:120]!r} as a node - check the Slurm version")
        reason = re.search(r" Reason=(.*?)(?: \[([^@\]]+)@[^\]]*\]|$)", line, re.DOTALL)
        words = states_of(state.group(1))
        nodes[name.group(1)] = Node(name.group(1), words, reason.group(1) if reason else "", (reason.group(2) if reason else "") or "")
    return nodes


def states_of(text: str) -> frozenset[str]:
    """Return the states of a field State, including those of its suffixes (sinfo(1), NODE STATE CODES).

    >>> sorted(states_of("IDLE*+CLOUD")), sorted(states_of("IDLE#"))
    (['CLOUD', 'IDLE', 'NOT_RESPONDING'], ['IDLE', 'POWERING_UP'])
    """
    found = set()
    for flag in filter(None, text.upper().split("+")):
        name = flag.rstrip("*~#!%$@^-")
        found |= {SYNONYMS.get(name, name), *(SUFFIXES[mark] for mark in flag[len(name) :] if mark in SUFFIXES)}
    return frozenset(found)


def parse_jobs(text: str) -> list[Job]:
    """Parse `squeue --format=%i|%u|%N|%j`; the name comes last, because it may contain any character."""
    jobs = []
    for line in records(text, r"[\w\[\],%+.-]+\|[^|]*\|[^|]*\|"):
        fields = line.split("|", 3)
        if len(fields) != 4:
            raise SlurmError(f"squeue: cannot parse line {line!r} as id|user|nodes|name - check the Slurm version")
        jobs.append(Job(*fields))
    return jobs


def named(jobs: list[Job]) -> str:
    """Return the first jobs, and the number of the others."""
    rest = f" and {len(jobs) - JOBS_SHOWN} more" if len(jobs) > JOBS_SHOWN else ""
    return ", ".join(str(job) for job in jobs[:JOBS_SHOWN]) + rest


def warning(node: Node) -> str:
    """Return why a node is out of service, and until when."""
    until = "returns to service when that check passes" if node.is_unwell else "out of service until an administrator resumes it"
    return f"{node}: {until}"


class Slurm:
    """Access slurmctld through its commands."""

    def call(self, *words: str) -> str:
        """Return the output of a command. Raise SlurmError if it fails."""
        try:
            done = subprocess.run(
                words, capture_output=True, encoding="utf-8", errors="replace", check=False, stdin=subprocess.DEVNULL, timeout=60
            )
        except FileNotFoundError:
            raise SlurmError(f"{words[0]}: command not found - install slurm-client on this node") from None
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{' '.join(words)}: no answer in 60 s - see `journalctl -u slurmctld`") from None
        if done.returncode:
            message = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
            raise SlurmError(f"{' '.join(words)}: {message} - check that slurmctld runs; see `journalctl -u slurmctld`")
        return done.stdout

    def nodes(self) -> dict[str, Node]:
        """Return all nodes known to Slurm."""
        return parse_nodes(self.call("scontrol", "--oneliner", "--all", "show", "nodes"))

    def jobs_on(self, names: Iterable[str]) -> list[Job]:
        """Return jobs on the nodes, without pending ones."""
        listing = self.call(
            "squeue", "--noheader", "--all", f"--states={ON_NODES}", f"--nodelist={','.join(names)}", "--format=%i|%u|%N|%j"
        )
        return parse_jobs(listing)

    def update(self, names: Iterable[str], state: str, reason: str = "") -> None:
        """Set the state of nodes."""
        words = ["scontrol", "update", f"NodeName={','.join(names)}", f"State={state}"]
        self.call(*words, *([f"Reason={reason}"] if reason else []))


class Service:
    """Change the nodes of one task, and record the actions."""

    def __init__(self, slurm: Slurm, nodes: list[str], check: bool) -> None:
        self.slurm = slurm
        self.names = nodes
        self.check = check
        self.actions: list[str] = []
        self.held: list[str] = []
        self.warnings: list[str] = []
        self.lifted: set[str] = set()
        self.found: dict[str, str] = {}

    def known(self) -> dict[str, Node]:
        """Return those of the task's nodes that are known to Slurm."""
        everything = self.slurm.nodes()
        known = {name: everything[name] for name in self.names if name in everything}
        self.found = {**{name: str(node) for name, node in known.items()}, **self.found}
        return known

    def changed_hosts(self) -> dict[str, str]:
        """Return the changed nodes with their initial state."""
        names = [action.partition(": ")[0] for action in self.actions]
        return {name: self.found.get(name, "not known to Slurm") for name in names}

    def set(self, names: list[str], action: str, state: str, reason: str = "") -> None:
        """Record an action on nodes, and execute it outside check mode."""
        if not names:
            return
        self.actions += [f"{name}: {action}" for name in names]
        if not self.check:
            self.slurm.update(names, state, reason)

    def drain(self, reason: str, timeout: int) -> None:
        """Drain the nodes, and wait until their jobs have ended."""
        nodes = self.known()
        taking = [
            name for name, node in nodes.items() if "DRAIN" not in node.state or node.is_unwell
        ]  # an unhealthy node may lift its drain itself
        self.set(taking, "drain", "DRAIN", f"{OURS} {reason}")
        if not nodes or self.check:
            return
        until = time.monotonic() + timeout
        while jobs := self.slurm.jobs_on(nodes):
            if time.monotonic() > until:
                raise SlurmError(
                    f"{', '.join(nodes)}: still occupied after {timeout} s by job {named(jobs)}"
                    " - wait for these jobs or cancel them with scancel, then run again; the nodes stay drained"
                )
            time.sleep(0.5)

    def remove(self, reason: str) -> None:
        """Set the nodes to DOWN, so that Slurm does not wait for them."""
        nodes = self.known()
        self.set([name for name, node in nodes.items() if "DOWN" not in node.state], "down", "DOWN", f"{OURS} {reason}")

    def resume(self, timeout: int) -> None:
        """Wait until the nodes are registered, and resume those that rackwright may resume."""
        until = time.monotonic() + timeout
        while True:
            nodes = self.known()
            unknown = [name for name in self.names if name not in nodes]
            if unknown and not self.check:
                raise SlurmError(f"{', '.join(unknown)}: not in Slurm's configuration - check that the controller was configured")
            waiting = self.lift(nodes) + unknown
            if not waiting:
                return
            if self.check:
                self.actions += [f"{name}: wait for its registration" for name in waiting]
                return
            if time.monotonic() > until:
                raise SlurmError(f"{'; '.join(str(nodes[name]) for name in waiting)} after {timeout} s - see `journalctl -u slurmd` there")
            time.sleep(0.1)

    def lift(self, nodes: dict[str, Node]) -> list[str]:
        """Resume the nodes that may be resumed; return the nodes to wait for."""
        held = [node for node in nodes.values() if node.is_held and not node.is_ours]
        self.held, self.warnings = [str(node) for node in held], [warning(node) for node in held]
        ours = [name for name, node in nodes.items() if node.is_held and node.is_ours]
        ready = [name for name in ours if nodes[name].is_registered]
        self.set([name for name in ready if name not in self.lifted], "resume", "RESUME")
        self.lifted.update(ready)
        given_up = [name for name in ours if nodes[name].is_given_up]
        self.set([name for name in given_up if name not in self.lifted], "resume a node that slurmctld gave up", "RESUME")
        self.lifted.update(given_up)
        lost = [name for name, node in nodes.items() if not node.is_registered and (node.is_ours or not node.is_held)]
        return lost + ([] if self.check else ready)


def apply(service: Service, wanted: dict[str, Any]) -> None:
    """Bring the nodes into the declared state."""
    if not wanted["nodes"]:
        return
    if wanted["state"] == "drained":
        service.drain(wanted["reason"], wanted["timeout"])
    elif wanted["state"] == "absent":
        service.remove(wanted["reason"])
    else:
        service.resume(wanted["timeout"])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    service = Service(Slurm(), module.params["nodes"], bool(module.check_mode))
    result: dict[str, Any] = {}
    failure = ""
    # Check mode does not wait for these units, and attributes nothing to the nodes: the task that restarts a unit reports it.
    if module.check_mode and (suspended := suspended_units("munge.service", "slurmctld.service")):
        module.exit_json(
            changed=False, actions=[], changed_hosts={}, held=[], msg=f"not queried in check mode, because {'; '.join(suspended)}"
        )
    try:
        apply(service, module.params)
    except SlurmError as error:
        failure = str(error)
    result.update(actions=service.actions, changed_hosts=service.changed_hosts(), held=service.held, changed=bool(service.actions))
    if service.held:
        result["warnings"] = service.warnings
    if module._diff and service.actions:
        result["diff"] = {"prepared": "".join(f"{action}\n" for action in service.actions)}
    if failure and module.check_mode:
        module.exit_json(
            **{**result, "changed": True}, msg=f"cannot be queried in check mode, because a run starts slurmctld first: {failure}"
        )
    if failure:
        module.fail_json(msg=failure, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
