"""Which changes are sent, and that a failed channel stops no other."""

from __future__ import annotations

import json
import re
import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rackwright.drift import notifications
from rackwright.drift.difference import Category, DriftItem, Layer, LayerScan
from rackwright.drift.document import DriftReport, State
from rackwright.drift.history import HistoryDelta

PAGE = Path("/home/a/lab/drift.html")
STOPPED = DriftItem(Layer.BEHAVIOUR, "worker0", "munge.service_runs", "active", "inactive", Category.BREAKING, "start it")
ALLOWED = DriftItem(Layer.BEHAVIOUR, "worker0", "gpu.count_matches_plan", "8", "7", Category.EXPECTED, "")


def scan(*differences, unknown=()):
    three = (LayerScan(Layer.RESOURCES, 1.0), LayerScan(Layer.CONFIGURATION, 1.0), LayerScan(Layer.BEHAVIOUR, 1.0, differences, unknown))
    return DriftReport("lab", "0" * 12, datetime(2026, 11, 23, tzinfo=UTC), 2.0, three)


def told(found, *, new=(), resolved=(), before=None):
    return notifications.message(found, HistoryDelta(tuple(new), tuple(resolved), before), PAGE)


class TestMessages:
    @pytest.mark.parametrize("before", [None, State.CLEAN])
    def test_unchanged_clean_state_sends_nothing(self, before):
        assert told(scan(), before=before) is None

    def test_unchanged_differences_send_nothing(self):
        assert told(scan(STOPPED), before=State.DRIFTED) is None

    def test_ignored_differences_send_nothing(self):
        assert told(scan(ALLOWED), new=[ALLOWED], before=State.CLEAN) is None

    def test_additional_difference_is_sent(self):
        message = told(scan(STOPPED), new=[STOPPED], before=State.DRIFTED)
        assert "munge.service_runs on worker0: inactive" in message.body and str(PAGE) in message.body

    def test_mail_contains_no_file_lines(self):
        edited = replace(STOPPED, layer=Layer.CONFIGURATION, subject="scheduler.Run slurmctld", live="/etc/x: a-line")
        message = told(scan(edited), new=[edited], before=State.CLEAN)
        assert "scheduler.Run slurmctld on worker0" in message.body and "a-line" not in message.body

    def test_resolved_differences_are_sent(self):
        message = told(scan(), resolved=[STOPPED], before=State.DRIFTED)
        assert message.subject == "rackwright: lab: clean, was drifted" and "resolved: munge.service_runs" in message.body

    def test_unknown_state_is_sent(self):
        message = told(scan(unknown=(("worker1", "unreachable"),)), before=State.CLEAN)
        assert message.state is State.UNKNOWN and "unknown: worker1, behaviour: unreachable" in message.body

    def test_missing_scan_is_sent(self):
        message = notifications.overdue("lab", timedelta(hours=30), timedelta(hours=26))
        assert "no drift scan finished for 30 h" in message.subject and "rackwright-drift-lab.timer" in message.body


MESSAGE = notifications.Message("lab", State.DRIFTED, "rackwright: lab: drifted", "worker0\npage")


@pytest.fixture
def webhook():
    """Yield a server that stores what is posted to it; its address ends in a secret."""
    posted = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(404 if "wrong" in self.path else 204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", posted
    server.shutdown()
    server.server_close()


@pytest.fixture
def mail():
    """Yield a mail server that accepts one mail (RFC 5321, as far as one mail needs it)."""
    letters = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listening.accept()
        with connection, connection.makefile("rwb") as wire:

            def say(text):
                wire.write(text + b"\r\n")
                wire.flush()

            say(b"220 here")
            while line := wire.readline():
                if line.upper().startswith(b"DATA"):
                    say(b"354 go on")
                    letters.append(b"".join(iter(wire.readline, b".\r\n")).decode())
                say(b"221 bye" if line.upper().startswith(b"QUIT") else b"250 ok")
                if line.upper().startswith(b"QUIT"):
                    return

    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{listening.getsockname()[1]}", letters
    listening.close()


class TestChannels:
    def test_mail_is_sent(self, mail):
        server, letters = mail
        assert notifications.send(MESSAGE, notifications.Channels(mail_to=("ops@example.org", "b@example.org"), mail_server=server)) == []
        assert "To: ops@example.org, b@example.org" in letters[0] and "Subject: rackwright: lab: drifted" in letters[0]
        assert "worker0" in letters[0]
        assert "\nDate: " in letters[0] and re.search(r"\nMessage-ID: <[^>]+@example\.org>", letters[0])

    def test_webhook_is_called(self, webhook, tmp_path):
        address, posted = webhook
        (tmp_path / "hook").write_text(f"{address}/services/secret\n")
        assert notifications.send(MESSAGE, notifications.Channels(webhook_url_file=tmp_path / "hook")) == []
        assert posted == [{"text": "rackwright: lab: drifted\nworker0\npage", "stack": "lab", "state": "drifted"}]

    def test_custom_command_is_run(self, tmp_path):
        command = ("sh", "-c", f'{{ echo "$RACKWRIGHT_STACK $RACKWRIGHT_DRIFT_STATE"; cat; }} > {tmp_path}/told')
        assert notifications.send(MESSAGE, notifications.Channels(command=command)) == []
        assert (tmp_path / "told").read_text() == "lab drifted\nrackwright: lab: drifted\nworker0\npage\n"

    def test_failed_channel_is_named_and_others_continue(self, webhook, tmp_path):
        address, posted = webhook
        (tmp_path / "hook").write_text(f"{address}/services/secret")
        channels = notifications.Channels(
            mail_to=("a@b.c",), mail_server="127.0.0.1:1", webhook_url_file=tmp_path / "hook", command=("false",)
        )
        wrong = notifications.send(MESSAGE, channels)
        assert [line.split(":")[0] for line in wrong] == ["mail notification failed", "command notification failed"] and len(posted) == 1

    @pytest.mark.parametrize("held", ["{}/services/secret-wrong", "services/secret", "ftp://services/secret"])
    def test_webhook_address_stays_secret_on_failure(self, webhook, tmp_path, held):
        (tmp_path / "hook").write_text(held.format(webhook[0]))
        (only,) = notifications.send(MESSAGE, notifications.Channels(webhook_url_file=tmp_path / "hook"))
        assert "webhook notification failed" in only and "secret" not in only

    def test_missing_recipients_send_nothing(self):
        assert notifications.send(MESSAGE, notifications.Channels()) == []
