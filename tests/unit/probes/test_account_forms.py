"""Accounts as distributions, packages, directory services and administrators write them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_users
from rackwright.checks.cluster.probes.accounts import ACCOUNTS, parse_accounts
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
ALICE = SimpleNamespace(name="a.lee", uid=70011, gid=70011, shell="/bin/bash", admin=True, groups=["team"], ssh_keys=["ssh-ed25519 AAAA a"])
GIVEN = {
    "node": SimpleNamespace(user="rocky", name="w0"),
    "cluster": SimpleNamespace(users=[ALICE], user_groups=[SimpleNamespace(name="team", gid=10100)]),
}
CHECKS = (
    test_users.test_uids_match_plan,
    test_users.test_shells_match_plan,
    test_users.test_groups_match_plan,
    test_users.test_keys_match_plan,
    test_users.test_homes_belong_to_their_users,
    test_users.test_no_unmanaged_accounts,
    test_users.test_no_password_is_empty,
    test_users.test_single_uid_zero,
    test_users.test_admins_match_plan,
)


def answer(passwd="", empty="", group="", homes="", keys=""):
    return (
        f"== passwd\nroot:x:0:0:root:/root:/bin/bash\nrocky:x:1000:1000::/home/rocky:/bin/bash\n"
        f"a.lee:x:70011:70011:A Lee:/home/a.lee:/bin/bash\n{passwd}== empty\n{empty}== shadow 9\n"
        f"== group\nroot:x:0:\nwheel:x:10:rocky,a.lee\nteam:x:10100:a.lee\n{group}== homes\n/home/a.lee|70011|700|directory\n{homes}"
        f"== keys\na.lee|ssh-ed25519 AAAA a\n{keys}"
    )


def judged(text):
    return {check.__name__[5:]: verdict_of(check, answers_of({ACCOUNTS: text}), **GIVEN)[0] for check in CHECKS}


def others(found, *names):
    return {verdict for name, verdict in found.items() if name not in names}


PACKAGES = {
    "nobody-of-debian": "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "nobody-of-old-el": "nfsnobody:x:65534:65534:Anonymous:/var/lib/nfs:/sbin/nologin\n",
    "nobody-of-32-bits": "nfsnobody:x:4294967294:4294967294::/:/sbin/nologin\n",
    "snapd": "snap_daemon:x:584788:584788::/nonexistent:/usr/bin/false\n",
    "libvirt": "libvirt-qemu:x:64055:994:Libvirt Qemu,,,:/var/lib/libvirt:/usr/sbin/nologin\n",
    "systemd-homed": "systemd-x:x:61184:61184::/:/usr/sbin/nologin\n",
    "machine-account": "W0$:x:996:996::/var/lib/w0:/sbin/nologin\n",
    "nis": "+::::::\n+@staff::::::\n-guest::::::\n",
    "comment": "# local accounts follow\n\r\n",
}


@pytest.mark.parametrize("case", PACKAGES)
def test_account_of_a_package_is_no_person(case):
    assert others(judged(answer(passwd=PACKAGES[case]))) == {PASSED}


@pytest.mark.parametrize(
    "line",
    [
        "eve:x:1001:1001::/home/eve:/bin/bash\n",
        "Eve.Adams:x:1002:1002::/home/eve:/bin/zsh\n",
        "eve:x:70012:70012::/home/eve:/bin/bash\n",
        "eve:x:65536:65536::/home/eve:/bin/sh\n",
        "eve:x:1500000001:1500000001::/home/eve:\n",
        "eve:x:1003:1003::/home/eve:/sbin/nologin\n",
        "CORP\\eve:*:1600000001:1600000001::/home/CORP/eve:/bin/bash\n",
        "eve:x:1004:1004::/home/eve:/bin/bash\r\n",
    ],
)
def test_unplanned_person_is_reported(line):
    found = judged(answer(passwd=line))
    assert found["no_unmanaged_accounts"] is FAILED and others(found, "no_unmanaged_accounts") == {PASSED}


@pytest.mark.parametrize("line", ["eve:x:1001\n", "eve:x:abc:1::/home/eve:/bin/sh\n", "eve:x:1001:1001:a:b:/home/eve:/bin/sh\n"])
def test_unread_account_is_unknown_alone(line):
    found = judged(answer(passwd=line))
    assert {name for name, verdict in found.items() if verdict is UNKNOWN} == {
        "no_unmanaged_accounts",
        "single_uid_zero",
        "homes_belong_to_their_users",
        "admins_match_plan",
    }
    assert others(found, "no_unmanaged_accounts", "single_uid_zero", "homes_belong_to_their_users", "admins_match_plan") == {PASSED}
    assert judged(answer(passwd=f"{line}toor:x:0:0::/root:/bin/sh\n"))["single_uid_zero"] is FAILED


def test_unread_planned_account_is_unknown():
    found = judged(answer().replace("a.lee:x:70011:70011:A Lee", "a.lee:x:?:70011:A Lee"))
    assert (found["uids_match_plan"], found["shells_match_plan"], found["keys_match_plan"]) == (UNKNOWN, UNKNOWN, PASSED)


def test_missing_account_fails():
    found = judged(answer().replace("a.lee:x:70011:70011:A Lee:/home/a.lee:/bin/bash\n", ""))
    assert (found["uids_match_plan"], found["homes_belong_to_their_users"]) == (FAILED, FAILED)


@pytest.mark.parametrize(
    ("line", "verdict"),
    [("wheel:x:10:eve\n", FAILED), ("wheel:x:10:a.lee\n", PASSED), ("sudo:x:27\n", PASSED), ("CORP\\domain users:*:5000:u\n", PASSED)],
)
def test_members_of_all_lines_are_admins(line, verdict):
    found = judged(answer(group=line))
    assert found["admins_match_plan"] is verdict and others(found, "admins_match_plan") == {PASSED}


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"group": "admin:x:110:eve\n"}, FAILED),
        ({"passwd": "eve:x:999:10::/home/eve:/bin/bash\n"}, FAILED),
        ({"passwd": "rocky:x:1000:10::/home/rocky:/bin/bash\n"}, PASSED),
    ],
    ids=["admin-of-ubuntu", "primary-group", "login-user"],
)
def test_every_way_to_become_root_is_judged(more, verdict):
    assert judged(answer(**more))["admins_match_plan"] is verdict


def test_first_line_of_a_group_is_not_lost():
    found = judged(answer(group="team:x:10100:\n"))
    assert found["groups_match_plan"] is PASSED


def test_unread_group_is_unknown_alone():
    found = judged(answer(group="gpu:x:?:eve\n"))
    assert found["admins_match_plan"] is UNKNOWN and others(found, "admins_match_plan") == {PASSED}


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({"empty": "eve\n"}, FAILED),
        ({"passwd": "svc::998:998::/:/bin/sh\n"}, FAILED),
        ({"empty": "+\n+@staff\n"}, PASSED),
    ],
    ids=["shadow", "passwd", "nis"],
)
def test_account_without_password_is_reported(more, verdict):
    assert judged(answer(**more))["no_password_is_empty"] is verdict


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("a.lee|   # laptop\n", PASSED),
        ('a.lee|from="10.0.0.0/8",command="ssh-add -l" ssh-ed25519 AAAA a\r\n', PASSED),
        ("a.lee|ssh-rsa BBBB\n", FAILED),
        ("a.lee|sk-ssh-ed25519@openssh.com CCCC\n", FAILED),
        ("eve|ssh-rsa BBBB\n", FAILED),
        ("a.lee|-----BEGIN PUBLIC KEY-----\n", UNKNOWN),
    ],
)
def test_keys_of_any_form_are_compared(line, verdict):
    found = judged(answer(keys=line))
    assert found["keys_match_plan"] is verdict and others(found, "keys_match_plan") == {PASSED}


def test_warning_hides_no_missing_key():
    assert judged(answer() + "a warning\n")["keys_match_plan"] is PASSED
    assert judged(answer().replace("a.lee|ssh-ed25519 AAAA a\n", "a warning\n"))["keys_match_plan"] is UNKNOWN
    assert judged(answer().replace("a.lee|ssh-ed25519 AAAA a\n", ""))["keys_match_plan"] is FAILED
    keyless = SimpleNamespace(users=[SimpleNamespace(name="a.lee", ssh_keys=[])])
    for text, verdict in ((answer().replace("a.lee|ssh-ed25519 AAAA a\n", ""), PASSED), (answer(), FAILED)):
        assert verdict_of(test_users.test_keys_match_plan, answers_of({ACCOUNTS: text}), cluster=keyless)[0] is verdict
    assert judged(answer()[:-3])["keys_match_plan"] is UNKNOWN


def test_empty_shell_is_the_default_shell():
    text = answer().replace("/home/a.lee:/bin/bash", "/home/a.lee:")
    assert parse_accounts(text).accounts["a.lee"].shell == ""
    assert judged(text)["shells_match_plan"] is FAILED
    cluster = SimpleNamespace(users=[SimpleNamespace(**{**vars(ALICE), "shell": "/bin/sh"})])
    assert verdict_of(test_users.test_shells_match_plan, answers_of({ACCOUNTS: text}), cluster=cluster)[0] is PASSED
