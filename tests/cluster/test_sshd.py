"""Every node is entered by key only, and is the node whose key is pinned."""

from __future__ import annotations

from cluster.probes.sshd import HOST_KEYS, OFFER, SETTINGS, parse_known_hosts
from rackwright.errors import CouldNotTell


def test_passwords_are_refused(ask, expect):
    """Passwords are guessed all day long on anything that is published."""
    names = ("passwordauthentication", "kbdinteractiveauthentication", "permitemptypasswords")
    settings = ask(SETTINGS)
    expect({name: settings.get(name) for name in names}, dict.fromkeys(names, "no"))


def test_root_needs_a_key(ask, expect):
    """Root's password must not open a node even where somebody has set one."""
    found = ask(SETTINGS)["permitrootlogin"]
    allowed = ("without-password", "prohibit-password", "forced-commands-only", "no")
    expect(found, "prohibit-password or stricter", holds=found in allowed)


def test_running_server_wants_keys(ask, expect):
    """The settings on disk are not those of a server that was not told to read them."""
    expect(ask(OFFER), ("publickey",))


def test_host_key_is_the_pinned_one(node, ask, judge, expect):
    """A key that was replaced makes the next connection refuse; this says it before, and for the key on disk."""
    pinned = pinned_keys(judge)[f"{judge.declared.stack}-{node.name}"]  # the alias the hand-over pins a key under
    found = ask(HOST_KEYS).public
    expect({kind: found.get(kind) for kind in pinned}, pinned)


def test_host_keys_are_private(ask, expect):
    """Whoever reads a host key can be that node."""
    expect(ask(HOST_KEYS).exposed, ())


def test_entry_forwards(ask, expect):
    """All other nodes are reached through the entry: without forwarding it is a dead end."""
    expect(ask(SETTINGS).get("allowtcpforwarding"), "yes")


def pinned_keys(judge):
    """Keys by type by node, from the known_hosts file beside the ssh configuration."""
    file = judge.ssh_config.with_name("known_hosts")
    try:
        return parse_known_hosts(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CouldNotTell(f"the pinned keys cannot be read: {error}") from None
