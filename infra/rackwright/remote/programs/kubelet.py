"""Run on the node, of Kubernetes: query the services that the node reaches, and read its files.

Input: {"topic": a key of TOPICS, "arguments": [words]}.
Output: what checks need of that topic, as JSON. Nothing is written, and no key and no secret is printed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import base64
import calendar
import concurrent.futures
import glob
import http.client
import os
import re
import socket
import ssl
import stat
import struct
import time
from collections.abc import Iterator
from typing import Any

PATIENCE = 2 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
"""Seconds for one response; the round measures the node's slowness (docs/adr/0026)."""
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
NETWORKS = "/etc/cni/net.d"
MANIFESTS = "/etc/kubernetes/manifests"
KUBECONFIGS = "/etc/kubernetes/*.conf"
PRIVATE = (
    KUBECONFIGS,
    "/root/.kube/config",
    "/var/lib/kubelet/pki/*.pem",
    "/var/lib/kubelet/pki/*.key",
    "/etc/kubernetes/rackwright/*.yaml",
)
KEYS = ("/etc/kubernetes/pki/*.key", "/etc/kubernetes/pki/etcd/*.key")
CERTIFICATES = ("/etc/kubernetes/pki/*.crt", "/etc/kubernetes/pki/etcd/*.crt", KUBELET)
VALIDITY = re.compile(rb"\x30[\x1e\x20\x22](?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d(\d{12})|\x18\x0f(\d{14}))Z")
"""Validity of a certificate in DER: two times, the second is its end (RFC 5280, 4.1.2.5)."""


def web(address: str, port: int, path: str, tls: ssl.SSLContext | None) -> str:
    """Return the HTTP status of a path, or the reason why there is none."""
    kind: Any = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    more = {"context": tls} if tls else {}
    connection = kind(address, port, timeout=PATIENCE, **more)
    try:
        connection.request("GET", path)
        return f"status {connection.getresponse().status}"
    except ConnectionRefusedError:
        return "refused"
    except (OSError, http.client.HTTPException) as error:  # ssl.SSLError is an OSError, as is socket.timeout.
        if isinstance(error, socket.timeout) or "timed out" in str(error):
            return f"no answer within {PATIENCE} s"
        return f"TLS: {error.reason or error}" if isinstance(error, ssl.SSLError) else str(error) or repr(error)
    finally:
        connection.close()


def resolve(server: str, name: str, port: int = 53) -> str:
    """Return the addresses that a DNS server returns for a name, or the reason why there are none (RFC 1035)."""
    question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0" + struct.pack(">HH", 1, 1)
    number = os.getpid() & 0xFFFF
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(PATIENCE)
        try:
            asking.connect((server, port))  # An unconnected socket receives no refusal.
            asking.send(struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + question)
            answer = asking.recv(4096)
        except socket.timeout:
            return f"no answer within {PATIENCE} s"
        except ConnectionRefusedError:
            return "refused"
        except OSError as error:
            return str(error)
    try:
        code, count = answer[3] & 15, struct.unpack(">H", answer[6:8])[0]
        return f"status {code}" if code else ", ".join(addresses(answer, 12 + len(question), count)) or "no address"
    except (IndexError, struct.error):
        return f"a truncated response of {len(answer)} bytes"


def addresses(answer: bytes, at: int, count: int) -> Iterator[str]:
    """Yield the A records of an answer section that starts at an offset."""
    for _ in range(count):
        while answer[at] and answer[at] < 192:
            at += answer[at] + 1
        at += 2 if answer[at] else 1
        kind, _, _, length = struct.unpack(">HHIH", answer[at : at + 10])
        if kind == 1:
            yield socket.inet_ntoa(answer[at + 10 : at + 14])
        at += 10 + length


def answers(endpoint: str, service: str, dns: str, me: str) -> dict[str, str]:
    """Return which services respond to this node: the API over both paths, the kubelet, DNS."""
    # The responses to an unauthenticated client are tested here, not the name in the certificate.
    trusting = ssl._create_unverified_context()
    verified = ssl.create_default_context(cafile=AUTHORITY)
    host, port = endpoint.rsplit(":", 1)
    queries = {
        "endpoint": lambda: web(host, int(port), "/readyz", verified),
        "service": lambda: web(service, 443, "/readyz", verified),
        "anonymous request to the API for nodes": lambda: web(host, int(port), "/api/v1/nodes", trusting),
        "anonymous request to the API for secrets": lambda: web(host, int(port), "/api/v1/secrets", trusting),
        "kubelet": lambda: web("127.0.0.1", 10248, "/healthz", None),
        "anonymous request to the kubelet for pods": lambda: web(me, 10250, "/pods", trusting),
        "anonymous request to the kubelet for its configuration": lambda: web(me, 10250, "/configz", trusting),
        "read-only port": lambda: web(me, 10255, "/pods", None),
        "name inside": lambda: resolve(dns, "kubernetes.default.svc.cluster.local"),
        "name of nothing": lambda: resolve(dns, "nothing.default.svc.cluster.local"),
    }
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(queries)) as pool:
        started = {name: pool.submit(query) for name, query in queries.items()}
        return {name: one.result() for name, one in started.items()}


def ends(text: bytes) -> int | None:
    """Return when the first certificate in a PEM text ends, in seconds since the epoch; null if there is none."""
    block = re.search(rb"-----BEGIN CERTIFICATE-----(.*?)-----END", text, re.DOTALL)
    try:
        found = VALIDITY.search(base64.b64decode(block[1])) if block else None
    except ValueError:  # binascii.Error: the text is cut.
        return None
    if not found:
        return None
    short, full = found[1], found[2]
    century = b"" if full else (b"20" if short < b"50" else b"19")
    return calendar.timegm(time.strptime((century + (short or full)).decode(), "%Y%m%d%H%M%S"))


def content(path: str) -> bytes:
    """Return a file's bytes; none for a link whose target is missing, and for a file that was just replaced."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def decoded(text: bytes) -> bytes:
    """Return the bytes of a base64 text; none if it is cut."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""


def listed(folder: str) -> list[str]:
    """Return the names in a folder; none if it does not exist."""
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def certificates() -> dict[str, float | None]:
    """Return the seconds for which each certificate is still valid, by path; null if it is unreadable."""
    now = time.time()
    found: dict[str, float | None] = {}
    for path in (path for pattern in CERTIFICATES for path in sorted(glob.glob(pattern))):
        end = ends(content(path))
        found[path] = None if end is None else end - now
    for path in sorted(glob.glob(KUBECONFIGS)):
        held = re.search(rb"client-certificate-data: (\S+)", content(path))
        if held:
            end = ends(decoded(held[1]))
            found[path] = None if end is None else end - now
    return found


def private() -> dict[str, list[int]]:
    """Return owner and mode of each file that only root may read."""
    found = {}
    for path in (path for pattern in (*PRIVATE, *KEYS) for path in sorted(glob.glob(pattern))):
        try:
            about = os.stat(path)
        except FileNotFoundError:  # A link whose target is missing holds nothing.
            continue
        found[path] = [about.st_uid, stat.S_IMODE(about.st_mode)]
    return found


def files() -> dict[str, Any]:
    """Return what checks need of this node's Kubernetes files."""
    plugins = [name for name in listed(NETWORKS) if name.endswith((".conf", ".conflist", ".json"))]
    networks = {name: content(os.path.join(NETWORKS, name)).decode("utf-8", "replace") for name in plugins}
    # The kubelet skips folders and hidden files, and reads all others, whatever their names (pkg/kubelet/config/file.go).
    pods = [name for name in listed(MANIFESTS) if not name.startswith(".") and not os.path.isdir(os.path.join(MANIFESTS, name))]
    joined = os.path.exists(KUBELET)
    return {"certificates": certificates(), "private": private(), "networks": networks, "static_pods": pods, "joined": joined}


TOPICS: dict[str, Any] = {"answers": answers, "files": files}


def main(request: dict[str, Any]) -> Any:
    """Query one topic."""
    return TOPICS[request["topic"]](*request.get("arguments", ()))
