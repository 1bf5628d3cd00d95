"""Only the entry answers outside; tried from outside, beside a control that does answer."""

from __future__ import annotations

from cluster.probes.access import FROM_MACHINE, FROM_STRANGER, PUBLISHED
from rackwright.errors import CouldNotTell

SSH_SAYS = "SSH-2.0"


def test_published_port_answers(ask, expect):
    """The one way in."""
    said = ask(PUBLISHED)
    expect(said or "no answer", f"{SSH_SAYS}…", holds=said.startswith(SSH_SAYS))


def test_this_machine_is_refused(node, judge, ask, cluster, expect):
    """The lab's machine is no member of the cluster: it has the published port and no other way."""
    _require_control(ask, PUBLISHED, cluster.access.entry[0])
    _require_voice(judge, node)
    said = ask(FROM_MACHINE)
    expect(said or "no answer", "no answer", holds=not said)


def test_strangers_are_refused(node, judge, ask, cluster, expect):
    """A container on another network tries the node's ssh port; that the entry answers it shows that it could."""
    _require_control(ask, FROM_STRANGER, cluster.access.entry[0])
    _require_voice(judge, node)
    said = ask(FROM_STRANGER)
    expect(said or "no answer", "no answer", holds=not said)


def _require_control(ask, outlook, entry):
    if not ask(outlook, of=entry).startswith(SSH_SAYS):
        raise CouldNotTell(f"not even {entry} answered from there, so silence proves nothing")


def _require_voice(judge, node):
    if not judge.place(node.name).speaks(node.name):
        raise CouldNotTell(f"{node.name} does not even answer inside the cluster, so silence proves nothing")
