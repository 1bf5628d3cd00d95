"""The model server as a process with a stand-in for PyTorch: batches, a full queue, errors, and SIGTERM under load."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rackwright.workloads.inference.load import Outcome, Target, send

NAME = "demo"
_SERVER = """
import sys, time
from rackwright.workloads.inference.engine import Engine
from rackwright.workloads.inference.http_server import Drain, ModelServer
from rackwright.workloads.inference.metrics import Metrics
from rackwright.workloads.inference.serve import run

class Alphabet:
    context = 128
    largest = 0

    def next_tokens(self, texts, temperatures):
        time.sleep(float(sys.argv[1]))
        if any(b"fail" in text for text in texts):
            raise RuntimeError("no memory")
        return [ord("a") + len(text) % 26 for text in texts]

metrics = Metrics("demo", {"checkpoint": sys.argv[2]})
server = ModelServer(("127.0.0.1", 0), Engine(Alphabet(), metrics, limit=int(sys.argv[3])), "demo", sys.argv[2])
print(server.server_address[1], flush=True)
sys.exit(min(run(server, Drain(least=0.6, quiet=0.3, most=20)), 1))
"""


class Server:
    """A running server."""

    def __init__(self, *, seconds: float = 0.002, fingerprint: str = "step-1", queue: int = 24) -> None:
        command = [sys.executable, "-c", _SERVER, str(seconds), fingerprint, str(queue)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())

    def ask(self, path: str, body: Any = None) -> tuple[int, str, dict[str, str]]:
        """Return status, text and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = body if body is None or isinstance(body, str) else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())

    def complete(self, **parameters: Any) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a completion."""
        status, text, _ = self.ask("/v1/completions", {"model": NAME, "prompt": "ab", "max_tokens": 3, **parameters})
        found: dict[str, Any] = json.loads(text)
        return status, found

    def target(self, *, tokens: int = 8, patience: float = 30) -> Target:
        """Return the server as clients know it."""
        return Target("127.0.0.1", self.port, NAME, tokens, patience)

    def metric(self, name: str) -> float:
        """Return the sum of a metric's values."""
        families = text_string_to_metric_families(self.ask("/metrics")[1])
        return sum(one.value for family in families for one in family.samples if one.name == name)


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Yield what starts a server; end all of them."""
    servers: list[Server] = []

    def begin(**options: Any) -> Server:
        servers.append(Server(**options))
        return servers[-1]

    yield begin
    for one in servers:
        one.process.kill()
        one.process.wait()
        assert one.process.stdout
        one.process.stdout.close()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for a state that is certain to occur."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_completion_is_one_of_openai(start: Callable[..., Server]) -> None:
    server = start()
    status, found = server.complete()
    assert (status, found["object"], found["model"], found["system_fingerprint"]) == (200, "text_completion", NAME, "step-1")
    assert found["choices"] == [{"index": 0, "text": "cde", "logprobs": None, "finish_reason": "length"}]
    assert found["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    models = json.loads(server.ask("/v1/models")[1])
    assert [one["id"] for one in models["data"]] == [NAME] and models["data"][0]["max_model_len"] == 128


def test_stream_has_each_token_and_end(start: Callable[..., Server]) -> None:
    body = {"model": NAME, "prompt": "ab", "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    status, text, headers = start().ask("/v1/completions", body)
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    parts = [json.loads(line) for line in lines[:-1]]
    assert (status, headers["Content-Type"], lines[-1]) == (200, "text/event-stream", "[DONE]")
    assert [one["choices"][0]["text"] for one in parts[:-1]] == ["c", "d", "e", ""]
    assert parts[-2]["choices"][0]["finish_reason"] == "length" and parts[-1]["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ("{", 400, None),
        ([], 400, None),
        ({"model": "other", "prompt": "a"}, 404, "model"),
        ({"model": NAME}, 400, "prompt"),
        ({"model": NAME, "prompt": ["a", "b"]}, 400, "prompt"),
        ({"model": NAME, "prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
        ({"model": NAME, "prompt": "a" * 100, "max_tokens": 29}, 400, "max_tokens"),
        ({"model": NAME, "prompt": "a", "temperature": 3}, 400, "temperature"),
        ({"model": NAME, "prompt": "a", "n": 2}, 400, "n"),
        ({"model": NAME, "prompt": "a", "logprobs": 1}, 400, "logprobs"),
        ({"model": NAME, "prompt": "a", "stream": "yes"}, 400, "stream"),
        ({"model": NAME, "prompt": "a" * 70000}, 413, None),
    ],
)
def test_bad_request_gets_error_of_openai(start: Callable[..., Server], body: Any, status: int, param: str | None) -> None:
    found, text, _ = start().ask("/v1/completions", body)
    error = json.loads(text)["error"]
    assert (found, error["type"], error["param"]) == (status, "invalid_request_error", param) and error["message"]


def test_unknown_path_is_not_found(start: Callable[..., Server]) -> None:
    server = start()
    assert server.ask("/v2")[0] == server.ask("/v1/chat/completions", {})[0] == 404


def test_failed_step_ends_its_batch_only(start: Callable[..., Server]) -> None:
    server = start()
    status, found = server.complete(prompt="fail")
    assert status == 500 and found["error"] == {"message": "error: no memory", "type": "server_error", "param": None, "code": None}
    assert server.complete()[0] == 200


def test_requests_share_batch_of_eight(start: Callable[..., Server]) -> None:
    server = start(seconds=0.05)
    threads = [threading.Thread(target=send, args=(server.target(tokens=12), "ab", ""), daemon=True) for _ in range(12)]
    for one in threads:
        one.start()
    wait_until(lambda: server.metric("vllm:num_requests_running") == 8 and server.metric("vllm:num_requests_waiting") == 4)
    for one in threads:
        one.join()
    assert server.metric("vllm:request_success_total") == server.metric("vllm:e2e_request_latency_seconds_count") == 12
    assert server.metric("vllm:generation_tokens_total") == 144


def test_full_queue_refuses_with_retry_after(start: Callable[..., Server]) -> None:
    server = start(seconds=0.05, queue=2)
    threads = [threading.Thread(target=send, args=(server.target(tokens=100), "ab", ""), daemon=True) for _ in range(10)]
    for one in threads:
        one.start()
    wait_until(lambda: server.metric("vllm:num_requests_waiting") == 2)
    status, text, headers = server.ask("/v1/completions", {"model": NAME, "prompt": "ab"})
    assert (status, headers["Retry-After"], json.loads(text)["error"]["type"]) == (429, "1", "rate_limit_error")
    assert send(server.target(patience=0.5), "ab", "").lost == "refused 1 times in 0 s"
    assert server.metric("rackwright_requests_refused_total") == 2


def test_metrics_have_names_and_labels_of_vllm(start: Callable[..., Server]) -> None:
    server = start()
    server.complete()
    families = {one.name: one for one in text_string_to_metric_families(server.ask("/metrics")[1])}
    kinds = {
        "vllm:num_requests_running": "gauge",
        "vllm:num_requests_waiting": "gauge",
        "vllm:prompt_tokens": "counter",
        "vllm:generation_tokens": "counter",
        "vllm:request_success": "counter",
        "vllm:time_to_first_token_seconds": "histogram",
        "vllm:request_queue_time_seconds": "histogram",
        "vllm:e2e_request_latency_seconds": "histogram",
    }
    assert {name: families[name].type for name in kinds} == kinds
    for name in kinds:
        assert all(one.labels["model_name"] == NAME and one.labels["engine"] == "0" for one in families[name].samples), name
    buckets = [one.value for one in families["vllm:time_to_first_token_seconds"].samples if one.name.endswith("_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == 1


def test_client_that_leaves_frees_its_place(start: Callable[..., Server]) -> None:
    server = start(seconds=0.02)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/v1/completions", json.dumps({"model": NAME, "prompt": "ab", "max_tokens": 126, "stream": True}))
    answer = connection.getresponse()
    answer.readline()
    answer.close()
    wait_until(lambda: server.metric("vllm:num_requests_running") == 0)
    assert server.metric("vllm:generation_tokens_total") < 126


def test_sigterm_under_load_loses_no_request(start: Callable[..., Server]) -> None:
    """Clients go on to connect for a while after SIGTERM, as while kube-proxy still has the endpoint; then they use the other server."""
    old, new = start(seconds=0.01, fingerprint="old"), start(seconds=0.01, fingerprint="new")
    ports, ends, outcomes = [old.port], threading.Event(), list[Outcome]()

    def client() -> None:
        while not ends.is_set():
            outcomes.append(send(Target("127.0.0.1", ports[0], NAME, 8), "ab", ""))

    clients = [threading.Thread(target=client, daemon=True) for _ in range(20)]
    for one in clients:
        one.start()
    wait_until(lambda: len(outcomes) > 40)
    old.process.send_signal(signal.SIGTERM)
    wait_until(lambda: old.ask("/health")[0] == 503)
    before = len(outcomes)
    wait_until(lambda: len(outcomes) > before + 20)
    assert new.ask("/health")[0] == 200
    ports[0] = new.port
    assert old.process.wait(timeout=30) == 0
    after = len(outcomes)
    wait_until(lambda: len(outcomes) > after + 20)
    ends.set()
    for one in clients:
        one.join()
    assert [one.lost for one in outcomes if one.lost] == []
    assert {one.fingerprint for one in outcomes} == {"old", "new"} and all(one.tokens == 8 for one in outcomes)


def test_probes_do_not_delay_end(start: Callable[..., Server]) -> None:
    """A kubelet probes a container until it has ended."""
    server = start()
    begun = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    while server.process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.ask("/health")
        time.sleep(0.1)
    assert time.monotonic() - begun < 15, "the longest drain of this server is 20 s"


def test_killed_server_loses_requests(start: Callable[..., Server]) -> None:
    """What the test above would count, if the server ended at once."""
    server = start(seconds=0.05)
    outcomes: list[Outcome] = []
    threads = [threading.Thread(target=lambda: outcomes.append(send(server.target(tokens=60), "ab", "")), daemon=True) for _ in range(10)]
    for one in threads:
        one.start()
    wait_until(lambda: server.metric("vllm:num_requests_running") == 8)
    server.process.kill()
    for one in threads:
        one.join()
    assert len([one for one in outcomes if one.lost]) == 10
