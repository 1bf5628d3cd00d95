"""The stops of a value: what counts as one, what is read in place, and what is another value."""

from __future__ import annotations

from pathlib import Path

import pytest
from journeys.__main__ import main
from journeys.source import Layers, Package
from journeys.table import Route, read_routes
from journeys.walk import Journey, walk

LAYERS = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["shop.front", "(shop.stock) | shop.till", "shop.names"]
"""
NAMES = """
def shelf(item):
    return "/shelves/" + item

def read(item):
    text = open(item)
    return text
"""


def journey(folder: Path, front: str, **modules: str) -> tuple[Journey, Layers]:
    """Follow `item` from `shop.front:sell` through a package of these modules."""
    (folder / "shop").mkdir()
    for name, text in {"__init__": "", "front": front, "names": NAMES, **modules}.items():
        (folder / "shop" / f"{name}.py").write_text(text)
    (folder / "pyproject.toml").write_text(LAYERS)
    return walk(Package(folder, "shop"), "shop.front", "sell", "item"), Layers(folder / "pyproject.toml")


def files(found: Journey) -> list[str]:
    return [module.removeprefix("shop.") for module, _ in found.stops]


def test_visits_to_a_file_are_counted(tmp_path: Path) -> None:
    front = "from shop import stock\nfrom shop.names import read\ndef sell(item):\n    stock.take(item)\n    read(item)\n    _wrap(item)\n"
    front += "def _wrap(item):\n    print(item)\n"
    stock = "def take(item):\n    _count(item)\ndef _count(item):\n    print(item)\n"
    found, layers = journey(tmp_path, front, stock=stock)
    assert files(found) == ["front", "stock", "names", "front"]
    assert (found.files, found.returns, found.climbs(layers)) == (3, 1, 1)


def test_function_is_followed_once(tmp_path: Path) -> None:
    front = "from shop import stock\ndef sell(item):\n    stock.take(item)\n    stock.take(item)\n"
    stock = "from shop.names import read\ndef take(item):\n    read(item)\n"
    assert files(journey(tmp_path, front, stock=stock)[0]) == ["front", "stock", "names", "stock"]


def test_accessor_is_read_in_place(tmp_path: Path) -> None:
    front = "from shop import names, stock\ndef sell(item):\n    place = names.shelf(item)\n    stock.take(place)\n"
    assert files(journey(tmp_path, front, stock="def take(place):\n    print(place)\n")[0]) == ["front", "stock"]


def test_result_is_another_value(tmp_path: Path) -> None:
    front = "from shop import names, stock\ndef sell(item):\n    stock.take(names.read(item))\n"
    assert files(journey(tmp_path, front, stock="def take(text):\n    print(text)\n")[0]) == ["front", "names"]


def test_object_that_holds_the_value_is_followed(tmp_path: Path) -> None:
    front = """
from shop import stock
from shop.names import read
def sell(item):
    order = stock.Order.of(item)
    stock.take(order)
"""
    stock = """
from shop.names import read
class Order:
    item: str
    price: str
    @classmethod
    def of(cls, item):
        return cls(item, read(item))
def take(order):
    _charge(order.price)
    read(order.item)
def _charge(price):
    print(price)
"""
    found, _ = journey(tmp_path, front, stock=stock)
    assert files(found) == ["front", "names", "stock", "names"]
    assert "_charge" not in [name for _, names in found.stops for name in names]


def test_method_of_object_is_a_stop(tmp_path: Path) -> None:
    front = "from shop.till import Till\ndef sell(item):\n    till = Till(item)\n    print()\n    till.ring()\n"
    till = "from shop.names import read\nclass Till:\n    def __init__(self, item):\n        self._item = item\n"
    till += "    def ring(self):\n        read(self._item)\n"
    assert files(journey(tmp_path, front, till=till)[0]) == ["front", "till", "names"]


def test_partial_and_further_arguments_are_followed(tmp_path: Path) -> None:
    front = "from functools import partial\nfrom shop import stock\ndef sell(item):\n    later = partial(stock.take, item)\n    later()\n"
    stock = "from shop.names import read\ndef take(*items):\n    read(items)\n"
    assert files(journey(tmp_path, front, stock=stock)[0]) == ["front", "stock", "names"]


def test_function_that_is_chosen_at_run_time_is_listed(tmp_path: Path) -> None:
    front = "from shop.names import read\ndef sell(item, say):\n    found = say(item)\n    read(found)\n"
    found, _ = journey(tmp_path, front)
    assert (files(found), found.lost) == (["front"], ("shop.front:3 say",))


def test_function_that_is_chosen_can_be_named(tmp_path: Path) -> None:
    journey(tmp_path, "def sell(item, say):\n    say(item)\n")
    package = Package(tmp_path, "shop")
    assert files(walk(package, "shop.front", "sell", "item", {"say": ["shop.names:read"]})) == ["front", "names"]


def test_unknown_start_is_an_error(tmp_path: Path) -> None:
    journey(tmp_path, "def sell(item):\n    print(item)\n")
    for function, value in (("buy", "item"), ("sell", "price")):
        with pytest.raises(LookupError, match=r"shop\.front"):
            walk(Package(tmp_path, "shop"), "shop.front", function, value)


def test_listed_journeys_are_within_their_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row[:52].strip() for row in rows] == [route.name for route in read_routes()]


def test_journey_above_its_limit_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    drift = Route("drift", "stack", ("rackwright.cli.drift", "drift"), 3)
    monkeypatch.setattr("journeys.__main__.read_routes", lambda: [drift])
    assert main([]) == 1 and "more than 3 stops" in capsys.readouterr().out
