"""The same questions from inside a job on every worker: programs may see less there than the node has."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from rackwright.checks.cluster.harness.probe import GPU_TOOL_SECONDS, CommandOutput, Probe, ProbeContext
from rackwright.checks.cluster.harness.probe_runner import ProbeRunner
from rackwright.checks.cluster.probes.smoke import decisive, parts, runner
from rackwright.checks.hardware.collection import facts_of, probes_of
from rackwright.errors import InputError
from rackwright.inventory.reader import Inventory
from rackwright.remote.command import python_command
from rackwright.report.hardware.document import CollectedFacts
from rackwright.report.hardware.facts import Part

_PATIENCE: Final = 10
"""Seconds a job may wait for its node; a node that runs another user's job stays unknown."""
_ROUND: Final = GPU_TOOL_SECONDS
"""Seconds that the commands may take inside a job."""
_WORKERS: Final = 4
"""Commands that run at a time on a node, as in a verification (checks/cluster/harness/transport.py)."""


class Jobs(Probe[dict[str, str]]):
    """The output of the jobs, by node. Used by one report only, so that it is not registered among the checks' questions."""

    def __post_init__(self) -> None:
        """Skip the registration."""


def collect_in_jobs(declared: Inventory, ssh_config: Path, parts: Collection[Part]) -> dict[str, CollectedFacts]:
    """Run one job per worker, all at once, as an ordinary user; a node without a job gets the message of srun as its reason."""
    if not declared.members("@submit"):
        raise InputError(
            "has no login node to submit from",
            path=f"stack {declared.stack}",
            hint="omit --in-job: rackwright then queries the nodes over SSH",
        )
    submitter = declared.members("@submit")[0]
    question = Jobs(
        "hardware-jobs", on="@submit", command=lambda place: _script(place, parts), parse=by_node, timeout=_PATIENCE + _ROUND + 10
    )
    runner = ProbeRunner(declared, ssh_config, [question])
    runner.start()
    output = runner.answer(question, submitter)
    return {
        name: facts_from_output(output.get(name, ""), [question.name for question in probes_of(declared, name, parts)])
        for name in workers(declared)
    }


def workers(declared: Inventory) -> tuple[str, ...]:
    """Return the nodes on which jobs run."""
    return tuple(node["name"] for node in declared.cluster["scheduler"]["nodes"] if node["name"] in declared.nodes)


def by_node(text: str) -> dict[str, str]:
    """Return the text of lines `node text`, joined by node.

    >>> by_node("w0 a\\nw1 b\\nw0 c")
    {'w0': 'a\\nc', 'w1': 'b'}
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        node, _, rest = line.partition(" ")
        found.setdefault(node, []).append(rest)
    return {node: "\n".join(lines) for node, lines in found.items()}


def facts_from_output(said: str, questions: Collection[str]) -> CollectedFacts:
    """Return a job's lines as facts: JSON lines are answers, all others are messages of srun."""
    answers: dict[str, CommandOutput] = {}
    rest = []
    for line in said.splitlines():
        answer = _answer(line)
        if "name" in answer:
            answers[answer["name"]] = CommandOutput(**{key: value for key, value in answer.items() if key != "name"})
        elif not answer:
            rest.append(line)
    trouble = f"no job ran there: {decisive(chr(10).join(rest)) or 'srun printed nothing'}"
    return facts_of({name: answers.get(name, CommandOutput(error=trouble)) for name in questions})


def _answer(line: str) -> dict[str, Any]:
    """Return a line of the round; empty if it is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _script(place: ProbeContext, requested: Collection[Part]) -> str:
    """Return a shell script that starts all jobs. Each writes to a file of its own: on one pipe their long lines would interleave.

    Equal nodes share one command: the script is one argument on the submitting node, which Linux limits to 128 KiB.
    """
    alike: dict[str, list[str]] = {}
    for part in parts(place):
        for name in part["nodes"]:
            alike.setdefault(_job(place.declared, part["partition"], name, requested), []).append(name)
    jobs = [f'for one in {" ".join(names)}; do ask "$one" {command} & done' for command, names in alike.items()]
    script = "\n".join(
        [
            "results=$(mktemp -d)",
            "slowness=${RACKWRIGHT_SLOWNESS:-1}",
            "ask() { node=$1; shift; timeout -s INT "
            f"$(({_PATIENCE + _ROUND:.0f} * slowness)) srun -Q --immediate=$(({_PATIENCE} * slowness)) --nodes=1 --ntasks=1 --exclusive "
            '--mem=0 --time=1 -w "$node" "$@" 2>&1 | sed "s/^/$node /" >"$results/$node"; }',
            *jobs,
            "wait",
            'cat "$results"/*; rm -r "$results"',
        ]
    )
    user = runner(place)
    return f"{f'runuser -u {user} -- ' if user else ''}sh -c {shlex.quote(script)}"


def _job(declared: Inventory, partition: str, name: str, parts: Collection[Part]) -> str:
    """Return srun's options for a job, and the command that queries its node."""
    here: Any = SimpleNamespace(declared=declared, node=declared.nodes[name])
    questions = [[question.name, question.command_at(here), question.timeout_at(here)] for question in probes_of(declared, name, parts)]
    request = {"seconds": _ROUND, "workers": _WORKERS, "questions": questions}
    gpus: Mapping[str, Any] = declared.nodes[name].get("gpus") or {}
    gres = f" --gres=gpu:{gpus['count']}" if gpus.get("count") else ""
    return f"--partition={partition}{gres} {python_command('commands', request)}"
