"""Requests by ARP on a node: who answers for an address. Socket and routes are played."""

from __future__ import annotations

import json
import socket
import struct
from types import SimpleNamespace

import pytest

from rackwright.remote.programs import arp

OWN = bytes.fromhex("02420a4d0010")
TARGET = "10.77.0.12"


def reply(mac, address=TARGET, operation=2):
    """Return a frame in which a device reports its hardware address for an address."""
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + bytes.fromhex(mac) + socket.inet_aton(address) + OWN + bytes(4)
    return OWN + bytes.fromhex(mac) + b"\x08\x06" + body


class PlayedLink:
    """A socket that returns these frames, one a request, and nothing more."""

    def __init__(self, frames):
        self.frames, self.sent = list(frames), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def bind(self, place):
        self.place = place

    def getsockname(self):
        return (*self.place, 0, 1, OWN)

    def settimeout(self, seconds):
        assert seconds > 0

    def send(self, frame):
        self.sent.append(frame)

    def recv(self, _):
        if not self.frames:
            raise TimeoutError
        return self.frames.pop(0)


@pytest.fixture
def answers(monkeypatch):
    def run(*frames, route=None, more=0.05):
        link = PlayedLink(frames)
        found = json.dumps([route or {"dev": "eth0", "prefsrc": "10.77.0.16"}])
        monkeypatch.setattr(arp.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=found))
        monkeypatch.setattr(arp.socket, "socket", lambda *_: link)
        return arp.answers(TARGET, 0.2, more), link

    return run


def test_one_device_answers(answers):
    found, link = answers(reply("aabbccddee01"))
    assert found == ["aa:bb:cc:dd:ee:01"] and link.place == ("eth0", 0x0806)
    sent = link.sent[0]
    assert sent[:6] == b"\xff" * 6 and sent[6:12] == OWN and sent[28:32] == socket.inet_aton("10.77.0.16")
    assert (sent[20:22], sent[38:42]) == (b"\x00\x01", socket.inet_aton(TARGET))


def test_second_device_with_the_address_is_seen(answers):
    assert answers(reply("aabbccddee02"), reply("aabbccddee01"))[0] == ["aa:bb:cc:dd:ee:01", "aa:bb:cc:dd:ee:02"]


@pytest.mark.parametrize(
    "frame", [reply("aabbccddee01", "10.77.0.13"), reply("aabbccddee01", operation=1), b"short"], ids=["other", "request", "short"]
)
def test_other_traffic_is_no_answer(answers, frame):
    assert answers(frame)[0] == []


def test_router_on_the_way_is_told(answers):
    with pytest.raises(ValueError, match=r"10\.77\.0\.12 is behind the router 10\.77\.0\.1"):
        answers(route={"dev": "eth0", "prefsrc": "10.9.0.2", "gateway": "10.77.0.1"})


def test_own_address_is_not_asked_for(answers):
    found, link = answers(reply("aabbccddee01"), route={"dev": "lo", "prefsrc": TARGET})
    assert found == [] and link.sent == []
