"""The program that creates MIG instances, with a stand-in of nvidia-smi: formats of NVIDIA's MIG User Guide, invented addresses."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.damage import damages

from rackwright.derive.mig import layout
from rackwright.model.groups import Gpus

FILE = Path(__file__).parents[2] / "roles" / "gpu" / "files" / "rackwright_mig.py"
IDS = {"1g.10gb": 19, "1g.20gb": 15, "2g.20gb": 14, "3g.40gb": 9, "4g.40gb": 5, "7g.80gb": 0}
SIZES = {"1g.10gb": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 4, "4g.40gb": 4, "7g.80gb": 8}


class Driver:
    """GPUs with MIG, whose device files have the opposite order of nvidia-smi's indices."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        self.folder = folder
        self.buses = [f"0000{number:04X}:A{number}:00.0" for number in range(count)]
        self.mode = dict.fromkeys(self.buses, "Disabled")
        self.sticks = False
        """Whether a change of the mode waits for a reset."""
        self.made: dict[str, list[tuple[str, int, int]]] = {bus: [] for bus in self.buses}
        self.computes = True
        self.calls: list[tuple[str, ...]] = []
        for index in range(count):
            place = folder / "proc" / "gpus" / f"{index:04x}:a{index}:00.0"
            place.mkdir(parents=True)
            (place / "information").write_text(f"Model: \t\t NVIDIA H100 80GB HBM3\nDevice Minor: \t {count - 1 - index}\n")
        (folder / "dev" / "nvidia-caps").mkdir(parents=True)

    def minor(self, bus: str) -> int:
        """Number of the device file."""
        return len(self.buses) - 1 - self.buses.index(bus)

    def __call__(self, *command: str) -> str:
        """Answer a command; RuntimeError of the program where the real one fails."""
        self.calls.append(command)
        if command[0] == "nvidia-modprobe":
            number = Path(command[2]).read_text().split()[1]
            (self.folder / "dev" / "nvidia-caps" / f"nvidia-cap{number}").touch()
            return ""
        assert command[0] == "nvidia-smi", command
        words = list(command[1:])
        if words[0].startswith("--query-gpu"):
            pending = {bus: "Enabled" if self.sticks and self.mode[bus] == "Disabled" else self.mode[bus] for bus in self.buses}
            return "".join(f"{index}, {bus}, {self.mode[bus]}, {pending[bus]}\n" for index, bus in enumerate(self.buses))
        bus = words[words.index("-i") + 1] if "-i" in words else ""
        if "-mig" in words:
            if not self.sticks:
                self.mode[bus] = "Enabled" if words[-1] == "1" else "Disabled"
            return f"Enabled MIG Mode for GPU {bus}\nAll done.\n"
        return self.instance_command(words, bus)

    def instance_command(self, words: list[str], bus: str) -> str:
        """`nvidia-smi mig`."""
        assert words[0] == "mig"
        if "-lgi" in words or "-lci" in words:
            if "Enabled" not in self.mode.values():
                raise TOOL.MigError("nvidia-smi mig: No MIG-enabled devices found.")
            shown = self.table(gpu="-lgi" in words)
            if not shown:
                raise TOOL.MigError(f"nvidia-smi mig: No {'GPU' if '-lgi' in words else 'compute'} instances found: Not Found")
            return shown
        if "-dci" in words:
            self.computes = False
        elif "-dgi" in words:
            self.made[bus] = []
        elif "-cgi" in words:
            assert words[-1] == "-C" and self.mode[bus] == "Enabled" and not self.made[bus]
            for number, one in enumerate(words[words.index("-cgi") + 1].split(",")):
                profile, start = one.split(":")
                self.made[bus].append((profile, int(start), 13 - number))
                self.capability(self.minor(bus), 13 - number)
            self.computes = True
        return ""

    def capability(self, minor: int, number: int) -> None:
        """Files of an instance as the driver makes them."""
        folder = self.folder / "proc" / "capabilities" / f"gpu{minor}" / "mig" / f"gi{number}"
        (folder / "ci0").mkdir(parents=True, exist_ok=True)
        base = 3 + 135 * minor + 9 * number
        for file, device in ((folder / "access", base), (folder / "ci0" / "access", base + 1)):
            file.write_text(f"DeviceFileMinor: {device}\nDeviceFileMode: 256\nDeviceFileModify: 1\n")

    def table(self, *, gpu: bool) -> str:
        """The table of GPU instances or of compute instances."""
        rows = []
        for index, bus in enumerate(self.buses):
            for profile, start, number in self.made[bus]:
                if gpu:
                    place = f"{start}:{SIZES[profile]}"
                    rows.append(f"|   {index}  MIG {profile:<12} {IDS[profile]:>3}       {number:>2}          {place}     |")
                elif self.computes:
                    rows.append(f"|   {index}     {number:>2}       MIG {profile:<12}     0         0     |")
        return table(*rows) if rows else ""


def table(*rows: str) -> str:
    """A table of `nvidia-smi mig` with rows."""
    line = "+-------------------------------------------------------+"
    heads = ["| GPU   Name             Profile  Instance   Placement  |", "|                          ID       ID       Start:Size |"]
    return "\n".join([line, *heads, f"|{'=' * 55}|", *(part for row in rows for part in (row, line)), ""])


def load() -> ModuleType:
    """The program as a module."""
    spec = importlib.util.spec_from_loader("rackwright_mig", importlib.machinery.SourceFileLoader("rackwright_mig", str(FILE)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load()


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Two whole GPUs."""
    made = Driver(tmp_path)
    monkeypatch.setattr(TOOL, "run", made)
    monkeypatch.setattr(TOOL, "DRIVER", str(tmp_path / "proc"))
    monkeypatch.setattr(TOOL, "DEVICES", str(tmp_path / "dev"))
    monkeypatch.setattr(TOOL, "LINKS", str(tmp_path / "links"))
    monkeypatch.setattr(TOOL, "MONITORS", ())
    return made


def planned(mig: Any, count: int = 2) -> str:
    """The layout of a plan, as the role passes it."""
    gpus = layout(Gpus(model="h100", count=count, mig=mig))
    return json.dumps([[one._asdict() for one in gpu] for gpu in gpus] or [[]] * count)


def changes(driver: Driver) -> list[tuple[str, ...]]:
    """Commands that change something."""
    return [call for call in driver.calls if {"-mig", "-cgi", "-dgi", "-dci"} & set(call)]


def test_instances_are_created_and_linked(driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned({"3g.40gb": 1, "1g.10gb": 2})
    assert TOOL.main(["check", plan]) == 1
    assert capsys.readouterr().out == "GPU 0: MIG is disabled\nGPU 1: MIG is disabled\n"
    assert TOOL.main(["apply", plan]) == 0
    for made in driver.made.values():
        assert [(profile, start) for profile, start, _ in made] == [("3g.40gb", 0), ("1g.10gb", 4), ("1g.10gb", 5)]
    links = {link.name: link.readlink().name for link in (tmp_path / "links").iterdir()}
    assert links["gpu-instance0-0"] == "nvidia-cap120" and links["compute-instance1-2"] == "nvidia-cap238"
    assert len(links) == 12 and all(link.exists() for link in (tmp_path / "links").iterdir())


def test_second_run_changes_nothing(driver: Driver) -> None:
    plan = planned("3g.40gb")
    assert TOOL.main(["apply", plan]) == 0
    driver.calls.clear()
    assert TOOL.main(["apply", plan]) == 0 and TOOL.main(["check", plan]) == 0
    assert changes(driver) == []


def test_looking_changes_nothing(driver: Driver) -> None:
    assert TOOL.main(["check", planned("3g.40gb")]) == 1
    assert changes(driver) == []


def test_only_the_gpu_that_differs_is_divided_again(driver: Driver) -> None:
    """Device file 0 is the second GPU of nvidia-smi."""
    assert TOOL.main(["apply", planned([{"devices": [0], "profiles": {"1g.10gb": 7}}])]) == 0
    first, second = driver.buses
    assert (driver.mode[first], driver.mode[second]) == ("Disabled", "Enabled") and len(driver.made[second]) == 7
    driver.calls.clear()
    assert TOOL.main(["apply", planned([{"devices": [0], "profiles": {"1g.10gb": 7}}, {"profiles": {"7g.80gb": 1}}])]) == 0
    assert {call[call.index("-i") + 1] for call in changes(driver)} == {first}


def test_gpus_become_whole_without_a_declaration(driver: Driver, tmp_path: Path) -> None:
    assert TOOL.main(["apply", planned("2g.20gb")]) == 0
    assert TOOL.main(["apply", planned(None)]) == 0
    assert set(driver.mode.values()) == {"Disabled"} and list((tmp_path / "links").iterdir()) == []


def test_instance_without_compute_instance_is_created_again(driver: Driver) -> None:
    plan = planned("3g.40gb")
    TOOL.main(["apply", plan])
    driver.computes = False
    assert TOOL.main(["check", plan]) == 1
    assert TOOL.main(["apply", plan]) == 0


def test_links_are_renewed_when_numbers_change(driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned("7g.80gb")
    TOOL.main(["apply", plan])
    for bus in driver.buses:
        driver.made[bus] = [(profile, start, 0) for profile, start, _ in driver.made[bus]]
        driver.capability(driver.minor(bus), 0)
    assert TOOL.main(["check", plan]) == 1 and "links" in capsys.readouterr().out
    assert TOOL.main(["apply", plan]) == 0
    assert (tmp_path / "links" / "gpu-instance0-0").readlink().name == "nvidia-cap3"


def test_mode_that_waits_for_a_reset_is_an_error(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    driver.sticks = True
    assert TOOL.main(["check", planned("3g.40gb")]) == 1
    assert TOOL.main(["apply", planned("3g.40gb")]) == 3
    assert "reboot the node" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "[Not Supported]"])
@pytest.mark.parametrize("message", ["No MIG-enabled devices found.", "No MIG-supported devices found."])
def test_gpu_without_mig_is_whole(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*command: str) -> str:
        if command[1] == "mig":
            raise TOOL.MigError(f"nvidia-smi mig: {message}")
        return driver(*command).replace("Disabled", word)

    monkeypatch.setattr(TOOL, "run", answer)
    assert TOOL.main(["check", planned(None)]) == 0 and TOOL.main(["apply", planned(None)]) == 0
    assert TOOL.main(["check", planned("3g.40gb")]) == 3 and "the GPU has no MIG" in capsys.readouterr().err
    assert TOOL.main(["apply", planned("3g.40gb")]) == 3 and changes(driver) == []


def test_gpu_without_mig_beside_divided_one(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Device file 0 is the second GPU of nvidia-smi."""
    plan = planned([{"devices": [0], "profiles": {"1g.10gb": 7}}])
    monkeypatch.setattr(TOOL, "run", lambda *command: driver(*command).replace("Disabled, Disabled\n1", "[N/A], [N/A]\n1"))
    assert TOOL.main(["apply", plan]) == 0 and TOOL.main(["check", plan]) == 0
    assert {call[call.index("-i") + 1] for call in changes(driver)} == {driver.buses[1]}


def test_missing_pending_mode_is_no_change(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TOOL, "run", lambda *command: driver(*command).replace("Disabled\n", "[N/A]\n"))
    assert TOOL.main(["check", planned(None)]) == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("0, 0000:A0:00.0, [N/A], Enabled\n", "MIG mode of a GPU cannot be read"),
        ("0, 0000:A0:00.0, [Unknown Error], [N/A]\n", "MIG mode of a GPU cannot be read"),
        ("Unable to determine the device handle for GPU0: Unknown Error\n", "MIG mode of a GPU cannot be read"),
        ("", "nvidia-smi lists the GPUs []"),
    ],
)
def test_mode_that_cannot_be_read_is_an_error(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, answer: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TOOL, "run", lambda *command: answer if command[1].startswith("--query") else driver(*command))
    assert TOOL.main(["check", planned("3g.40gb")]) == 3
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("text", ["| GPU instances: |\n", "|   0  MIG 3g.40gb  9  1\n", "Insufficient Permissions\n"])
def test_table_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(TOOL.MigError):
        TOOL.instances(text)


THREE = table("|   7  MIG 1g.24gb+me.all    65        5          6:3     |", "|   7  MIG 2g.48gb-me         5        1          0:6     |")


def test_profiles_of_other_products_are_read() -> None:
    assert TOOL.instances(f"Warning: persistence mode is disabled\n{THREE}") == [(7, "1g.24gb+me.all", 6, 5), (7, "2g.48gb-me", 0, 1)]


def test_damaged_table_loses_no_instance() -> None:
    """An instance that is not read differs from the plan, and its GPU is divided again."""
    whole = TOOL.instances(THREE)
    for damaged in damages(THREE):
        try:
            found = TOOL.instances(damaged.text)
        except TOOL.MigError:
            continue
        ends_with_a_row = damaged.what.startswith("cut") and damaged.text.rstrip().endswith("-+")  # as a shorter table does
        assert len(found) == len(whole) or not damaged.text.strip() or ends_with_a_row, damaged.what


def test_list_that_prints_nothing_is_an_error(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TOOL, "run", lambda *command: " \n" if command[1] == "mig" else driver(*command))
    assert TOOL.main(["check", planned("3g.40gb")]) == 3


def test_other_number_of_gpus_is_an_error(driver: Driver) -> None:
    assert TOOL.main(["check", planned("3g.40gb", count=3)]) == 3


def test_part_of_an_instance_is_no_compute_instance_of_its_size() -> None:
    text = table(
        "|   0      1       MIG 1c.3g.40gb       0         0          0:1     |",
        "|   0      2       MIG 3g.40gb          2         0          0:3     |",
    )
    assert TOOL.occupied(text) == [(0, 2)]
