"""Which requests from inside the cluster the power agent honours, and which containers it may touch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rackwright.drivers.podman import Container
from rackwright.provider.lab.power_requests import Request, is_met, refusal, requests, settle

SECOND = 1_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A controller's file system with both folders, and nothing wanted."""
    for wish in ("suspend", "resume"):
        (tmp_path / "root/var/lib/rackwright/power" / wish).mkdir(parents=True)
    return tmp_path / "root"


def ask(root: Path, wish: str, node: str, at: int = 1) -> Path:
    """A request file, made `at` seconds after 1970."""
    file = root / "var/lib/rackwright/power" / wish / node
    file.write_text("2026-11-21T16:00:00Z\n")
    os.utime(file, ns=(at * SECOND, at * SECOND))
    return file


def container(stack: str = "lab", node: str = "worker0", **different: object) -> Container:
    """A running worker that started at 2026-11-21T16:00:00Z."""
    labels = {"rackwright.stack": stack, "rackwright.node": node}
    usual = {"running": True, "paused": False, "started_at": "2026-11-21T16:00:00.123456789Z", "image": "", "labels": labels}
    return Container(id="1" * 64, name=f"{stack}-{node}", **{**usual, **different})  # type: ignore[arg-type]


def test_what_is_wanted_of_the_stack_s_workers(root: Path) -> None:
    ask(root, "suspend", "worker0")
    ask(root, "resume", "worker1")
    assert requests(str(root), {"worker0", "worker1"}) == [Request("resume", "worker1", SECOND), Request("suspend", "worker0", SECOND)]


@pytest.mark.parametrize("name", ["login0", "worker9", "other-worker0", "worker0.x", ".worker0", "--all", "worker0 worker1", "wörker0"])
def test_a_name_that_is_no_worker_of_the_plan_is_not_looked_at(root: Path, name: str) -> None:
    ask(root, "suspend", name)
    assert requests(str(root), {"worker0", "worker1"}) == []


@pytest.mark.parametrize("name", ["..", ".", "../../../../../../etc/passwd"])
def test_a_path_is_no_name_even_where_the_plan_would_have_it(root: Path, name: str) -> None:
    """Nothing is opened under a name: it has to be found in the folder's own listing."""
    assert requests(str(root), {name}) == []


@pytest.mark.parametrize(("earlier", "later"), [("suspend", "resume"), ("resume", "suspend")])
def test_the_later_of_two_opposite_wishes_holds(root: Path, earlier: str, later: str) -> None:
    ask(root, later, "worker0", at=5)
    ask(root, earlier, "worker0", at=4)
    assert requests(str(root), {"worker0"}) == [Request(later, "worker0", 5 * SECOND)]


@pytest.mark.parametrize("linked", ["var", "var/lib", "var/lib/rackwright/power", "var/lib/rackwright/power/suspend"])
def test_a_link_on_the_way_leads_nowhere(root: Path, tmp_path: Path, linked: str) -> None:
    """From outside it would lead into this machine's own files."""
    own = tmp_path / "machine"
    (root / linked).rename(own)
    (root / linked).symlink_to(own)
    file = own / Path("var/lib/rackwright/power/suspend").relative_to(linked) / "worker0"
    file.write_text("")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        requests(str(root), {"worker0"})
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        settle(str(root), Request("suspend", "worker0", file.stat().st_mtime_ns))
    assert file.exists()


def test_what_is_no_plain_file_is_no_request(root: Path, tmp_path: Path) -> None:
    folder = root / "var/lib/rackwright/power/suspend"
    (folder / "worker0").mkdir()
    (folder / "worker1").symlink_to("/etc/passwd")
    os.mkfifo(folder / "worker2")
    assert requests(str(root), {"worker0", "worker1", "worker2"}) == []


def test_a_controller_without_the_folders_wants_nothing(tmp_path: Path) -> None:
    assert requests(str(tmp_path), {"worker0"}) == []


def test_a_request_that_was_met_is_removed_and_a_newer_one_is_kept(root: Path) -> None:
    file = ask(root, "resume", "worker0", at=1)
    settle(str(root), Request("resume", "worker0", 2 * SECOND))
    assert file.exists()
    settle(str(root), Request("resume", "worker0", SECOND))
    assert not file.exists()
    settle(str(root), Request("resume", "worker0", SECOND))


def test_the_node_s_own_container_may_be_touched() -> None:
    assert refusal("lab", "worker0", container()) is None
    assert refusal("lab", "worker0", container(running=False)) is None


@pytest.mark.parametrize(
    "found",
    [
        container(stack="other"),
        container(node="worker1"),
        container(node="login0"),
        container(labels={}),
        container(labels={"rackwright.stack": "lab"}),
        container(paused=True),
        None,
    ],
)
def test_any_other_container_is_left_alone(found: Container | None) -> None:
    assert refusal("lab", "worker0", found)


def test_a_node_is_up_once_it_has_started_after_it_was_asked_for() -> None:
    """Slurm waits for a boot: a container that runs since before was never stopped."""
    started = 1_795_276_800 * SECOND
    assert is_met(Request("resume", "worker0", started), container())
    assert not is_met(Request("resume", "worker0", started + SECOND), container())
    assert not is_met(Request("resume", "worker0", started), container(running=False))


def test_a_node_is_off_once_it_does_not_run() -> None:
    assert is_met(Request("suspend", "worker0", SECOND), container(running=False))
    assert not is_met(Request("suspend", "worker0", SECOND), container())
