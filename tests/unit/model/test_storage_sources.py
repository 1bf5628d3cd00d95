"""Sources of existing file systems: the forms of mount.nfs(8) and mount.lustre(8), and what a systemd unit would read otherwise."""

from __future__ import annotations

import pytest
from pydantic_core import PydanticCustomError

from rackwright.model.storage.sources import is_ipv6, parse_lustre_source, parse_nfs_source

NFS = ("nas.example.org:/export/home", "10.0.0.1:/", "[2001:db8::7]:/images", "nas:/vol/a_b-c.d+e", "fs-0a.efs.eu-west-1.amazonaws.com:/")
LUSTRE = (
    "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch",
    "10.0.0.1@tcp,10.1.0.1@o2ib1:10.0.0.2@tcp0:/fs/projects/a",
    "mgs1.example.org@tcp:/lustre",
    "100.97.192.61@o2ib:100.97.192.62@o2ib:/shRoce02/c6ceb324",
)


def refusal(parse, text):
    with pytest.raises(PydanticCustomError) as refused:
        parse(text)
    context = refused.value.context
    return f"{context['cause']} {context['hint']}"


@pytest.mark.parametrize(("parse", "text"), [*((parse_nfs_source, one) for one in NFS), *((parse_lustre_source, one) for one in LUSTRE)])
def test_source_is_kept_as_written(parse, text):
    assert parse(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nas", "write server:/folder"),
        ("nas:export", "write server:/folder"),
        ("nfs://nas/export", "write nas:/export"),
        ("2001:db8::7:/images", "write [2001:db8::7]:/images"),
        ("[fe80::1]:/images", "link-local"),
        ("[nas]:/images", "nas is not an IPv6 address"),
        ("300.0.0.1:/images", "300.0.0.1 is not an IPv4 address"),
        ("nas1,nas2:/images", "name one server"),
        ("nas:/a b", "is not a source"),
        ("nas:/%h", "is not a source"),
        ("nas:/a\nOptions=suid", "is not a source"),
        ("nas:/a/../b", "contains `//`, `.` or `..`"),
        ("nas:/a//b", "contains `//`, `.` or `..`"),
        (7, "is not a source"),
    ],
)
def test_nfs_source_is_refused(text, words):
    assert words in refusal(parse_nfs_source, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.0.0.1@o2ib:scratch", "is not a source"),
        ("10.0.0.1:/scratch", "'10.0.0.1' in '10.0.0.1:/scratch' is not an LNet NID"),
        ("10.0.0.1@ib:/scratch", "is not an LNet NID"),
        ("10.0.0.999@tcp:/scratch", "10.0.0.999 is not an IPv4 address"),
        ("[2001:db8::7]@tcp:/scratch", "Lustre before 2.16"),
        ("10.0.0.1@tcp:/toolongname", "is not a source"),
        ("10.0.0.1@tcp:/fs/../b", "contains `//`, `.` or `..`"),
        (None, "is not a source"),
    ],
)
def test_lustre_source_is_refused(text, words):
    assert words in refusal(parse_lustre_source, text)


def test_ipv6_is_recognized_by_its_brackets():
    assert [is_ipv6(text) for text in ("[2001:db8::7]:/images", "10.0.0.1:/images")] == [True, False]
