"""The table of commands."""

from __future__ import annotations

from typing import Final

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "new": ("rackwright.cli.new:new", "Create a project folder with a stack file, for clusters of one repository."),
    "validate": ("rackwright.cli.validate:validate", "Check a stack file offline and report every error."),
    "plan": ("rackwright.cli.plan:plan", "Show the nodes, addresses, storage and queues that a stack file expands to."),
    "impact": ("rackwright.cli.impact:impact", "Preview what an edited stack file will change."),
    "fabric": ("rackwright.cli.fabric:fabric", "Plan the GPU network: switches, cables, growth; compare it with a real one."),
    "workloads": ("rackwright.cli.workloads:workloads", "Print Kubernetes manifests of jobs, queues and services for a stack."),
    "cost": ("rackwright.cli.cost:cost", "Show the cost of a running stack."),
    "pin-images": ("rackwright.cli.pin_images:pin", "Write the ids of the newest machine images into a stack file (target aws)."),
    "up": ("rackwright.cli.up:up", "Create, configure and verify a stack (pulumi up)."),
    "rolling-update": ("rackwright.cli.rolling_update:roll", "Update or reboot workers in batches: drain, apply, verify, resume."),
    "verify": ("rackwright.cli.verify:verify", "Check a running stack against its plan."),
    "acceptance": ("rackwright.cli.acceptance:accept", "Run the acceptance test: jobs of an unprivileged user, phase by phase."),
    "drift": ("rackwright.cli.drift:drift", "Compare a running stack with its declaration."),
    "drift-history": ("rackwright.cli.drift_history:history", "Show the history of drift: first seen, still open, resolved."),
    "drift-schedule": ("rackwright.cli.drift_schedule:schedule", "Schedule a nightly drift scan (systemd, cron or GitHub Actions)."),
    "hardware": ("rackwright.cli.hardware:hardware", "Show each node's hardware and compare it with the plan."),
    "demo": ("rackwright.cli.demo:demo", "Train a small model on a running stack, with checkpoints, and report loss, speed and goodput."),
    "chaos": ("rackwright.cli.chaos:chaos", "Inject failures into a running lab, undo them, and report what they cost."),
    "checkpoints": ("rackwright.cli.checkpoints:checkpoints", "Verify the checkpoints of a training run."),
    "status": ("rackwright.cli.status:status", "Show the last verdict, its level and its age."),
    "monitor": ("rackwright.cli.monitor:monitor", "Open metrics, alerts and boards of a running stack in the browser."),
    "runs": ("rackwright.cli.runs:runs", "List the last runs that applied the playbooks, and print the complete record of one."),
    "logs": ("rackwright.cli.logs:logs", "Show log entries of all nodes by time, and why a job ended."),
    "jobs": ("rackwright.cli.jobs:jobs", "List running jobs, and name those that hang or straggle."),
    "power": ("rackwright.cli.power:power", "Query or change the power of existing machines through their BMCs."),
    "ssh": ("rackwright.cli.ssh:ssh", "Log in to a node, or run a command on it."),
    "inventory": ("rackwright.cli.inventory:inventory", "Print the Ansible inventory of a running stack."),
    "export": ("rackwright.cli.export:export", "Write configuration of a stack for other systems of the site."),
    "down": ("rackwright.cli.down:down", "Delete a stack (pulumi destroy), or all resources with its label."),
    "hosts": ("rackwright.cli.hosts:hosts", "Import existing machines and run preflight checks on them."),
    "destroy-expired": ("rackwright.cli.destroy_expired:reap", "Destroy all stacks whose TTL has expired."),
    "runner": ("rackwright.cli.runner:runner", "Register the GitHub Actions runners of a stack, or remove them."),
    "etcd": ("rackwright.cli.etcd:etcd", "Back up or restore etcd."),
    "state": ("rackwright.cli.state:state", "Back up, restore or migrate the state and keys of all stacks."),
    "schema": ("rackwright.cli.schema:schema", "Print the JSON schema of stack files, for editors."),
}
"""Command -> (module:function, one line of help), in the order of the help text."""
