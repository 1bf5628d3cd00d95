"""`rackwright state migrate`: every stack over, none replaced, and again after a failure. A stand-in answers for the engine."""

from __future__ import annotations

import fcntl
import json
import sys
from pathlib import Path

import pytest
from support.cli import Run

from rackwright.drivers import pulumi
from rackwright.inventory import paths
from rackwright.operations.state import migrate

from .homes import go_to, write

STAND_IN = f"""\
#!{sys.executable}
import json, os, pathlib, sys
_, group, verb, *rest = sys.argv
assert group == "stack" and rest[-3:] == ["--non-interactive", "--color", "never"] and pathlib.Path("Pulumi.yaml").exists()
root = pathlib.Path(os.environ["PULUMI_BACKEND_URL"].removeprefix("file://"))
said = dict(zip(rest, rest[1:]))
file = root / ".pulumi/stacks/rackwright" / (said.get("--stack", "") + ".json")
with open(os.environ["CALLS"], "a") as calls:
    print(json.dumps([verb, root.name, said.get("--stack"), os.environ.get("PULUMI_CONFIG_PASSPHRASE_FILE")]), file=calls)
if [verb, file.stem] == os.environ.get("FAILS", "").split():
    sys.exit("warning: something\\nerror: no way to " + verb + "\\nmore about it\\n")
if verb == "ls":
    print(json.dumps([{{"name": "organization/rackwright/" + found.stem}} for found in file.parent.glob("*.json")]))
elif verb == "export":
    print(file.read_text())
elif verb == "init":
    assert said["--secrets-provider"] == "passphrase"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('{{"deployment": {{}}}}')
else:
    assert verb == "import"
    file.write_text(pathlib.Path(said["--file"]).read_text())
"""


def deployment(urn: str) -> str:
    """A deployment with one resource."""
    return json.dumps({"version": 3, "deployment": {"resources": [{"urn": urn, "id": "1", "inputs": {"secret": "ciphertext"}}]}})


@pytest.fixture(name="home")
def two_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two stacks, and the stand-in for the engine."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    stand_in = tmp_path / "pulumi"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    monkeypatch.setattr(pulumi, "executable", lambda: stand_in)
    made = go_to(tmp_path / "home", monkeypatch, "one", "two")
    for stack in ("one", "two"):
        write(made, f".engine/state/.pulumi/stacks/rackwright/{stack}.json", deployment(stack))
    (tmp_path / "there").mkdir()
    return made


def states(there: Path) -> dict[str, str]:
    """What a backend has."""
    return {file.stem: file.read_text() for file in (there / ".pulumi/stacks/rackwright").glob("*.json")}


def calls(tmp_path: Path) -> list[list[str]]:
    """What the engine was asked."""
    return [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]


def test_every_stack_is_over_and_the_user_knows_what_is_next(
    state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative folder is the user's, not the engine's; the passphrase stays; the old state stays."""
    monkeypatch.chdir(tmp_path)
    ended = state("migrate", "file://./there")
    url = f"file://{tmp_path}/there"
    assert (ended.code, ended.err) == (0, "")
    assert states(tmp_path / "there") == states(home / ".engine/state") == {"one": deployment("one"), "two": deployment("two")}
    old = f"PULUMI_BACKEND_URL=file://{home}/.engine/state pulumi stack rm --force"
    assert ended.out.splitlines() == [
        f"{url}: contains the state of all stacks of {home}",
        "stack one: moved",
        "stack two: moved",
        f"  run `pulumi login {url}` or `export PULUMI_BACKEND_URL={url}`; otherwise pulumi continues to use the old state",
        f"  the passphrase is still the one in {home}/.engine/passphrase; pulumi finds it automatically on this machine",
        f"  the old state is kept; to delete it, run `{old} one`",
        f"  the old state is kept; to delete it, run `{old} two`",
    ]
    assert {call[3] for call in calls(tmp_path)} == {str(home / ".engine/passphrase")}
    assert not list((home / ".engine").glob("move-*"))


def test_again_after_a_failure(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own words; what is over is left alone, an empty stack is filled."""
    monkeypatch.setenv("FAILS", "import two")
    ended = state("migrate", f"file://{tmp_path}/there")
    assert (ended.code, ended.out) == (1, "")
    hint = "fix the error and run the same command again; stacks that were moved are skipped, the old state is unchanged"
    assert ended.err == f"file://{tmp_path}/there: `pulumi stack import`: no way to import\n  {hint}\n"
    monkeypatch.delenv("FAILS")
    (tmp_path / "calls").unlink()
    ended = state("migrate", f"file://{tmp_path}/there", "--json")
    assert json.loads(ended.out)["stacks"] == [{"stack": "one", "already": True}, {"stack": "two", "already": False}]
    assert [call[:3] for call in calls(tmp_path) if call[0] in ("init", "import")] == [["import", "there", "two"]]
    assert states(tmp_path / "there") == states(home / ".engine/state")


def test_no_stack_is_replaced(state: Run, home: Path, tmp_path: Path) -> None:
    """Refused before the first is moved."""
    write(tmp_path / "there", ".pulumi/stacks/rackwright/two.json", deployment("somebody's"))
    ended = state("migrate", f"file://{tmp_path}/there")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(
        f"file://{tmp_path}/there: already has a stack two with other resources; nothing was moved\n  if that stack is obsolete, run "
    )
    assert states(tmp_path / "there") == {"two": deployment("somebody's")}


def test_whose_passphrase(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On other backends the shim gives none, so the user must; one of the user's own is passed on."""
    monkeypatch.setattr(migrate, "migrate", lambda url: [])
    then = json.loads(state("migrate", "s3://bucket", "--json").out)["next"]
    assert f"`export PULUMI_CONFIG_PASSPHRASE_FILE={home}/.engine/passphrase`" in then[1]


def test_the_user_s_own_passphrase(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is passed on as it is."""
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE_FILE", "/mine")
    ended = state("migrate", f"file://{tmp_path}/there")
    assert "the passphrase is still the one of your environment" in ended.out
    assert {call[3] for call in calls(tmp_path)} == {"/mine"}


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("there", "there: is not the URL of a backend\n  pass a URL like file:///folder, s3://bucket"),
        ("file://", "file://: is not the URL of a backend\n"),
        ("file:///no/such/folder", "file:///no/such/folder: folder does not exist\n  run `mkdir -p -m 700 /no/such/folder`\n"),
        ("file://{home}/.engine/../.engine/state?no_tmp_dir=true", "is the current backend\n"),
    ],
)
def test_addresses(state: Run, home: Path, address: str, words: str) -> None:
    """Judged before the engine is asked."""
    ended = state("migrate", address.format(home=home))
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_nothing_to_move_and_a_run_at_work(state: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither reaches the engine."""
    with paths.lock_file("two").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert state("migrate", f"file://{tmp_path}/there").err.startswith(f"{home}/two/.lock: another run is changing stack two")
    go_to(tmp_path / "empty", monkeypatch)
    assert state("migrate", f"file://{tmp_path}/there").err.startswith(f"{tmp_path}/empty: state directory has no Pulumi state to move\n")
    assert not (tmp_path / "calls").exists()
