"""User namespaces: settings, AppArmor and the trial."""

from __future__ import annotations

import pytest

from bootstrap.machine_checks import user_namespaces
from bootstrap.machine_checks.finding import Level
from bootstrap.machine_checks.observation import Output
from bootstrap.machine_checks.user_namespaces import Settings

PODMAN = "/usr/bin/podman"
WORKS = Output(0, "", "")
UBUNTU = Output(1, "", "unshare: write failed /proc/self/uid_map: Operation not permitted\n")
OLD_DEBIAN = Output(1, "", "unshare: unshare failed: Operation not permitted\n")
PROFILE = """# This profile allows everything and only exists to give the
# application a name instead of having the label "unconfined"

abi <abi/4.0>,
include <tunables/global>

profile podman /usr/bin/podman flags=(unconfined) {
  userns,

  # Site-specific additions and overrides. See local/README for details.
  include if exists <local/podman>
}
"""
GOOD = Settings(most=96365, clone=None, restricted=None, allows_podman=False, trial=WORKS)


@pytest.mark.parametrize(
    ("settings", "level", "words"),
    [
        (GOOD, Level.OK, "tried"),
        (GOOD._replace(clone=1, restricted=0), Level.OK, "tried"),
        (GOOD._replace(most=0), Level.ERROR, "user.max_user_namespaces"),  # RHEL 7
        (GOOD._replace(clone=0, trial=OLD_DEBIAN), Level.ERROR, "kernel.unprivileged_userns_clone"),  # Debian 10
        (GOOD._replace(restricted=1, allows_podman=True, trial=UBUNTU), Level.OK, "allowed for /usr/bin/podman"),  # Ubuntu 24.04
        (GOOD._replace(restricted=1, trial=UBUNTU), Level.ERROR, "restricted by AppArmor"),
        (GOOD._replace(restricted=1, trial=WORKS), Level.OK, "tried"),
        (GOOD._replace(restricted=1, trial=None), Level.ERROR, "restricted by AppArmor"),
        (GOOD._replace(trial=OLD_DEBIAN), Level.ERROR, "unshare failed: Operation not permitted"),  # seccomp of a container
        (GOOD._replace(trial=None), Level.UNKNOWN, "not installed"),
        (GOOD._replace(trial=Output(124, "", "no answer within 60 s")), Level.UNKNOWN, "no answer within 60 s"),
        (GOOD._replace(most=None, trial=None), Level.UNKNOWN, "cannot be read"),
    ],
)
def test_user_namespaces_are_judged(settings: Settings, level: Level, words: str) -> None:
    finding = user_namespaces.judge_user_namespaces(settings, PODMAN)
    assert finding.level is level
    assert words in finding.found


@pytest.mark.parametrize(
    ("profile", "podman", "allowed"),
    [
        (PROFILE, PODMAN, True),
        (PROFILE, "/usr/local/bin/podman", False),
        (PROFILE.replace("/usr/bin/podman", "/usr/{bin,local/bin}/podman"), "/usr/local/bin/podman", True),
        (PROFILE.replace("/usr/bin/podman", "/usr/{bin,local/bin}/podman"), PODMAN, True),
        ("profile podman /usr/bin/podman flags=(unconfined) { userns, }\n", PODMAN, True),
        (PROFILE.replace("  userns,", "  # userns,"), PODMAN, False),
        ("", PODMAN, False),
        ("profile podman @{bin}/podman flags=(unconfined) {\n  userns,\n}\n", PODMAN, True),
        ("/usr/bin/podman flags=(unconfined) {\n  userns create,\n}\n", PODMAN, True),
        ("profile podman /{,usr/}bin/podman {\n  userns,\n}\n", "/usr/local/bin/podman", False),
        ("profile podman-remote /usr/bin/podman-remote {\n  userns,\n}\n", PODMAN, False),
    ],
)
def test_apparmor_profile_is_read(profile: str, podman: str, allowed: bool) -> None:
    assert user_namespaces.allows(profile, podman) is allowed


def test_switched_off_setting_is_fixed_for_good() -> None:
    finding = user_namespaces.judge_user_namespaces(GOOD._replace(most=0), PODMAN)
    assert finding.commands[0] == "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-rackwright-namespaces.conf"


def test_written_profile_is_one_that_allows() -> None:
    command = user_namespaces.judge_user_namespaces(GOOD._replace(restricted=1, trial=UBUNTU), PODMAN).commands[0]
    assert user_namespaces.allows(command.split("'")[1].replace(r"\n", "\n"), PODMAN)


def test_settings_and_trial_are_read(make_machine) -> None:
    machine = make_machine(
        {"/proc/sys/user/max_user_namespaces": "96365\n", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
        {"unshare": "echo 'unshare: write failed /proc/self/uid_map: Operation not permitted' >&2; exit 1"},
    )
    assert [each.level for each in user_namespaces.check_user_namespaces(machine)] == [Level.ERROR]
    machine = make_machine({"/etc/apparmor.d/podman": PROFILE})
    assert [each.level for each in user_namespaces.check_user_namespaces(machine)] == [Level.OK]
    machine = make_machine({"/etc/apparmor.d/disable/podman": ""})
    assert [each.level for each in user_namespaces.check_user_namespaces(machine)] == [Level.ERROR]
