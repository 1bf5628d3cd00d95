"""Kernel settings, huge pages and limits of every node that is tuned, against the plan."""

from __future__ import annotations

from cluster.probes.tuning import LIMITS, PAGES, PROFILE, SETTINGS


def test_huge_pages_match_plan(node_stack, ask, expect):
    """The kernel gives as many as it finds room for, and says nothing of the rest."""
    found = ask(PAGES).reserved
    planned = vars(node_stack.tuning.hugepages)
    expect({size: number for size, number in found.items() if number}, {size: number for size, number in planned.items() if number})


def test_transparent_huge_pages_match_plan(node_stack, ask, expect):
    """A daemon or a person may have chosen otherwise since."""
    planned = node_stack.tuning.transparent_hugepages
    found = ask(PAGES).transparent
    expect(found, planned or found)


def test_profile_is_kept(ask, expect):
    """Another profile undoes what this one set."""
    expect(ask(PROFILE), "rackwright")


def test_kernel_settings_match_plan(node_stack, ask, expect):
    """The last who wrote a setting is right, until the next start."""
    planned = {name: " ".join(str(value).split()) for name, value in vars(node_stack.tuning.sysctl).items()}
    expect(ask(SETTINGS), planned)


def test_services_may_use_what_is_planned(node_stack, ask, expect):
    """Memory that RDMA cannot pin is a job that fails at its start."""
    found = ask(LIMITS)
    planned = {name: _bytes(name, value) for name, value in vars(node_stack.tuning.limits).items()}
    expect({name: found.get(name) for name in planned}, planned)


def _bytes(name, value):
    """As systemd counts: limits.conf counts memory in KiB."""
    return str(value * 1024 if name in ("memlock", "stack") and isinstance(value, int) else value)
