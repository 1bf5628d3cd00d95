"""Kernel settings, huge pages and limits of every tuned node, compared with the plan."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.tool_output import Lines, UnreadableValue
from rackwright.checks.cluster.probes.tuning import LIMITS, PAGES, PROFILE, SETTINGS


def test_huge_pages_match_plan(node_stack: Record, ask: Ask, expect: Expect) -> None:
    """The kernel reserves as many huge pages as fit, and reports no shortfall."""
    found = ask(PAGES).reserved
    planned = vars(node_stack.tuning.hugepages)
    shown = {size: number for size, number in found.items() if isinstance(number, UnreadableValue) or number}
    expect(shown, {size: number for size, number in planned.items() if number})


def test_transparent_huge_pages_match_plan(node_stack: Record, ask: Ask, expect: Expect) -> None:
    """A daemon or an administrator may have changed the setting since."""
    planned = node_stack.tuning.transparent_hugepages
    found = ask(PAGES).transparent
    expect(found, planned or found)


def test_profile_is_kept(ask: Ask, expect: Expect) -> None:
    """Another tuned profile undoes the settings of this one."""
    expect(ask(PROFILE), "rackwright")


def test_kernel_settings_match_plan(node_stack: Record, ask: Ask, expect: Expect) -> None:
    """The last program to write a setting wins, until the next boot."""
    planned = {name.replace("/", "."): " ".join(str(value).split()) for name, value in vars(node_stack.tuning.sysctl).items()}
    expect(ask(SETTINGS), planned)


def test_service_limits_match_plan(node_stack: Record, ask: Ask, expect: Expect) -> None:
    """A job that cannot lock memory for RDMA fails at its start."""
    found = ask(LIMITS)
    planned = {name: _bytes(name, value) for name, value in vars(node_stack.tuning.limits).items()}
    expect(Lines({name: found[name] for name in planned if name in found}, found.unread), planned)


def _bytes(name: str, value: int | str) -> str:
    """Convert limits.conf's KiB to systemd's bytes."""
    return str(value * 1024 if name in ("memlock", "stack") and isinstance(value, int) else value)
