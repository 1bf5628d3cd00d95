"""Every question has an answer that is read, and one that is refused: a parser that accepts anything would hide broken tools."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from support.rows import each_row

from rackwright.checks.cluster import probes
from rackwright.checks.cluster.harness.probe import PROBES, CommandOutput
from rackwright.errors import UndeterminedError

probes.load()
FOLDER = Path(__file__).parents[1] / "captured"
TAKES_ANY_TEXT = {
    "hosts": "whatever stands in the file is what it says",
    "gpu-xids": "lines that are no XID errors are other lines of the log",
    "amd-errors": "the same",
}


@each_row("name", PROBES)
def test_good_answers_are_read(name):
    """Outputs of healthy nodes."""
    files = sorted((FOLDER / name).glob("good*.txt"))
    assert files, f"no captured output of {name}"
    for file in files:
        PROBES[name].read(CommandOutput(out=file.read_text(encoding="utf-8"), rc=min(PROBES[name].statuses)))


@each_row("name", sorted(set(PROBES) - set(TAKES_ANY_TEXT)))
def test_broken_answers_are_refused(name):
    """Outputs of broken tools, with an exit status that does not show it."""
    files = sorted((FOLDER / name).glob("broken*.txt"))
    assert files, f"no broken output of {name}"
    for file in files:
        with pytest.raises(UndeterminedError):
            PROBES[name].read(CommandOutput(out=file.read_text(encoding="utf-8"), rc=min(PROBES[name].statuses)))


def test_every_captured_answer_has_its_question():
    """Folder names are names of questions."""
    assert {folder.name for folder in FOLDER.iterdir()} <= set(PROBES)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (CommandOutput(error="worker0 is unreachable: Connection timed out"), "unreachable"),
        (CommandOutput(rc=127, err="sh: 1: nvidia-smi: not found"), "is not installed"),
        (CommandOutput(rc=126, err="sh: 1: nvidia-smi: Permission denied"), "cannot be executed"),
        (CommandOutput(rc=4, out="Insufficient Permissions"), "ended with status 4: Insufficient Permissions"),
    ],
)
def test_missing_answer_leaves_check_unknown(raw, words):
    """Unreachable, missing, forbidden, failed: each is unknown with its reason."""
    with pytest.raises(UndeterminedError, match=words):
        PROBES["gpus"].read(raw)


def test_docstring_examples_hold():
    """Run the `>>>` lines of parsers and of the harness."""
    import doctest

    root = Path(sys.modules["rackwright.checks.cluster"].__file__).parent
    for file in sorted([*root.glob("probes/*.py"), root / "harness" / "compare.py", root / "harness" / "pytest_plugin.py"]):
        module = importlib.import_module(f"rackwright.checks.cluster.{file.parent.name}.{file.stem}".replace(".__init__", ""))
        failed, _ = doctest.testmod(module)
        assert not failed, file.name
