"""Only the entry answers outside; tried from outside, beside a control that does answer."""

from __future__ import annotations

from cluster.probes.access import FROM_MACHINE, FROM_STRANGER, PUBLISHED, SSH_SAYS


def test_published_port_answers(ask, expect):
    """The one way in."""
    said = ask(PUBLISHED)
    expect(said or "no answer", f"{SSH_SAYS}…", holds=said.startswith(SSH_SAYS))


def test_this_machine_is_refused(from_outside, expect):
    """The lab's machine is no member of the cluster: it has the published port and no other way."""
    said = from_outside(FROM_MACHINE, beside=PUBLISHED)
    expect(said or "no answer", "no answer", holds=not said)


def test_strangers_are_refused(from_outside, expect):
    """A container on another network tries the node's ssh port; that the entry answers it shows that it could."""
    said = from_outside(FROM_STRANGER, beside=FROM_STRANGER)
    expect(said or "no answer", "no answer", holds=not said)
