"""Every node accepts keys only, and has the pinned host key."""

from __future__ import annotations

from rackwright.checks.cluster.harness.arguments import Ask, Record
from rackwright.checks.cluster.harness.compare import Expect
from rackwright.checks.cluster.harness.pytest_plugin import CheckPlugin
from rackwright.checks.cluster.probes.sshd import HOST_KEYS, OFFER, SETTINGS, parse_known_hosts
from rackwright.checks.cluster.probes.units import SSH_SERVERS, SUSPENDED, UNITS
from rackwright.errors import UndeterminedError


def test_password_auth_disabled(ask: Ask, expect: Expect) -> None:
    """Published SSH ports are under constant password guessing."""
    names = ("passwordauthentication", "kbdinteractiveauthentication", "permitemptypasswords")
    settings = ask(SETTINGS)
    expect({name: settings.get(name) for name in names}, dict.fromkeys(names, "no"))


def test_root_login_key_only(ask: Ask, expect: Expect) -> None:
    """A root password must not permit login, even if one is set."""
    found = ask(SETTINGS)["permitrootlogin"]
    allowed = ("without-password", "prohibit-password", "forced-commands-only", "no")
    expect(found, "prohibit-password or stricter", holds=found in allowed)


def test_running_config_current(ask: Ask, expect: Expect) -> None:
    """The running server uses the settings on disk only after a reload."""
    expect(ask(OFFER), ("publickey",))


def test_host_key_matches_pinned_key(node: Record, ask: Ask, check_plugin: CheckPlugin, expect: Expect) -> None:
    """A replaced key makes the next connection fail; the check compares the key on disk, which sshd loads at its next start."""
    alias = f"{check_plugin.declared.stack}-{node.name}"  # under which the inventory pins a key
    try:
        pinned = pinned_keys(check_plugin)[alias]
    except KeyError:
        raise UndeterminedError(f"known_hosts has no key of {alias}") from None
    found = ask(HOST_KEYS).public
    expect({kind: found.get(kind) for kind in pinned}, pinned)


def test_host_keys_are_private(ask: Ask, expect: Expect) -> None:
    """A user who reads a host key can impersonate the node."""
    expect(ask(HOST_KEYS).exposed, ())


def test_daemon_responds(ask: Ask, expect: Expect) -> None:
    """Open connections continue without the daemon, so that the failure appears at the next login."""
    units = ask(UNITS)
    # systemctl prints an alias under the name of its unit
    states = [units[name].state for name in SSH_SERVERS if name in units and units[name].state != "not-found"]
    if not states or units.unread:
        raise UndeterminedError(f"systemd shows neither {' nor '.join(SSH_SERVERS)} on this node, or a line cannot be read")
    expect(", ".join(dict.fromkeys(states)), "not suspended", holds=SUSPENDED.isdisjoint(states))


def test_login_allows_tcp_forwarding(ask: Ask, expect: Expect) -> None:
    """All other nodes are reached through the jump host, which must permit TCP forwarding."""
    expect(ask(SETTINGS).get("allowtcpforwarding"), "yes")


def pinned_keys(check_plugin: CheckPlugin) -> dict[str, dict[str, str]]:
    """Return the keys by node and type, from the known_hosts file beside the SSH configuration."""
    file = check_plugin.ssh_config.with_name("known_hosts")
    try:
        return parse_known_hosts(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UndeterminedError(f"the pinned keys cannot be read: {error}") from None
