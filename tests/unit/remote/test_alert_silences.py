"""Silences of one owner in Alertmanager: created, extended and ended, and those of others left alone."""

from __future__ import annotations

from typing import Any

import pytest

from rackwright.remote.programs import alert_silences
from rackwright.remote.programs.alert_silences import identity, moment, reconcile, silence

NOW = 1795784783.0
WANTED = {"nodes": ["worker1", "worker0"], "comment": "rackwright: rolling update (worker1, worker0)", "seconds": 5000}


class Alertmanager:
    """Silences by id, as the API returns and takes them."""

    def __init__(self, *live: dict[str, Any]) -> None:
        self.live = {one["id"]: one for one in live}
        self.sent: list[tuple[str, str]] = []

    def get(self, path: str) -> Any:
        assert path == "/api/v2/silences"
        return list(self.live.values())

    def send(self, method: str, path: str, body: Any = None) -> str:
        self.sent.append((method, path))
        if method == "DELETE":
            del self.live[path.rpartition("/")[2]]
            return ""
        name = body.get("id", f"new{len(self.live)}")
        self.live[name] = {**body, "id": name, "status": {"state": "active"}}
        return name


def live(number: int, seconds: float, owner: str = "rolling-update", state: str = "active", **changed: Any) -> dict[str, Any]:
    """Return a silence that ends in some seconds."""
    body = silence({**WANTED, "seconds": seconds, **changed}, f"rackwright {owner}", NOW)
    return {**body, "id": f"s{number}", "status": {"state": state}}


def run(api: Alertmanager, *wanted: dict[str, Any], linger_s: float = 40) -> dict[str, int]:
    return reconcile(api, {"owner": "rolling-update", "wanted": list(wanted), "linger_s": linger_s}, NOW)


def test_silence_selects_nodes_and_names_its_creator() -> None:
    api = Alertmanager()
    assert run(api, WANTED) == {"created": 1, "extended": 0, "ended": 0}
    (made,) = api.live.values()
    assert made["matchers"] == [{"name": "instance", "value": "worker0|worker1", "isRegex": True, "isEqual": True}]
    assert (made["createdBy"], made["comment"]) == ("rackwright rolling-update", WANTED["comment"])
    assert (made["startsAt"], made["endsAt"]) == (moment(NOW), moment(NOW + 5000))


@pytest.mark.parametrize(
    ("present", "wanted", "counts"),
    [
        pytest.param([live(1, 4990)], [WANTED], {}, id="wanted-and-there"),
        pytest.param([live(1, 30)], [WANTED], {"extended": 1}, id="ends-too-soon"),
        pytest.param([live(1, 0, state="expired")], [WANTED], {"created": 1}, id="expired"),
        pytest.param([live(1, 4990)], [], {"ended": 1}, id="no-longer-wanted"),
        pytest.param([live(1, 20)], [], {}, id="ends-by-itself"),
        pytest.param([live(1, 4990, owner="out")], [], {}, id="of-another-owner"),
        pytest.param([{**live(1, 4990), "createdBy": "alice"}], [], {}, id="of-a-person"),
        pytest.param([live(1, 4990, nodes=["worker2"])], [WANTED], {"created": 1, "ended": 1}, id="of-other-nodes"),
    ],
)
def test_silences_become_the_wanted_ones(present: list[dict[str, Any]], wanted: list[dict[str, Any]], counts: dict[str, int]) -> None:
    api = Alertmanager(*present)
    assert run(api, *wanted) == {"created": 0, "extended": 0, "ended": 0, **counts}
    after = [one for one in api.live.values() if one["status"]["state"] == "active" and one["createdBy"] == "rackwright rolling-update"]
    lasting = {identity(one) for one in after if alert_silences.remaining(one, NOW) > 40}
    assert lasting == {identity(silence(one, "rackwright rolling-update", NOW)) for one in wanted}
    assert reconcile(api, {"owner": "rolling-update", "wanted": wanted, "linger_s": 40}, NOW) == {"created": 0, "extended": 0, "ended": 0}


def test_ended_silence_lasts_until_nodes_are_read_again() -> None:
    """Alerts that are still firing would be sent when the silence ends, and resolved seconds later."""
    api = Alertmanager(live(1, 4990))
    run(api)
    assert api.live["s1"]["endsAt"] == moment(NOW + 40)
    api = Alertmanager(live(1, 4990))
    run(api, linger_s=0)
    assert api.live == {}
