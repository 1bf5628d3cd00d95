"""The long form of nvidia-smi: recovery actions, GPUs that do not respond, and modules of other drivers."""

from __future__ import annotations

import pytest
from support.verdicts import answers_of, verdict_of

from rackwright.checks.cluster import test_software
from rackwright.checks.cluster.harness.tool_output import UnreadableValue
from rackwright.checks.cluster.probes.gpu import parse_repairs
from rackwright.checks.cluster.probes.software import LOADED
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN
GPU = "GPU 00000000:{}:00.0\n    Product Name : NVIDIA H100\n    GPU Virtualization Mode\n        Virtualization Mode : None\n{}"
NONE = "    GPU Recovery Action : None\n"


def repairs(*actions, head=None, tail=""):
    text = "".join(GPU.format(bus, action) for bus, action in zip(("1A", "2B", "34"), actions, strict=False))
    return parse_repairs(f"Attached GPUs : {head or len(actions)}\n{text}{tail}")


@pytest.mark.parametrize(
    ("rows", "needed"),
    [
        (NONE, "nothing"),
        ("    GPU Recovery Action : Reset\n", "Reset"),
        ("    GPU Recovery Action : Reboot\n", "Reboot"),
        ("    GPU Recovery Action : Drain P2P\n", "Drain P2P"),
        ("    GPU Recovery Action : Drain and Reset\n", "Drain and Reset"),
        ("    GPU Recovery Action : GPU Reset Required\n", "GPU Reset Required"),
        ("    GPU Reset Status\n        Reset Required : No\n        Drain and Reset Recommended : No\n", "nothing"),
        ("    GPU Reset Status\n        Reset Required : N/A\n        Drain and Reset Recommended : N/A\n", "nothing"),
        ("    GPU Reset Status\n        Reset Required : Yes\n        Drain and Reset Recommended : N/A\n", "Reset"),
        ("    GPU Reset Status\n        Reset Required : No\n        Drain and Reset Recommended : Yes\n", "Drain and Reset"),
        (f"    GPU Reset Status\n        Reset Required : Requested functionality has been deprecated\n{NONE}", "nothing"),
        (f"    GPU Reset Status\n        Reset Required : Yes\n{NONE}", "Reset"),
    ],
)
def test_recovery_action_is_read_of_each_release(rows, needed):
    assert [repair.needed for repair in repairs(rows, NONE)] == [needed, "nothing"]


@pytest.mark.parametrize(
    "rows", ["", "    GPU Recovery Action : ERR!\n", "    GPU Reset Status\n        Reset Required : [Unknown Error]\n"]
)
def test_action_that_was_not_read_is_unknown(rows):
    first, second = repairs(rows, NONE)
    assert isinstance(first.needed, UnreadableValue) and second.needed == "nothing"


LOST = "Unable to determine the device handle for GPU 0000:34:00.0: GPU is lost.  Reboot the system to recover this GPU\n"


@pytest.mark.parametrize("head", [2, 3])
def test_gpu_that_does_not_respond_leaves_the_others_sure(head):
    """Drivers count it among the attached GPUs, or do not."""
    found = repairs(NONE, NONE, head=head, tail=LOST)
    assert (len(found), found.lost, found.unsure) == (2, ("0000:34:00.0",), ())


def test_gpu_whose_values_are_lost_does_not_respond():
    found = repairs(NONE, NONE, "    Serial Number : GPU is lost\n    GPU Recovery Action : [GPU is lost]\n")
    assert (len(found), found.lost, found.unsure) == (2, ("00000000:34:00.0",), ())


def test_missing_block_is_noticed():
    assert repairs(NONE, NONE, head=3).unsure


MODULES = "nvidia 9728000 12 nvidia_uvm, Live 0x0 (OE)\nnvidia_uvm 4968448 4 - Live 0x0 (OE)\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (MODULES, PASSED),
        (f"{MODULES}nouveau 3096576 0 - Live 0x0\n", FAILED),
        (f"{MODULES}nova_core 122880 0 - Live 0x0\n", FAILED),
        (f"a warning of the shell\n{MODULES}", UNKNOWN),
        (f"a warning of the shell\n{MODULES}nouveau 3096576 0 - Live 0x0\n", FAILED),
        (f"{MODULES}nouv", UNKNOWN),
        ("\n", UNKNOWN),
    ],
)
def test_module_of_another_driver_fails(text, verdict):
    assert verdict_of(test_software.test_nouveau_not_loaded, answers_of({LOADED: text}))[0] is verdict
